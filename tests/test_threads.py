"""Calls in threads, handed over ahead of them: what begins when, and what a stop gives back."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from agentdescent import Answer, Cancellation, MemoryLog, Rate, Tariff, Task, Usage, async_evolve
from agentdescent.budget.usage import Amount
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Abandoned, Decided, Event, Failed, Interrupted, Proposed, RolledOut
from agentdescent.ports import Item, Repeat, Result, Retry
from agentdescent.result import EvolutionResult
from agentdescent.simulation import simulate
from agentdescent.threads import Threads

SECONDS = 30.0
"""How long what must happen may take; nothing takes it."""

Done = Callable[[Any], None]


def item(command: int, *, answered: bool = False) -> Item:
    return Item(Rollout(command, "rollout", "a" * 32, 0, 512, Amount(tokens=600)), (), "# rules", answered=answered)


# --- the threads themselves -------------------------------------------------------------------------------------------


class Bench:
    """Threads whose calls say that they began, and end when they are let."""

    def __init__(self, capacity: int, unwanted: int = -1) -> None:
        self.began: list[int] = []
        self.told: list[int] = []
        self._one_began, self._one_told = threading.Semaphore(0), threading.Semaphore(0)
        self.ends = [threading.Event() for _ in range(10)]
        self.threads: Threads[int] = Threads(capacity, lambda command: command != unwanted)
        self.threads.open(self._perform, "free")

    def _perform(self, item: Item) -> int:
        self.began.append(item.command.id)
        self._one_began.release()
        self.ends[item.command.id].wait(SECONDS)
        return item.command.id

    def submit(self, *items: Item) -> None:
        for one in items:
            self.threads.submit(one, self._done)

    def _done(self, result: int | BaseException) -> None:
        assert isinstance(result, int)
        self.told.append(result)
        self._one_told.release()

    def await_began(self, count: int) -> None:
        assert all(self._one_began.acquire(timeout=SECONDS) for _ in range(count))

    def end(self, *commands: int) -> None:
        """And wait until all of them told."""
        for command in commands:
            self.ends[command].set()
            assert self._one_told.acquire(timeout=SECONDS)


def test_a_thread_takes_the_next_by_itself_and_there_are_no_more_than_the_capacity() -> None:
    bench = Bench(2)
    bench.submit(*(item(n) for n in range(4)))
    bench.await_began(2)
    assert sorted(bench.began) == [0, 1]
    bench.end(0)
    bench.await_began(1)
    assert bench.began[2:] == [2]
    bench.end(2, 1, 3)
    assert bench.told == [0, 2, 1, 3]
    bench.threads.close()


def test_what_is_taken_back_never_begins_but_what_was_solved_is_scored() -> None:
    bench = Bench(1)
    bench.submit(item(0), item(1), item(2, answered=True), item(3))
    bench.await_began(1)
    assert bench.threads.recall() == [1, 3]
    bench.submit(item(4))
    bench.end(0, 2, 4)
    assert bench.began == [0, 2, 4]
    bench.threads.close()


def test_one_that_hangs_is_left_behind_and_another_takes_its_place() -> None:
    bench = Bench(1)
    bench.submit(item(0), item(1), item(2))
    bench.await_began(1)
    bench.threads.leave(0)
    bench.await_began(1)
    assert bench.began == [0, 1]
    bench.ends[0].set()  # too late: nobody is told, and its thread takes nothing more
    bench.end(1, 2)
    assert (bench.told, bench.began) == ([1, 2], [0, 1, 2])
    bench.threads.leave(2)  # it ended
    bench.submit(item(3))
    bench.end(3)
    bench.threads.close()


def test_what_nobody_waits_for_any_more_is_not_performed() -> None:
    bench = Bench(1, unwanted=1)
    bench.submit(item(0), item(1), item(2))
    bench.end(0, 2)
    assert bench.began == bench.told == [0, 2]
    bench.threads.close()


# --- a run on threads in simulated time -------------------------------------------------------------------------------


class Queued:
    """`Threads` in simulated time. `naps(number)`: seconds that call `number` takes, math.inf for one that hangs."""

    def __init__(self, naps: Callable[[int], float], capacity: int, begins: Callable[[int], bool]) -> None:
        self.naps, self.capacity, self.begins = naps, capacity, begins
        self.waiting: deque[tuple[Item, Done]] = deque()
        self.running: set[int] = set()
        self.begun: list[int] = []
        self.most = self.most_waiting = 0
        self.interrupted = -1  # how many had begun
        self.recalled: list[int] = []

    def open(self, perform: Callable[[Item], Result | Retry], repeat: Repeat) -> None:
        self.perform = perform

    def submit(self, item: Item, done: Done) -> None:
        self.waiting.append((item, done))
        self._next()
        self.most_waiting = max(self.most_waiting, len(self.waiting))

    def _next(self) -> None:
        while self.waiting and len(self.running) < self.capacity:
            item, done = self.waiting.popleft()
            command, nap = item.command.id, self.naps(len(self.begun))
            if self.begins(command):
                self.begun.append(command)
                self.running.add(command)
                self.most = max(self.most, len(self.running))
                if nap < math.inf:
                    asyncio.get_running_loop().call_later(nap, self._end, item, done)

    def _end(self, item: Item, done: Done) -> None:
        if item.command.id in self.running:
            self.running.remove(item.command.id)
            done(self.perform(item))
            self._next()

    def recall(self) -> list[int]:
        back = [item.command.id for item, _ in self.waiting]
        self.recalled += back
        self.waiting.clear()
        return back

    def leave(self, command: int) -> None:
        self.running.discard(command)
        self._next()

    def close(self) -> None:
        self.waiting.clear()


class Right:
    name, blocking, bills = "right", False, False

    def __call__(self, task: Task, output: str) -> float:
        return float(output == "right")


class Agent:
    name = "agent"
    tariff = Tariff(Rate(strict=True, ceiling=10), Rate(strict=True, ceiling=10))

    def solve(self, rendered: str, task: Task) -> Any:
        return Answer("right" if int(task.id[1:]) % 3 else "wrong", Usage(prompt=1, completion=1))

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        return Answer(None, Usage(prompt=1, completion=1))


TASKS = [Task(f"t{n}", f"message {n}") for n in range(40)]


def run(
    monkeypatch: pytest.MonkeyPatch, naps: Callable[[int], float], agent: Agent, **options: Any
) -> tuple[Queued, EvolutionResult, float]:
    made: list[Queued] = []

    def threads(capacity: int, begins: Callable[[int], bool]) -> Queued:
        made.append(Queued(naps, capacity, begins))
        return made[-1]

    def watch(event: Event, state: object) -> None:
        if isinstance(event, Interrupted):
            made[-1].interrupted = len(made[-1].begun)

    monkeypatch.setattr("agentdescent.calls.Threads", threads)
    chosen: dict[str, Any] = {"repeat": "free", "asynchronous": True, "n_workers": 8, "max_calls": 300, **options}
    chosen |= {"rounds": None, "log": MemoryLog(), "observers": (watch,)}
    result, seconds = simulate(async_evolve(TASKS, Right(), agent=agent, **chosen))
    return made[-1], result, seconds


def of(result: EvolutionResult, *kinds: type[Event]) -> list[Any]:
    return [event for event in result.log.events() if isinstance(event, kinds)]


def test_free_calls_wait_in_line_and_no_more_run_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, result, _ = run(monkeypatch, lambda number: 1.0 + number % 5, Agent())
    assert (threads.most, threads.most_waiting) == (8, 2)
    assert len(threads.begun) == result.spend.total.calls > 250


def test_charged_calls_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, _, _ = run(monkeypatch, lambda number: 1.0 + number % 5, Agent(), repeat="charged")
    assert (threads.most, threads.most_waiting) == (8, 0)


def test_the_log_does_not_know_who_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = {
        run(monkeypatch, lambda number: 1.0, Agent(), **options)[1].digest
        for options in ({}, {"repeat": "charged"}, {"max_concurrency": 1}, {"max_concurrency": 40})
    }
    assert len(digests) == 1


def test_calls_that_go_on_when_their_thread_has_ended_are_not_joined_by_more(monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(Agent):
        running = most = 0

        def solve(self, rendered: str, task: Task) -> Any:
            async def later() -> Any:
                self.running += 1
                self.most = max(self.most, self.running)
                await asyncio.sleep(3.0)
                self.running -= 1
                return Agent.solve(self, rendered, task)

            return later()

    agent = Later()
    threads, _, _ = run(monkeypatch, lambda number: 0.0, agent)
    assert (agent.most, threads.most_waiting) == (8, 0)


def test_the_deadline_runs_from_when_a_call_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    _, result, _ = run(monkeypatch, lambda number: 80.0, Agent(), n_workers=1, max_calls=100)  # in line: 80 s more
    assert of(result, Failed) == []


def test_calls_that_hang_end_at_their_deadline_and_starve_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    hung = range(40, 250, 9)
    threads, result, seconds = run(monkeypatch, lambda number: math.inf if number in hung else 1.0, Agent())
    assert {event.id for event in of(result, Failed)} == {threads.begun[number] for number in hung}
    assert {event.message for event in of(result, Failed)} == {"no answer within 120 s"}
    assert (threads.most, threads.most_waiting) == (8, 2)
    assert seconds < 120 * len(hung) / 4


@pytest.mark.parametrize("reason", ["cancelled", "max_seconds"])
def test_a_stop_gives_back_what_waits_in_line(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    stop = Cancellation()

    def naps(number: int) -> float:
        if number == 100 and reason == "cancelled":
            asyncio.get_running_loop().call_later(0.5, stop.request)
        return 1.0

    limits = {"max_seconds": 12.5} if reason == "max_seconds" else {}
    threads, result, _ = run(monkeypatch, naps, Agent(), cancellation=stop, **limits)
    assert result.stop_reason == reason
    assert len(threads.recalled) == 2
    assert len(threads.begun) == threads.interrupted == result.spend.total.calls
    answered = {event.id for event in of(result, RolledOut, Proposed)}
    abandoned = {event.id for event in of(result, Abandoned) if not event.started}
    assert answered == set(threads.begun)
    assert abandoned >= set(threads.recalled)
    assert {event.command.id for event in of(result, Decided)} == answered | abandoned
