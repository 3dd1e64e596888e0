"""One run of bench.faults, through all its processes, and what it came to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import msgspec

from agentdescent import Caps, IllegalEvent, SingleSlot, State, UsageError, replay
from agentdescent.blocking import Cancellation
from agentdescent.driver import Run
from agentdescent.engine.decision import halting
from agentdescent.engine.event import Committed, Event, Outcome
from agentdescent.engine.validation import check
from agentdescent.errors import ExecutorLost
from agentdescent.history.log import GENESIS, encode
from agentdescent.job import Job, Options, prepare
from agentdescent.record import replace
from agentdescent.simulation import NotSimulated, simulate
from bench import agents
from bench.agents import Script
from bench.books import Books
from bench.fault_plan import Plan, Process
from bench.faulty import Provider
from bench.faulty_ports import AsyncAgent, BlockingAgent, KeyedPerformer, Scorer, Scrambler
from bench.mortal_log import Died, Keeper, MortalLog

EVENTS = 30_000
SECONDS = 30 * 86_400.0
"""More events or simulated seconds of one process than it can need: it is stuck."""


class Ended(msgspec.Struct):
    """What one run came to. `found`: what does not hold, in words; of it `stuck`, `over_cap` and `lost` (answers given
    in time that are not in the log) are counted apart. `events`: in the final log. `seconds`: simulated."""

    found: list[str]
    stuck: int = 0
    over_cap: int = 0
    lost: int = 0
    processes: int = 0
    events: int = 0
    commits: int = 0
    calls: int = 0
    seconds: float = 0.0
    reason: str = ""
    troubles: Counter[str] = msgspec.field(default_factory=Counter)
    fates: Counter[str] = msgspec.field(default_factory=Counter)


class Stuck(Exception):
    """Something goes on for ever."""


class Trial:
    """One run, through all its processes."""

    def __init__(self, plan: Plan, directory: str | None = None) -> None:
        self.plan = plan
        self.ended = Ended([])
        self.provider = Provider(plan.mix)
        self.keeper = Keeper(directory)
        self._tasks = agents.tasks(plan.tasks)
        self._truth: dict[tuple[int, str], int] = {}
        slot = isinstance(plan.options.get("strategy"), SingleSlot)
        self._script = Script(seed=plan.seed, slot=slot, constant=False)
        self._job = self._prepare()
        self._books = Books(self.truth)
        self._task: asyncio.Task[State] | None = None
        self.given_up = ""

    def truth(self, task: int, rendered: str) -> int:
        """The score of this text on this task, in millionths."""
        key = task, rendered
        if key not in self._truth:
            answer = self._script.solve(rendered, self._tasks[task], lambda tokens: None)
            self._truth[key] = 1_000_000 * str(answer.value).startswith("right")
        return self._truth[key]

    def _prepare(self) -> Job:
        plan, provider = self.plan, self.provider
        last = not plan.scorer_waits
        agent: object = BlockingAgent(provider, self._script, plan.tariff, plan.repeat)
        if plan.port == "async":
            agent = AsyncAgent(provider, self._script, plan.tariff, plan.repeat, last=last)
        scorer = Scorer(provider, waits=plan.scorer_waits, delivers=plan.port == "async" and not last)
        job = prepare(self._tasks, scorer, Options(**{**plan.options, "agent": agent}))
        return msgspec.structs.replace(job, spec=replace(job.spec, caps=_enough(job, plan.caps)))

    def give_up(self, why: str) -> None:
        """End it, from anywhere: it is stuck."""
        self.given_up = why
        if self._task is not None:
            self._task.cancel()

    def find(self, what: str) -> None:
        self.ended.found.append(what)

    # --- its processes ------------------------------------------------------------------------------------------------

    def go(self) -> Ended:
        caps = self._job.spec.caps
        for process in self.plan.processes:
            seconds = process.after if process.trouble == "max_seconds" else None
            try:
                self._work(process, replace(caps, seconds=seconds))
            except (Stuck, NotSimulated, IllegalEvent) as stuck:
                self.ended.stuck += 1
                self.find(f"stuck: {type(stuck).__name__}: {stuck}")
                return self.ended
            caps = _raised(caps, process.raised)
        self._judge()
        return self.ended

    def _work(self, process: Process, caps: Caps) -> None:
        """Start the run, or go on with it, until it ends or trouble hits."""
        provider, job = self.provider, self._job
        log = MortalLog(self.keeper.open(), dies_at=_operation(process), full=process.trouble == "full disk")
        provider.restart()
        self.ended.processes += 1
        self._books = Books(self.truth)
        run = self._run(process, msgspec.structs.replace(job, spec=replace(job.spec, caps=caps)), log)
        outcome: BaseException | None = None
        self._seq = 0
        try:
            _, seconds = simulate(self._drive(run, log, process))
            self.ended.seconds += seconds
        except (Stuck, NotSimulated, IllegalEvent):
            raise
        except (Died, asyncio.CancelledError, Exception) as error:
            outcome = error
        if self.given_up:
            raise Stuck(self.given_up)
        expected = _expected(process)
        if outcome is not None and not isinstance(outcome, expected):
            self._unless_spent(run.state, outcome)
        if outcome is not None or run.state.interrupted is not None:
            self.ended.troubles[process.trouble] += 1
        self._collect(log)
        if log.dead or (outcome is not None and not process.closed):
            self.keeper.survive(log, process.kept)
        else:
            log.inner.close()

    def _run(self, process: Process, job: Job, log: MortalLog) -> Run:
        plan, provider = self.plan, self.provider
        executor = None
        if plan.port == "executor":
            executor = Scrambler(provider, lost_after=process.at if process.trouble == "executor" else None)
        run = Run(
            job.spec,
            job.setup,
            job.tasks,
            job.ports,
            log,
            max_concurrency=plan.options.get("max_concurrency"),
            deadline=plan.mix.deadline,
            executor=executor,
            observers=(self._books, self._count),
            recovered=self._books,
            stop_when=self._enough_events(process) if process.trouble == "stop_when" else None,
            cancellation=Cancellation(),
        )
        if plan.port == "async":
            run.performer = run.calls.performer = KeyedPerformer(job.ports, job.tasks, job.spec.strategy)
        known, recorded = frozenset(self.keeper.journal), self._books.outcomes

        def refuse(ident: int) -> None:
            if ident in known or ident in recorded or ident in log.journalled:
                self.find(f"command {ident} was answered, and is asked again")
            if halting(run.state) is not None and plan.repeat == "charged":
                self.find(f"command {ident} is asked after the run was to stop ({halting(run.state)})")

        provider.refuse = refuse
        return run

    def _count(self, event: Event, state: State) -> None:
        self._seq += 1
        if self._seq > EVENTS:
            raise Stuck(f"{EVENTS} events")

    def _enough_events(self, process: Process) -> Callable[[State], bool]:
        return lambda state: self._seq >= process.at

    async def _drive(self, run: Run, log: MortalLog, process: Process) -> None:
        loop, provider = asyncio.get_running_loop(), self.provider
        loop.set_exception_handler(lambda _, context: self.find(f"the loop: {context.get('exception')!r}, {context}"))
        task = self._task = loop.create_task(run.drive())

        def die() -> None:
            provider.listening = False
            task.cancel()

        log.last = die
        if process.trouble == "cancelled":
            loop.call_later(process.after, task.cancel)
        if process.trouble == "requested":
            loop.call_later(process.after, run.cancellation.request)
        provider.listening = True
        try:
            async with asyncio.timeout(SECONDS):
                await task
        except TimeoutError as error:
            raise Stuck(f"{SECONDS:g} simulated seconds") from error
        finally:
            provider.listening = False
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:  # calls that swallowed their cancellation answer now, and nobody listens
                await asyncio.wait(others, timeout=SECONDS)

    # --- what is left of it -------------------------------------------------------------------------------------------

    def _collect(self, log: MortalLog) -> None:
        """Every answer that this process was given is in its journal, but for one that was being written."""
        self.ended.calls += sum(self.provider.asked.values())
        self.keeper.journal.update({i: answer for i, answer in log.journalled.items() if i not in self.keeper.journal})
        lost = self.provider.delivered - set(self.keeper.journal) - log.unwritten
        self.ended.lost += len(lost)
        if lost:
            self.find(f"answers given in time are not in the journal: commands {sorted(lost)[:5]}")

    def _unless_spent(self, state: State, outcome: BaseException) -> None:
        """Raised caps that do not hold what an overrun has spent are refused."""
        if not (isinstance(outcome, UsageError) and state.governor.overrun):
            self.find(f"raised {type(outcome).__name__}: {outcome}")

    def _judge(self) -> None:
        """What is left in the end, read as a stranger would."""
        log, plan, ended, books = self.keeper.open(), self.plan, self.ended, self._books
        events = list(log.events())
        after = GENESIS
        for n, event in enumerate(events):
            _, after = encode(n, after, event)
        replayed = replay(events)
        if (len(events), after) != (books.events, log.digest):
            self.find(f"{len(events)} events in the log, {books.events} seen; digest {log.digest}, chain {after}")
        if replayed.divergence is not None:
            self.find(f"replay differs: {replayed.divergence}")
        if replayed.state.stopped is None:
            self.find("the log does not end with Stopped")
        recorded = {event.id: event for event in events if isinstance(event, Outcome)}
        lost = [ident for ident, (outcome, _) in self.keeper.journal.items() if recorded.get(ident) != outcome]
        if lost:
            self.find(f"answers that were journalled are not in the log: commands {sorted(lost)[:5]}")
        billed, spent = sum(self.provider.billed.values()), replayed.state.governor.spent.tokens
        if plan.repeat == "charged" and plan.strict and not plan.mix.over and billed > spent:
            self.find(f"{billed} tokens were billed, and the log knows of {spent}")
        ended.lost += len(lost)
        ended.found += books.found
        ended.over_cap += books.over_cap
        ended.events, ended.fates = len(events), self.provider.fates
        ended.commits = sum(isinstance(event, Committed) for event in events)
        ended.reason = "" if replayed.state.stopped is None else replayed.state.stopped.reason
        log.close()


def _enough(job: Job, caps: Caps) -> Caps:
    """The caps, doubled until they can pay for the start and one candidate."""
    for _ in range(10):
        try:
            check(replace(job.spec, caps=caps), job.setup)
            return caps
        except UsageError:
            caps = _raised(caps, 2.0)
    raise UsageError(f"no caps are large enough: {caps}")


def _raised(caps: Caps, factor: float) -> Caps:
    tokens, cost, calls, rollouts = (
        None if cap is None else round(cap * factor) for cap in (caps.tokens, caps.cost, caps.calls, caps.rollouts)
    )
    return replace(caps, tokens=tokens, cost=cost, calls=calls, rollouts=rollouts)


def _operation(process: Process) -> int | None:
    return process.at if process.trouble in ("death", "full disk") else None


def _expected(process: Process) -> tuple[type[BaseException], ...]:
    """What a process may end with."""
    match process.trouble:
        case "death":
            return (Died, asyncio.CancelledError)
        case "full disk":
            return (OSError,)
        case "cancelled":
            return (asyncio.CancelledError,)
        case "executor":
            return (ExecutorLost,)
        case "requested" | "stop_when" | "max_seconds" | "":
            return ()
