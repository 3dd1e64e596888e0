"""`evolve`: the whole job in one call, and the same as a coroutine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import msgspec

from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import SingleSlot, Strategy, render
from agentdescent.blocking import Cancellation, run_blocking
from agentdescent.budget.governor import Caps
from agentdescent.budget.tariff import Tariff
from agentdescent.budget.usage import Amount
from agentdescent.driver import DEADLINE, Run
from agentdescent.effects import Ports, describe, ports_of
from agentdescent.engine.event import Event, Judged, RolledOut, StopReason
from agentdescent.engine.spec import Admission, Fusion, GateOrder, Setup, Spec, Staleness
from agentdescent.engine.state import State
from agentdescent.engine.validation import check, check_caps
from agentdescent.errors import RunError, UsageError
from agentdescent.history import gates, rounds
from agentdescent.history.gates import Savings
from agentdescent.history.interval import wilson
from agentdescent.history.memory import MemoryLog
from agentdescent.history.outcomes import outcomes
from agentdescent.history.rounds import RoundInfo, Tally
from agentdescent.history.spend import by_subject
from agentdescent.history.summary import BudgetSummary, summarise
from agentdescent.merge.acceptance import MILLION, Acceptance
from agentdescent.merge.scores import Scores
from agentdescent.merge.verdict import Outcome
from agentdescent.ports import Log, Repeat, Task
from agentdescent.recovery import Observer


class EvolutionResult(msgspec.Struct, frozen=True):
    """What a run came to. Rewards are means in [0, 1]; None where the run ended before they were known.

    `base`, `final`: the start and the head on the held-out tasks, which decided what was kept, so `final` is
    optimistic. `test_base`, `test_final`: on tasks that no decision read, with a 95 % Wilson interval of the latter.
    `stable`: version of the last promoted head. `saved`: what curtailed gates did not have to ask. `expected_junk`:
    how many of the commits are no improvement, expected by the evidence they were kept on (the sum of 1 - P).
    """

    rendered: str
    entries: Entries
    version: int
    stable: int
    base: float | None
    final: float | None
    test_base: float | None
    test_final: float | None
    test_interval: tuple[float, float] | None
    history: tuple[RoundInfo, ...]
    rounds: int
    stop_reason: StopReason
    error: str
    budget: BudgetSummary
    saved: Savings
    expected_junk: float
    warnings: tuple[str, ...]
    digest: str
    log: Log
    state: State

    @property
    def log_path(self) -> str | None:
        return self.log.path

    def outcomes(self) -> dict[int, Outcome]:
        """How every proposal and candidate ended, by number. Reads the log."""
        return outcomes(self.log.events())

    def spend_by_candidate(self) -> dict[int, Amount]:
        """What was spent for every proposal and candidate, by number; -1: for none of them. Reads the log."""
        return by_subject(self.log.events())


def mean_of(scores: Scores | None) -> float | None:
    return scores.total / (MILLION * scores.count) if scores is not None and scores.count else None


class _Watcher:
    """Folds the projections that the result shows while the run goes on."""

    def __init__(self, on_round: Callable[[RoundInfo], object] | None) -> None:
        self.tally = Tally()
        self.saved = Savings()
        self.junk = 0.0
        self.history: list[RoundInfo] = []
        self.on_round = on_round

    def fold(self, event: Event, state: State) -> RoundInfo | None:
        if isinstance(event, Judged):
            self.saved = gates.observe(self.saved, event, state)
            self.junk += gates.doubt(event)
        self.tally, done = rounds.observe(self.tally, event, state)
        if done is not None:
            self.history.append(done)
        return done

    def __call__(self, event: Event, state: State) -> None:
        if isinstance(event, RolledOut):  # half of all events, of which no projection wants to know
            return
        done = self.fold(event, state)
        if done is not None and self.on_round is not None:
            self.on_round(done)


class Options(TypedDict, total=False):
    """What `evolve` and `async_evolve` take besides the tasks and the reward. Defaults in brackets.

    Who answers: `agent` (see ports.Agent), or `run(rendered, task)` and `propose(rendered, task, output, score)`,
    plain or async. `tariff`: what their calls can cost at most [observed]. `repeat`: "free" when an unanswered call
    may simply be made again ["charged"].

    What evolves: `artifact`, the start, entries or for SingleSlot a text [empty]; `strategy` [AppendRules()].

    Limits: `max_tokens`, `max_calls`, `max_rollouts`, `max_cost` (dollars), `max_seconds` (of this process) [none],
    `rounds` [15], `target_reward` (held-out mean), `patience` (rounds without improvement) [none].

    Meaning, recorded in the log: `seed` [0], `n_workers` [4] and every other field of Spec.

    The shell: `max_concurrency` [n_workers], `deadline` seconds per call [120], `log` [in memory], `on_round`,
    `observers` (told of every event that this process adds), `recovered` (told of those that the log held before),
    `stop_when(state) -> bool`, `cancellation`.
    """

    agent: object | None
    run: Callable[..., Any] | None
    propose: Callable[..., Any] | None
    tariff: Tariff | None
    repeat: Repeat | None
    artifact: Entries | str
    strategy: Strategy
    max_tokens: int | None
    max_cost: float | None
    max_calls: int | None
    max_rollouts: int | None
    max_seconds: float | None
    rounds: int | None
    target_reward: float | None
    patience: int | None
    seed: int
    n_workers: int
    heldout_share: float
    heldout_limit: int
    test_share: float
    test_limit: int
    shuffle: bool
    self_verify: bool
    screen: bool
    acceptance: Acceptance
    staleness: Staleness
    refresh_interval: int
    fusion: Fusion
    gate_order: GateOrder
    curtail: bool
    wave_min: int
    open_gates: int
    cheap_size: int
    admission: Admission
    attempts: int
    solved_threshold: float
    hard_floor: float
    max_concurrency: int | None
    deadline: float
    log: Log
    on_round: Callable[[RoundInfo], object] | None
    observers: Sequence[Observer]
    recovered: Observer
    stop_when: Callable[[State], bool] | None
    cancellation: Cancellation


_RENAMED = {"target_reward": "target"}


class Job(msgspec.Struct, frozen=True):
    """A checked job: nothing was spent yet, and nothing that can be known to be wrong is."""

    spec: Spec
    setup: Setup
    tasks: tuple[Task, ...]
    ports: Ports
    warnings: tuple[str, ...]


def prepare(tasks: Sequence[Task | Mapping[str, Any]], reward: Callable[..., Any], options: Options) -> Job:
    """Check everything that can be checked. Raises UsageError that names the offender and the remedy."""
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        known = ", ".join(sorted(Options.__annotations__))
        raise UsageError(f"unknown option {unknown[0]!r}; there are: {known}")
    ports = ports_of(
        reward,
        options.get("agent"),
        options.get("run"),
        options.get("propose"),
        options.get("tariff"),
        options.get("repeat"),
    )
    spec = _spec(options)
    _check_shell(options)
    given = tuple(_task(task, number) for number, task in enumerate(tasks))
    setup = Setup(
        tuple(describe(task) for task in given),
        _entries(options.get("artifact", ()), spec.strategy),
        ports.tariff,
        ports.agent,
        ports.scorer,
    )
    return Job(spec, setup, given, ports, check(spec, setup))


def _check_shell(options: Options) -> None:
    concurrency, deadline = options.get("max_concurrency"), options.get("deadline", DEADLINE)
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        raise UsageError(f"max_concurrency is {concurrency!r}: it must be a whole number of at least 1")
    if type(deadline) not in (int, float) or not (math.isfinite(deadline) and deadline > 0):
        raise UsageError(f"deadline is {deadline!r}: it must be a positive number of seconds")
    strategy = options.get("strategy")
    if strategy is not None and not isinstance(strategy, Strategy):
        raise UsageError(f"strategy is {strategy!r}: give AppendRules(), KeyedRules(...) or SingleSlot()")


def _spec(options: Options) -> Spec:
    fields = {_RENAMED.get(name, name): value for name, value in options.items()}
    chosen = {name: fields[name] for name in Spec.__struct_fields__ if name in fields}
    dollars = options.get("max_cost")
    if dollars is not None and not (type(dollars) in (int, float) and math.isfinite(dollars) and dollars > 0):
        raise UsageError(f"max_cost is {dollars!r}: it must be a positive number of dollars, or left out for no limit")
    caps = Caps(
        tokens=options.get("max_tokens"),
        cost=None if dollars is None else round(dollars * 1_000_000_000),
        calls=options.get("max_calls"),
        rollouts=options.get("max_rollouts"),
        seconds=options.get("max_seconds"),
        rounds=options.get("rounds", 15),
    )
    check_caps(caps)
    return msgspec.structs.replace(Spec(), caps=caps, **chosen)


def _task(task: Task | Mapping[str, Any], number: int) -> Task:
    try:
        return msgspec.convert(msgspec.structs.asdict(task) if isinstance(task, Task) else dict(task), Task)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise UsageError(f"task {number} is not a Task(id, prompt, meta): {error}") from error


def _entries(artifact: Entries | str, strategy: Strategy) -> Entries:
    if not isinstance(artifact, str):
        return tuple((key, text) for key, text in artifact)
    if not isinstance(strategy, SingleSlot):
        raise UsageError("a text as artifact= goes with strategy=SingleSlot(); give (key, text) entries otherwise")
    return ((strategy.key, artifact),) if artifact else ()


async def async_evolve(
    tasks: Sequence[Task | Mapping[str, Any]], reward: Callable[..., Any], **options: Unpack[Options]
) -> EvolutionResult:
    """Evolve a text artifact so that an agent using it scores higher on `tasks`, within every limit given.

    `reward(task, output)` is a number in [0, 1], higher is better. With a `log` that holds a run already, that run
    goes on where it ended. Raises UsageError before anything is spent, RunError (with `result`) when the run ended
    with an error, OSError when the log cannot be written, CorruptLog when it was damaged.
    """
    job = prepare(tasks, reward, options)
    return await work(job, options)


def evolve(
    tasks: Sequence[Task | Mapping[str, Any]], reward: Callable[..., Any], **options: Unpack[Options]
) -> EvolutionResult:
    """`async_evolve`, run to its end. Ctrl-C once settles what is open and returns; twice stops at once."""
    job = prepare(tasks, reward, options)

    async def make(cancellation: Cancellation) -> EvolutionResult:
        return await work(job, {"cancellation": cancellation, **options})

    return run_blocking(make)


async def work(job: Job, options: Options) -> EvolutionResult:
    """Run a prepared job. Only the options of the shell are read."""
    log = options.get("log") or MemoryLog()
    watcher = _Watcher(options.get("on_round"))
    told = options.get("recovered")

    def recovered(event: Event, state: State) -> None:
        watcher.fold(event, state)
        if told is not None:
            told(event, state)

    run = Run(
        job.spec,
        job.setup,
        job.tasks,
        job.ports,
        log,
        max_concurrency=options.get("max_concurrency"),
        deadline=options.get("deadline", DEADLINE),
        observers=(watcher, *options.get("observers", ())),
        recovered=recovered,
        stop_when=options.get("stop_when"),
        cancellation=options.get("cancellation"),
    )
    state = await run.drive()
    result = result_of(state, log, watcher, job.warnings)
    if result.error:
        raise RunError(result.error, result)
    return result


def result_of(state: State, log: Log, watcher: _Watcher, warnings: tuple[str, ...]) -> EvolutionResult:
    scored = state.started and state.base is None
    test_base = mean_of(state.test_base)
    head_tested = state.test_final if state.tested == state.head.version.artifact and state.test_final else None
    untouched = state.head.version.number == 0
    final_scores = state.test_base if untouched else head_tested
    test_final = mean_of(final_scores)
    return EvolutionResult(
        rendered=render(state.spec.strategy, state.head.version.entries),
        entries=state.head.version.entries,
        version=state.head.version.number,
        stable=state.stable.number,
        base=state.base_total / (MILLION * state.head.scores.size) if scored else None,
        final=mean_of(state.head.scores) if scored else None,
        test_base=test_base,
        test_final=test_final,
        test_interval=None if final_scores is None or test_final is None else wilson(test_final, final_scores.count),
        history=tuple(watcher.history),
        rounds=state.round,
        stop_reason=state.stopped.reason if state.stopped is not None else "error",
        error=state.stopped.error if state.stopped is not None else "the run was not finished",
        budget=summarise(state),
        saved=watcher.saved,
        expected_junk=watcher.junk,
        warnings=warnings,
        digest=log.digest,
        log=log,
        state=state,
    )
