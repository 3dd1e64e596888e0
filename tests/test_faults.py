"""What goes wrong between a run and its ports, in simulated time: nothing here sleeps, hours pass in milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from agentdescent import (
    Answer,
    CallFailed,
    Cancellation,
    EvolutionResult,
    MemoryLog,
    Rate,
    RunError,
    Tariff,
    Task,
    Usage,
    async_evolve,
    replay,
)
from agentdescent.calls import PAUSE
from agentdescent.engine.event import (
    Abandoned,
    Decided,
    Event,
    Failed,
    Interrupted,
    Outcome,
    Proposed,
    RolledOut,
    Stopped,
)
from agentdescent.errors import ExecutorLost
from agentdescent.ports import Executor, Item, Repeat, Result, Retry
from agentdescent.simulation import lognormal, simulate
from tests.world import chance

TASKS = [Task(f"t{i}", f"message {i}", {"cluster": f"topic{i % 5}"}) for i in range(30)]
SOLVE, PROPOSE = Rate(strict=True, overhead=200, ceiling=10), Rate(strict=True, overhead=200, ceiling=20)
DEADLINE = 120.0


class Right:
    """Scores at once, for nothing."""

    name, blocking, bills = "right", False, False

    def __call__(self, task: Task, output: str) -> float:
        return float(output.startswith("right"))


class Agent:
    """Takes a second a call, and counts. `starts`: when its calls began, in simulated seconds; `trouble(number)` is
    awaited in call `number` (from 0) before that is billed."""

    name = "agent"
    tariff = Tariff(SOLVE, PROPOSE)
    repeat: Repeat = "charged"
    declines = 0.0

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.billed = 0

    async def trouble(self, number: int) -> None:
        await asyncio.sleep(1.0)

    async def solve(self, rendered: str, task: Task) -> Any:
        await self._call()
        return Answer("right" if task.cluster in rendered else "wrong", self._bill(7))

    async def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        await self._call()
        return self.reply(task, sample)

    def reply(self, task: Task, sample: int) -> Answer:
        if chance("declines", sample) < self.declines:
            return Answer(None, self._bill(9))
        useless = chance("useless", sample) < 0.3
        return Answer(f"rule {sample}" if useless else f"know {task.cluster}", self._bill(9))

    async def _call(self) -> None:
        number = len(self.starts)
        self.starts.append(asyncio.get_running_loop().time())
        await self.trouble(number)

    def _bill(self, tokens: int) -> Usage:
        self.billed += tokens
        return Usage(prompt=tokens - 2, completion=2)


class Slept(Agent):
    """`naps[number]`: seconds that a call takes instead of one."""

    def __init__(self, naps: Mapping[int, float]) -> None:
        super().__init__()
        self.naps = naps

    async def trouble(self, number: int) -> None:
        await asyncio.sleep(self.naps.get(number, 1.0))


class TurnedAway(Agent):
    """Calls numbered in `refused` get a 429 that says when to come again."""

    def __init__(self, refused: Collection[int], after: float) -> None:
        super().__init__()
        self.refused, self.after = refused, after

    async def trouble(self, number: int) -> None:
        await asyncio.sleep(1.0)
        if number in self.refused:
            raise CallFailed("rate-limit", "429 slow down", retry_after=self.after)


async def evolved(agent: object, **options: Any) -> EvolutionResult:
    """The result, also of a run that ended with an error."""
    chosen: dict[str, Any] = {"rounds": 3, "deadline": DEADLINE, **options}
    try:
        return await async_evolve(TASKS, Right(), agent=agent, **chosen)
    except RunError as error:
        if isinstance(error.result, EvolutionResult):
            return error.result
        raise


def run(agent: object, **options: Any) -> tuple[EvolutionResult, float]:
    """The result and the seconds it took."""
    return simulate(evolved(agent, **options))


def crash(agent: object, at: float, **options: Any) -> None:
    """The run is cancelled from outside after so many seconds."""

    async def main() -> None:
        task = asyncio.ensure_future(evolved(agent, **options))
        asyncio.get_running_loop().call_later(at, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    simulate(main())


def events_of(result: EvolutionResult) -> list[Event]:
    return list(result.log.events())


def failures(result: EvolutionResult) -> list[tuple[str, str, Usage | None]]:
    return [(event.kind, event.message, event.usage) for event in events_of(result) if isinstance(event, Failed)]


def check_books(result: EvolutionResult) -> None:
    """Nothing is open, every command was answered or abandoned once, and every decision can be taken again."""
    events = events_of(result)
    asked = [event.command.id for event in events if isinstance(event, Decided)]
    ended = [event.id for event in events if isinstance(event, RolledOut | Proposed | Failed | Abandoned)]
    assert sorted(ended) == asked
    assert isinstance(events[-1], Stopped)
    governor = result.state.governor
    assert (governor.due.tokens, governor.due.calls, governor.held.tokens) == (
        0,
        0,
        result.state.base_hold.tokens + result.state.test_hold.tokens + held_by_gates(result),
    )
    replayed = replay(events)
    assert (replayed.divergence, replayed.finished, replayed.state) == (None, True, result.state)


def held_by_gates(result: EvolutionResult) -> int:
    sweep = result.state.sweep
    return 0 if sweep is None else sum(gate.hold.tokens for gate in sweep.gates)


def reservation(result: EvolutionResult, ident: int) -> int:
    return next(
        event.command.reserve.tokens
        for event in events_of(result)
        if isinstance(event, Decided) and event.command.id == ident
    )


# --- repeated inside one call -----------------------------------------------------------------------------------------


def test_23_what_was_not_billed_is_repeated_inside_one_deadline_and_costs_nothing() -> None:
    plain, agent = Agent(), TurnedAway({5, 9, 10}, after=30.0)
    expected, fast = run(plain)
    result, seconds = run(agent)
    assert len(agent.starts) == len(plain.starts) + 3
    assert (failures(result), result.digest) == ([], expected.digest)
    assert result.spend.total.tokens == agent.billed == plain.billed
    assert fast + 30 < seconds < fast + 130


def test_23_not_beyond_the_deadline() -> None:
    agent = TurnedAway({5}, after=DEADLINE)
    result, seconds = run(agent)
    assert failures(result) == [("rate-limit", "429 slow down", Usage())]
    assert result.spend.total.tokens == agent.billed
    assert seconds < 60
    check_books(result)


def test_a_port_that_always_says_at_once_meets_the_deadline() -> None:
    class Never(Agent):
        async def trouble(self, number: int) -> None:
            if number >= 50_000:
                raise RuntimeError("called without end")
            if number >= 5:
                raise CallFailed("rate-limit", "429 now", retry_after=0)

    agent = Never()
    result, seconds = run(agent, n_workers=1, attempts=2)
    failed = failures(result)
    assert result.stop_reason == "error"
    assert (len(failed) > 1, set(failed)) == (True, {("rate-limit", "429 now", Usage())})
    assert len(failed) * (DEADLINE - 1) < seconds <= len(failed) * DEADLINE + 5
    assert len(agent.starts) <= 5 + len(failed) * (DEADLINE / PAUSE + 1)


def test_a_stop_ends_the_wait_at_once_and_nothing_is_asked_again() -> None:
    agent, stop = TurnedAway(range(20, 40), after=100.0), Cancellation()

    async def main() -> EvolutionResult:
        asyncio.get_running_loop().call_later(30.5, stop.request)
        return await evolved(agent, cancellation=stop)

    result, seconds = simulate(main())
    assert (result.stop_reason, seconds) == ("cancelled", 30.5)
    assert max(agent.starts) < 30.5
    assert ("rate-limit", "429 slow down", Usage()) in failures(result)
    assert result.spend.total.tokens == agent.billed
    check_books(result)


def test_calls_are_repeated_also_after_a_resume_under_raised_caps() -> None:
    log = MemoryLog()
    crash(Agent(), 10.5, log=log, max_tokens=50_000)
    agent = TurnedAway({2}, after=30.0)
    result, _ = run(agent, log=log, max_tokens=60_000)
    assert failures(result) == []
    check_books(result)


def test_a_free_call_that_waited_when_its_run_was_given_up_is_not_in_the_log() -> None:
    class Free(TurnedAway):
        repeat = "free"

    log = MemoryLog()
    crash(Free({12}, after=60.0), 30.0, log=log)
    result, _ = run(Free((), 0.0), log=log)
    expected, _ = run(Free((), 0.0))
    assert result.digest == expected.digest


# --- deadlines --------------------------------------------------------------------------------------------------------


def test_22_a_call_that_hangs_ends_at_its_deadline_and_the_run_goes_on() -> None:
    class Hung(Agent):
        async def trouble(self, number: int) -> None:
            await asyncio.sleep(1.0)
            if number % 10 == 9:
                await asyncio.get_running_loop().create_future()

    agent = Hung()
    result, _ = run(agent, max_tokens=40_000)
    hung = [event for event in events_of(result) if isinstance(event, Failed)]
    assert len(hung) == len([n for n in range(len(agent.starts)) if n % 10 == 9]) > 5
    assert {(event.kind, event.message, event.usage) for event in hung} == {("timeout", "no answer within 120 s", None)}
    assumed = sum(reservation(result, event.id) for event in hung)
    assert result.spend.assumed == assumed
    assert result.spend.total.tokens == agent.billed + assumed <= 40_000
    assert (result.stop_reason, result.version > 0) == ("rounds", True)
    check_books(result)


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_late_answer_is_dropped_and_was_charged_at_its_reservation(stubborn: bool) -> None:
    answered = list[int]()

    class Late(Agent):
        async def trouble(self, number: int) -> None:
            if number != 7:
                await asyncio.sleep(1.0)
                return
            try:
                await asyncio.sleep(DEADLINE + 3)
            except asyncio.CancelledError:
                if not stubborn:
                    raise
                await asyncio.sleep(3)
            answered.append(number)

    agent, told = Late(), list[tuple[int, str]]()

    class Telling(MemoryLog):
        def answered(self, outcome: Outcome, output: str, seconds: float, refused: int = 0) -> None:
            told.append((outcome.id, type(outcome).__name__))
            super().answered(outcome, output, seconds, refused)

    result, _ = run(agent, log=Telling())
    late = [event for event in events_of(result) if isinstance(event, Failed)]
    assert [event.kind for event in late] == ["timeout"]
    assert [kind for ident, kind in told if ident == late[0].id] == ["Failed"]
    assert answered == ([7] if stubborn else [])
    unheard = 7 if stubborn else 0  # billed for an answer that nobody waited for, and within its reservation
    assert result.spend.total.tokens == agent.billed - unheard + reservation(result, late[0].id)
    check_books(result)


# --- executors --------------------------------------------------------------------------------------------------------

Done = Callable[[Result | Retry | BaseException], None]


class Scripted:
    """An executor in simulated time. `script(number, result)`: when submission `number` is answered, and with what."""

    def __init__(self, script: Callable[[int, Result | Retry], Sequence[tuple[float, Any]]]) -> None:
        self.script = script
        self.submitted: list[int] = []
        self.opened = self.closed = 0
        self._perform: Callable[[Item], Result | Retry] | None = None

    def open(self, perform: Callable[[Item], Result | Retry], repeat: Repeat) -> None:
        self._perform = perform
        self.opened += 1

    def submit(self, item: Item, done: Done) -> None:
        assert self._perform is not None
        number, loop = len(self.submitted), asyncio.get_running_loop()
        self.submitted.append(item.command.id)
        for after, result in self.script(number, self._perform(item)):
            loop.call_later(after, done, result)

    def close(self) -> None:
        self.closed += 1


class Blocking(Agent):
    """The same answers from functions that block; calls numbered in `refused` are turned away."""

    refused: Collection[int] = ()

    def solve(self, rendered: str, task: Task) -> Any:
        self._turn_away()
        return Answer("right" if task.cluster in rendered else "wrong", self._bill(7))

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        self._turn_away()
        return self.reply(task, sample)

    def _turn_away(self) -> None:
        self.starts.append(asyncio.get_running_loop().time())
        if len(self.starts) - 1 in self.refused:
            raise CallFailed("rate-limit", "429", retry_after=5.0)


@contextmanager
def no_callback_fails() -> Iterator[None]:
    """Inside `simulate`: what a callback of the loop raises is seen."""
    raised = list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: raised.append(context))
    yield
    assert raised == []


def run_on(executor: Executor, agent: Agent, **options: Any) -> tuple[EvolutionResult, float]:
    async def main() -> EvolutionResult:
        with no_callback_fails():
            return await evolved(agent, executor=executor, **options)

    return simulate(main())


def at_once(number: int, result: Result | Retry) -> Sequence[tuple[float, Any]]:
    return [(1.0, result)]


def twice_and_out_of_order(number: int, result: Result | Retry) -> Sequence[tuple[float, Any]]:
    first = 1.0 + 30 * chance("order", number)
    return [(first, result), (first, result), (first + 40 * chance("again", number), result)]


@pytest.mark.parametrize("admission", ["ordered", "arrival"])
def test_what_an_executor_says_twice_is_folded_once(admission: str) -> None:
    agent, executor = Blocking(), Scripted(twice_and_out_of_order)
    result, _ = run_on(executor, agent, admission=admission, n_workers=8)
    check_books(result)
    assert result.spend.total.tokens == agent.billed
    assert (executor.opened, executor.closed) == (1, 1)
    assert len(executor.submitted) == len(set(executor.submitted)) == len(agent.starts)
    if admission == "ordered":
        assert result.digest == run_on(Scripted(at_once), Blocking(), n_workers=8)[0].digest


def test_a_refusal_that_is_told_twice_is_repeated_once() -> None:
    plain, agent, executor = Blocking(), Blocking(), Scripted(twice_and_out_of_order)
    expected, _ = run_on(Scripted(at_once), plain)
    agent.refused = (3, 12, 13, 40)
    result, _ = run_on(executor, agent)
    assert len(agent.starts) == len(plain.starts) + 4
    assert result.digest == expected.digest


def test_an_executor_that_answers_late_or_never_meets_the_deadline() -> None:
    def script(number: int, result: Result | Retry) -> Sequence[tuple[float, Any]]:
        if number % 10 == 3:
            return []
        return [(DEADLINE + 5 if number % 10 == 6 else 1.0, result)]

    agent, executor = Blocking(), Scripted(script)
    result, _ = run_on(executor, agent)
    ended = {event.id: event for event in events_of(result) if isinstance(event, RolledOut | Proposed | Failed)}
    for number, ident in enumerate(executor.submitted):
        late = number % 10 in (3, 6)
        assert (ended[ident] == Failed(ident, "timeout", "no answer within 120 s")) == late
    assert sum(isinstance(event, Failed) for event in ended.values()) > 5
    assert result.spend.assumed == sum(
        reservation(result, ident) for ident, event in ended.items() if isinstance(event, Failed)
    )
    check_books(result)


@pytest.mark.parametrize("repeat", ["charged", "free"])
def test_a_lost_executor_ends_the_run_and_its_log_goes_on(repeat: Repeat) -> None:
    def script(number: int, result: Result | Retry) -> Sequence[tuple[float, Any]]:
        return [(1.0 + number % 3, ExecutorLost("the scheduler is gone") if number == 40 else result)]

    log, agent, executor = MemoryLog(), Blocking(), Scripted(script)
    with pytest.raises(ExecutorLost, match="the scheduler is gone"):
        run_on(executor, agent, log=log, repeat=repeat, n_workers=8)
    assert executor.closed == 1
    before = len(list(log.events()))
    again = Blocking()
    result, _ = run_on(Scripted(at_once), again, log=log, repeat=repeat, n_workers=8)
    check_books(result)
    abandoned = [event for event in events_of(result)[before:] if isinstance(event, Abandoned)]
    if repeat == "charged":
        assert 1 <= len(abandoned) <= 8
        assert agent.billed + again.billed < result.spend.total.tokens
    else:
        assert abandoned == []
        assert result.digest == run_on(Scripted(at_once), Blocking(), repeat=repeat, n_workers=8)[0].digest


# --- the circuit breaker ----------------------------------------------------------------------------------------------


class Broken(Agent):
    """Works for so many calls, then its backend is gone."""

    def __init__(self, works: int) -> None:
        super().__init__()
        self.works = works

    async def trouble(self, number: int) -> None:
        await asyncio.sleep(1.0)
        if number >= self.works:
            raise ConnectionRefusedError("port 11434")


@pytest.mark.parametrize(("works", "limit"), [(0, 8), (40, 32)])
def test_21_a_backend_that_is_gone_ends_the_run_with_its_cause(works: int, limit: int) -> None:
    agent = Broken(works)
    result, _ = run(agent, n_workers=16, asynchronous=True, max_calls=5_000, window=1, rounds=None)
    assert result.stop_reason == "error"
    assert result.error == f"{limit} calls in a row failed, the last with: ConnectionRefusedError: port 11434"
    assert limit <= len(failures(result)) <= limit + 16
    assert len(agent.starts) == works + len(failures(result))
    check_books(result)


# --- stops ------------------------------------------------------------------------------------------------------------

STOPS: dict[str, dict[str, Any]] = {
    "max_seconds": {"max_seconds": 20.5},
    "stop_when": {"stop_when": lambda state: asyncio.get_running_loop().time() >= 20.5},
    "cancelled": {},
}


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("reason", sorted(STOPS))
def test_a_stop_settles_what_is_open_and_starts_nothing(reason: str, asynchronous: bool) -> None:
    agent, stop = Slept(dict.fromkeys(range(110, 2_000, 7), 15.0)), Cancellation()
    agent.declines = 0.95

    async def main() -> EvolutionResult:
        if reason == "cancelled":
            asyncio.get_running_loop().call_later(20.5, stop.request)
        return await evolved(
            agent, cancellation=stop, asynchronous=asynchronous, n_workers=8, rounds=90, **STOPS[reason]
        )

    result, seconds = simulate(main())
    assert (result.stop_reason, result.error) == (reason, "")
    assert 10 < max(agent.starts) <= 21
    assert 21 <= seconds < 40
    assert result.spend.total.tokens == agent.billed
    interrupted = next(n for n, event in enumerate(events_of(result)) if isinstance(event, Interrupted))
    after = events_of(result)[interrupted:]
    assert not any(isinstance(event, Decided) for event in after)
    assert sum(isinstance(event, RolledOut | Proposed) for event in after) >= 2
    check_books(result)


def test_a_call_that_hangs_when_the_time_is_up_is_settled_at_its_deadline() -> None:
    class Hung(Agent):
        async def trouble(self, number: int) -> None:
            await asyncio.sleep(1.0 if number < 50 else 10_000.0)

    agent = Hung()
    result, seconds = run(agent, max_seconds=40.0, n_workers=4)
    assert result.stop_reason == "max_seconds"
    assert set(failures(result)) == {("timeout", "no answer within 120 s", None)}
    assert seconds <= max(agent.starts) + DEADLINE
    assert result.spend.total.tokens == agent.billed + result.spend.assumed
    check_books(result)


def test_a_timer_that_is_early_by_the_resolution_of_the_clock_is_in_time() -> None:
    at, limit = 8.9, 27.8
    assert at + (limit - at) < limit  # so the simulated clock stops before the limit, as a coarse real one does

    class Waits(Agent):
        async def trouble(self, number: int) -> None:
            if number == 0:
                await asyncio.sleep(at)
            else:
                raise CallFailed("rate-limit", "429", retry_after=100.0)

    result, seconds = run(Waits(), max_seconds=limit, n_workers=1)
    assert (result.stop_reason, round(seconds, 3)) == ("max_seconds", limit)


def test_a_port_that_cancels_its_own_call_after_a_stop_is_not_waited_for() -> None:
    class Selfish(Agent):
        async def trouble(self, number: int) -> None:
            await asyncio.sleep(1.0 if number < 20 else 5.0)
            if number >= 20:
                raise asyncio.CancelledError

    agent, stop = Selfish(), Cancellation()

    async def main() -> EvolutionResult:
        asyncio.get_running_loop().call_later(8.0, stop.request)
        return await evolved(agent, cancellation=stop)

    result, seconds = simulate(main())
    assert (result.stop_reason, seconds < 15) == ("cancelled", True)
    assert {message for _, message, _ in failures(result)} == {"the port cancelled its own call"}
    check_books(result)


def test_a_log_that_fails_in_its_own_way_ends_the_run() -> None:
    class Database(MemoryLog):
        def answered(self, outcome: Outcome, output: str, seconds: float, refused: int = 0) -> None:
            if outcome.id == 12:
                raise LookupError("the database is locked")
            super().answered(outcome, output, seconds, refused)

    with pytest.raises(LookupError, match="the database is locked"):
        run(Agent(), log=Database())


# --- answers that wait ------------------------------------------------------------------------------------------------


class Kept(MemoryLog):
    """Knows what a process that dies leaves behind: events up to the last sync, and every answer."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.durable = 0
        self.journal: dict[int, tuple[Outcome, str]] = {}
        self.recalled_at: list[int] = []
        self.calls: Callable[[], int] = lambda: -1

    def sync(self) -> None:
        self.durable = len(list(self.events()))

    def answered(self, outcome: Outcome, output: str, seconds: float, refused: int = 0) -> None:
        super().answered(outcome, output, seconds, refused)
        self.journal.setdefault(outcome.id, (outcome, output))

    def recall(self, ids: Collection[int]) -> Mapping[int, tuple[Outcome, str]]:
        self.recalled_at.append(self.calls())
        return super().recall(ids)


@pytest.mark.parametrize("repeat", ["charged", "free"])
def test_answers_that_wait_for_admission_survive_a_crash_and_are_not_asked_for_again(repeat: Repeat) -> None:
    options: dict[str, Any] = {
        "asynchronous": True,
        "n_workers": 4,
        "window": 8,
        "max_concurrency": 32,
        "async_ratio": 4,
        "merge_size": 4,
        "rounds": 40,
        "repeat": repeat,
    }
    first, again, log = Slept({120: 100.0}), Agent(), Kept()
    first.declines = again.declines = 0.8  # so that few turns bring a proposal, and many run ahead
    crash(first, 80.0, log=log, **options)
    left = list(log.events())[: log.durable]
    folded = {event.id for event in left if isinstance(event, RolledOut | Proposed | Failed)}
    waiting = set(log.journal) - folded
    assert len(waiting) >= 25
    assert {event.command.id for event in left if isinstance(event, Decided)} >= waiting

    resumed = Kept(left, log.journal)
    resumed.calls = lambda: len(again.starts)
    result, _ = run(again, log=resumed, **options)
    outcomes = {event.id: event for event in events_of(result) if isinstance(event, RolledOut | Proposed | Failed)}
    assert {ident: outcomes[ident] for ident in log.journal} == {i: answer for i, (answer, _) in log.journal.items()}
    assert resumed.recalled_at == [0]
    assert len(again.starts) == len(set(outcomes) - set(log.journal))
    check_books(result)
    orphans = [event for event in events_of(result) if isinstance(event, Abandoned)]
    if repeat == "free":
        undisturbed = Agent()
        undisturbed.declines = 0.8
        assert orphans == []
        assert result.digest == run(undisturbed, **options)[0].digest
    else:
        assert orphans[0].started
        assert first.billed + again.billed < result.spend.total.tokens


class Timed(Agent):
    """Latencies by a seed."""

    def __init__(self, seed: int, sigma: float = 1.0) -> None:
        super().__init__()
        self.latency = lognormal(seed, 1.0, sigma)

    async def trouble(self, number: int) -> None:
        await asyncio.sleep(self.latency("call", number))


WAYS: list[dict[str, Any]] = [
    {"rounds": 4, "n_workers": 8, "max_tokens": 60_000, "test_share": 0.2, "open_gates": 2, "wave_min": 4},
    {"rounds": 8, "n_workers": 8, "asynchronous": True, "window": 4, "open_gates": 2, "test_share": 0.2},
]


@pytest.mark.parametrize("options", WAYS, ids=["rounds", "continuous"])
def test_under_ordered_admission_no_latency_is_in_the_log(options: dict[str, Any]) -> None:
    runs = [run(Timed(seed), admission="ordered", deadline=10_000.0, **options) for seed in range(50)]
    assert len({result.digest for result, _ in runs}) == 1
    assert len({seconds for _, seconds in runs}) == 50
    assert runs[0][0].version > 0
    check_books(runs[0][0])


@pytest.mark.parametrize("options", WAYS, ids=["rounds", "continuous"])
def test_under_arrival_admission_reruns_may_differ_and_each_replays(options: dict[str, Any]) -> None:
    runs = [run(Timed(seed), admission="arrival", deadline=10_000.0, **options)[0] for seed in range(10)]
    assert len({result.digest for result in runs}) > 1
    for result in runs:
        check_books(result)
    assert run(Timed(3), admission="arrival", deadline=10_000.0, **options)[0].digest == runs[3].digest


def test_attempts_that_were_turned_away_are_told_beside_the_answer_and_not_in_it() -> None:
    class Counting(MemoryLog):
        def __init__(self) -> None:
            super().__init__()
            self.refused = list[int]()

        def answered(self, outcome: Outcome, output: str, seconds: float, refused: int = 0) -> None:
            self.refused.append(refused)
            super().answered(outcome, output, seconds, refused)

    agent, log = Blocking(), Counting()
    agent.refused = (3, 12, 13, 40)
    run_on(Scripted(at_once), agent, log=log)
    assert sum(log.refused) == 4
