"""The contract of an Executor: every effect is answered once, whatever the port does, and closing waits for nobody."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from agentdescent.artifact.strategy import AppendRules
from agentdescent.budget.usage import Amount, Usage
from agentdescent.effects import Performer
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Failed
from agentdescent.ports import Answer, CallFailed, Executor, Item, Repeat, Result, Retry, Task
from agentdescent.testing.facts import TEXTS, expect, proposal_of
from agentdescent.wiring import ports_of

_SECONDS = 30.0
"""How long an answer that is owed may take."""

_MOMENT = 0.2
"""Seconds in which nothing may happen that must not."""


class _Unprintable(BaseException):
    def __init__(self, left: object, right: object) -> None:
        super().__init__("neither loaded from a pickle nor printed")

    def __str__(self) -> str:
        raise RuntimeError("not even that")


class _Probe:
    """An agent that behaves as the prompt of the task says, in whatever process. `hang` leaves a file in `directory`
    as it begins, and answers when there is one named `go`."""

    repeat: Repeat = "free"

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def solve(self, rendered: str, task: Task) -> Any:
        match task.prompt:
            case "raise":
                raise ValueError("北京")
            case "busy":
                raise CallFailed("rate-limit", "slow down", Usage(prompt=3), retry_after=2.5)
            case "exit":
                raise SystemExit(3)
            case "cancel":
                raise asyncio.CancelledError
            case "unprintable":
                raise _Unprintable(1, 2)
            case "nonsense":
                return lambda: None
            case "hang":
                with tempfile.NamedTemporaryFile(dir=self.directory, prefix="begun-", delete=False):
                    pass
                _until(lambda: os.path.exists(os.path.join(self.directory, "go")), _SECONDS)
            case _:
                pass
        return Answer(f"{rendered}/{task.prompt}", Usage(prompt=len(task.prompt), completion=1))

    async def answer_later(self, task: Task, output: str) -> Answer:
        return Answer(len(output) % 2, Usage(completion=2))

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        return Answer(f"{task.prompt}, {output}, {sample}", Usage(prompt=sample))


_PROMPTS = ("plain", "raise", "busy", "nonsense", *TEXTS, "exit", "cancel", "unprintable", "hang")
_TOTAL = _PROMPTS.index("exit")
"""So many of the prompts give a value wherever they are performed; what comes of the others need not be equal."""


class _Told:
    """What an executor said, by command."""

    def __init__(self) -> None:
        self.results: dict[int, object] = {}
        self.times: Counter[int] = Counter()
        self._lock = threading.Lock()

    def done(self, command: int, result: Result | Retry | BaseException) -> None:
        with self._lock:
            self.results.setdefault(command, result)
            self.times[command] += 1

    def await_all(self, commands: Iterable[int]) -> None:
        wanted = set(commands)
        _until(lambda: wanted <= set(self.times), _SECONDS)
        expect(wanted <= set(self.times), f"every effect is answered: {sorted(wanted - set(self.times))} are not")


def _until(holds: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.005)


def _items(first: int, prompts: Iterable[int]) -> list[Item]:
    """A rollout of each of the prompts, by index, with command ids from `first`."""
    return [
        Item(Rollout(first + n, "rollout", "a" * 32, prompt, 512, Amount(tokens=600)), (), "# rules")
        for n, prompt in enumerate(prompts)
    ]


def _proposal(command: int) -> Item:
    return Item(proposal_of(command, 0, 0).command, (("key", "北京"),), "# rules", "x" * 200_000)


def check_executor(make: Callable[[], Executor]) -> None:
    """The contract of `ports.Executor`. `make`: a new one that can perform two effects at once or more, not open."""
    with tempfile.TemporaryDirectory() as directory:
        probe = _Probe(directory)
        tasks = [Task(f"t{n}", prompt, {"cluster": str(n)}) for n, prompt in enumerate(_PROMPTS)]
        performer = Performer(ports_of(probe.answer_later, probe, None, None, None, None), tasks, AppendRules())
        _check_answers(make(), performer)
        _check_close(make(), performer, directory)


def _check_answers(executor: Executor, performer: Performer) -> None:
    perform, told = performer.remote(), _Told()
    executor.open(perform, performer.ports.repeat)
    try:
        items = [*_items(0, [*range(_TOTAL)] * 5), _proposal(900)]
        scored = items[0]._replace(command=_items(901, [0])[0].command, value=Answer("said", Usage(1)), answered=True)
        odd = _items(1_000, range(_TOTAL, len(_PROMPTS) - 1))
        for item in (*odd, *items, scored):
            executor.submit(item, partial(told.done, item.command.id))
        told.await_all(item.command.id for item in (*odd, *items, scored))
        for item in (*items, scored):
            command = item.command.id
            expect(told.results[command] == perform(item), f"effect {command} comes back as performed")
        for item in odd:
            result = told.results[item.command.id]
            failed = isinstance(result, tuple) and isinstance(result[0], Failed)
            expect(failed or isinstance(result, BaseException), "whatever a port raises is a failure of its effect")
        for item in _items(2_000, [0] * 20):
            executor.submit(item, partial(told.done, item.command.id))
        told.await_all(range(2_000, 2_020))
    finally:
        executor.close()
    expect(set(told.times.values()) == {1}, "every effect is answered once")


def _check_close(executor: Executor, performer: Performer, directory: str) -> None:
    told = _Told()
    executor.open(performer.remote(), performer.ports.repeat)
    try:
        for item in _items(0, [_PROMPTS.index("hang")] * 64):
            executor.submit(item, partial(told.done, item.command.id))
        _until(lambda: len(os.listdir(directory)) >= 2, _SECONDS)
        expect(len(os.listdir(directory)) >= 2, "effects are performed at the same time")
        began = time.monotonic()
    finally:
        executor.close()
    expect(time.monotonic() - began < _SECONDS / 3, "close does not wait for what hangs")
    executor.close()
    _until(lambda: False, _MOMENT)  # what is beginning
    begun = len(os.listdir(directory))
    with open(os.path.join(directory, "go"), "w"):
        pass
    _until(lambda: len(told.times) > 0 or len(os.listdir(directory)) > begun + 1, _MOMENT)
    expect(len(os.listdir(directory)) == begun + 1, "nothing is performed after close")
    expect(not told.times, "nobody is told after close")
