"""The options of `evolve`, and the checked job that they make. Nothing is spent here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from agentdescent.allocation.older import OlderAllocator
from agentdescent.allocation.own import Own
from agentdescent.allocation.policies import AllocatorPolicy
from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import SingleSlot, Strategy, grammar
from agentdescent.blocking import Cancellation
from agentdescent.budget.call_budget import CallBudget
from agentdescent.budget.degrading import BudgetGovernor
from agentdescent.budget.governor import Caps
from agentdescent.budget.projection import Projection
from agentdescent.budget.returns import DiminishingReturns
from agentdescent.budget.tariff import Tariff
from agentdescent.driver import DEADLINE
from agentdescent.engine.spec import Admission, Allocator, Fusion, FusionWidth, GateOrder, Setup, Spec, Staleness
from agentdescent.engine.state import State
from agentdescent.engine.validation import check, check_asked, check_caps
from agentdescent.errors import UsageError
from agentdescent.history.rounds import RoundInfo
from agentdescent.merge.acceptance import Acceptance, Unpaired
from agentdescent.merge.audit import Audit
from agentdescent.own import own_of
from agentdescent.ports import Executor, Log, Repeat, Task
from agentdescent.recovery import Observer
from agentdescent.search.sampling import Sampling, Stakes
from agentdescent.search.selection import Selection, SingleHead
from agentdescent.wiring import Ports, describe, name_of, ports_of


class Options(TypedDict, total=False):
    """What `evolve` and `async_evolve` take besides the tasks and the reward. Defaults in brackets.

    Who answers: `agent` (see ports.Agent), or `run(rendered, task)` and `propose(rendered, task, output, score)`,
    plain or async. `oracle(task, output)`: a second scorer, asked before a doubtful commit, at most `oracle_budget`
    times [none]. `tariff`: what their calls can cost at most [observed]. `repeat`: "free" when an unanswered call
    may simply be made again ["charged"].

    What evolves: `artifact`, the start, entries or for SingleSlot a text [empty]; `strategy` [AppendRules()].

    Limits: `max_tokens`, `max_calls`, `max_rollouts`, `max_cost` (dollars), `max_seconds` (of this process) [none],
    `rounds` [15; asynchronous: none, and some limit is then required], `target_reward` (held-out mean), `patience`
    (rounds without improvement) [none].

    Meaning, recorded in the log: `seed` [0], `n_workers` [4], `asynchronous` [False: rounds with a merge after each;
    True: workers never wait for one another], `thrifty` [False; True: what makes a commit cheap is on unless it is
    given, see THRIFTY], `stop_on_diminishing_returns` (True, or a
    DiminishingReturns) [False], `governor` (a BudgetGovernor, in place of the options that it holds), `allocator` (a
    record, or an object of one's own, see allocation.AllocatorPolicy) [None], `selection`, what a turn starts from
    [SingleHead()], and every other field of Spec.

    The shell: `max_concurrency` [n_workers], `deadline` seconds per call [120], `executor` of calls that block
    [threads], `log` [in memory], `on_round`,
    `observers` (told of every event that this process adds), `recovered` (told of those that the log held before),
    `stop_when(state) -> bool`, `cancellation`.
    """

    agent: object | None
    run: Callable[..., Any] | None
    propose: Callable[..., Any] | None
    oracle: Callable[..., Any] | None
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
    oracle_budget: int
    audit: Audit
    staleness: Staleness
    refresh_interval: int
    fusion: Fusion
    gate_order: GateOrder
    curtail: bool
    wave_min: int
    open_gates: int
    cheap_size: int
    thrifty: bool
    asynchronous: bool
    merge_size: int
    async_ratio: int
    window: int
    admission: Admission
    attempts: int
    sampling: Sampling
    samples: int
    fusion_width: FusionWidth
    solved_threshold: float
    soft_floor: float
    hard_floor: float
    projection: Projection
    stop_on_diminishing_returns: bool | DiminishingReturns | None
    governor: BudgetGovernor | None
    call_budget: CallBudget | None
    allocator: Allocator | AllocatorPolicy | OlderAllocator | None
    tournament: bool
    futility: float
    finish_epsilon: float
    selection: Selection
    population: int
    max_concurrency: int | None
    deadline: float
    executor: Executor | None
    log: Log
    on_round: Callable[[RoundInfo], object] | None
    observers: Sequence[Observer]
    recovered: Observer
    stop_when: Callable[[State], bool] | None
    cancellation: Cancellation


_RENAMED = {"target_reward": "target", "stop_on_diminishing_returns": "diminishing_returns"}

THRIFTY: dict[str, Any] = {
    "screen": True,
    "sampling": Stakes(),
    "samples": 10,
    "fusion_width": "adaptive",
    "futility": 0.2,
}
"""What `thrifty=True` sets where it is not given: the choices that bench.economy found to save most tokens."""


class Job(msgspec.Struct, frozen=True):
    """A checked job: nothing was spent yet, and nothing that can be known to be wrong is. `allocator`: the object of
    one's own that the spec names."""

    spec: Spec
    setup: Setup
    tasks: tuple[Task, ...]
    ports: Ports
    warnings: tuple[str, ...]
    allocator: object | None = None


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
        options.get("oracle"),
    )
    if ports.oracle is not None and "oracle_budget" not in options:
        raise UsageError("oracle= is given and would never be asked: set oracle_budget=, the calls it may be asked for")
    allocator = options.get("allocator")
    spec = _spec(_meant(options))
    _check_shell(options)
    _check_grammar(options.get("agent"), spec.strategy)
    if spec.call_budget is not None and not ports.ceilings:
        raise UsageError(
            f"call_budget is set, but `propose` of {ports.agent} does not take `ceiling`: give it that parameter, the "
            "most completion tokens of one reply"
        )
    given = tuple(_task(task, number) for number, task in enumerate(tasks))
    setup = Setup(
        tuple(describe(task) for task in given),
        _entries(options.get("artifact", ()), spec.strategy),
        ports.tariff,
        ports.agent,
        ports.reward.name,
        "" if ports.oracle is None else ports.oracle.name,
    )
    warnings = check(spec, setup)
    check_asked(spec)
    return Job(spec, setup, given, ports, warnings, allocator if isinstance(spec.allocator, Own) else None)


def _meant(options: Options) -> Mapping[str, Any]:
    """With shorter ways to say a thing, and objects, put down as the records that they stand for."""
    rule, governor, allocator = (options.get(name) for name in ("stop_on_diminishing_returns", "governor", "allocator"))
    meant: dict[str, Any] = dict(options)
    if isinstance(rule, bool):
        meant["stop_on_diminishing_returns"] = DiminishingReturns() if rule else None
    if allocator is not None and (isinstance(allocator, Own) or not isinstance(allocator, Allocator)):
        meant["allocator"] = own_of(allocator)
    if governor is None:
        return meant
    if not isinstance(governor, BudgetGovernor):
        raise UsageError(f"governor is {governor!r}: give a BudgetGovernor(max_tokens=...)")
    said = msgspec.structs.asdict(governor)
    said["stop_on_diminishing_returns"] = said.pop("diminishing_returns")
    twice = next((name for name in said if name in options), None)
    if twice is not None:
        raise UsageError(f"{twice} is given, and the governor says it too: leave out one of them")
    return {**meant, **said}


def _check_shell(options: Options) -> None:
    concurrency, deadline = options.get("max_concurrency"), options.get("deadline", DEADLINE)
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        raise UsageError(f"max_concurrency is {concurrency!r}: it must be a whole number of at least 1")
    if type(deadline) not in (int, float) or not (math.isfinite(deadline) and deadline > 0):
        raise UsageError(f"deadline is {deadline!r}: it must be a positive number of seconds")
    strategy = options.get("strategy")
    if strategy is not None and not isinstance(strategy, Strategy):
        raise UsageError(f"strategy is {strategy!r}: give AppendRules(), KeyedRules(...), SingleSlot() or Components()")


def _check_grammar(agent: object, strategy: Strategy) -> None:
    own = getattr(agent, "strategy", None)
    if isinstance(own, Strategy) and grammar(own) != grammar(strategy):
        raise UsageError(f"strategy is {strategy}, and {name_of(agent)} proposes for {own}: give both the same")


def _spec(options: Mapping[str, Any]) -> Spec:
    fields = {_RENAMED.get(name, name): value for name, value in options.items()}
    chosen = {name: fields[name] for name in Spec.__struct_fields__ if name in fields}
    default = Spec()
    dollars = options.get("max_cost")
    if dollars is not None and not (type(dollars) in (int, float) and math.isfinite(dollars) and dollars > 0):
        raise UsageError(f"max_cost is {dollars!r}: it must be a positive number of dollars, or left out for no limit")
    if options.get("thrifty"):
        chosen = {**_thrifty(chosen), **chosen}
    if options.get("asynchronous"):
        n_workers = options.get("n_workers", default.n_workers)
        recommended = _continuous(n_workers) if type(n_workers) is int else {}  # what it should be, `check` says
        chosen = {"schedule": "continuous", **recommended, **chosen}
    caps = Caps(
        tokens=options.get("max_tokens"),
        cost=None if dollars is None else round(dollars * 1_000_000_000),
        calls=options.get("max_calls"),
        rollouts=options.get("max_rollouts"),
        seconds=options.get("max_seconds"),
        rounds=options.get("rounds", None if options.get("asynchronous") else 15),
    )
    check_caps(caps)
    for name, value in chosen.items():
        # msgspec leaves out a float at its default by identity: an equal one made elsewhere would change the digest.
        if type(value) is float and value == getattr(default, name):
            chosen[name] = getattr(default, name)
    return msgspec.structs.replace(default, caps=caps, **chosen)


def _thrifty(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """THRIFTY but for what does not go with other choices."""
    without = set()
    if isinstance(chosen.get("acceptance"), Unpaired):
        without.add("futility")
    if chosen.get("fusion") == "none" or not isinstance(chosen.get("selection", SingleHead()), SingleHead):
        without.add("fusion_width")
    return {name: value for name, value in THRIFTY.items() if name not in without}


def _continuous(n_workers: int) -> dict[str, Any]:
    """What goes with so many workers that never wait for one another: the best that bench.schedule found."""
    return {"merge_size": min(16, -(-n_workers // 2)), "wave_min": 4 * n_workers, "screen": True}


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
