"""Contract checks for what an adapter implements, and simulated time for tests of what waits.

The checks are plain functions: a broken contract is an AssertionError.

def test_my_log(tmp_path):
    check_log(lambda: MyLog(tmp_path / "run"), lambda log: MyLog.reopen(log.path))
"""

from __future__ import annotations

import asyncio
import inspect
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from numbers import Real
from typing import Any

from agentdescent.artifact.diff import Add, digest
from agentdescent.artifact.strategy import AppendRules
from agentdescent.budget.tariff import Rate, worst
from agentdescent.budget.usage import Amount, Usage
from agentdescent.effects import Performer, checked
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import Decided, Event, Failed, Interrupted, Judged, Outcome, Proposed, RolledOut
from agentdescent.history.log import GENESIS, encode
from agentdescent.ports import Answer, CallFailed, Executor, Item, Log, Repeat, Result, Retry, Task
from agentdescent.simulation import NotSimulated, Scripted, clock, lognormal, simulate
from agentdescent.wiring import describe, ports_of


def expect(holds: bool, contract: str) -> None:
    """Raise AssertionError; unlike `assert` also under `python -O`."""
    if not holds:
        raise AssertionError(contract)


# --- logs -----------------------------------------------------------------------------------------------------------

_TEXTS = ("solved", "", '北京 🌍\r\n\x00\u2028 \\ "quoted"', "x" * 200_000)


def _rollout(command: int, worker: int) -> Decided:
    return Decided(Rollout(command, "rollout", "a" * 32, 0, 512, Amount(tokens=600)), 1, worker)


def _propose(command: int, rollout: int, worker: int) -> Decided:
    return Decided(Propose(command, "a" * 32, rollout, 0, 0, 250_000, 512, Amount(tokens=600)), 1, worker, 0)


def _output(command: int, text: str) -> RolledOut:
    data = text.encode()
    return RolledOut(command, 250_000, len(data), digest(data), Usage(prompt=90, completion=10))


def _chained(events: Iterable[Event]) -> str:
    after = GENESIS
    for n, event in enumerate(events):
        _, after = encode(n, after, event)
    return after


def _check_events(log: Log, expected: list[Event], when: str) -> None:
    expect(list(log.events()) == expected, f"{when}, events() is what was appended, oldest first")
    expect(list(log.events()) == expected, f"{when}, events() can be read again")
    expect(log.digest == _chained(expected), f"{when}, digest is that of the chain in agentdescent.history.log")


def _check_recall(log: Log, expected: dict[int, tuple[Outcome, str]], when: str) -> None:
    expect(dict(log.recall(expected.keys())) == expected, f"{when}, recall gives the first answers, texts exact")


def check_log(make: Callable[[], Log], reopen: Callable[[Log], Log]) -> None:
    """The contract of `ports.Log`. `make`: a new, empty log that keeps its events. `reopen`: closes a log and
    opens what it recorded, as the next process would."""
    log = make()
    _check_events(log, [], "in a new log")
    expect(dict(log.recall([0, 7])) == {}, "a new log recalls nothing")
    log.sync()

    workers = range(len(_TEXTS))
    events: list[Event] = [_rollout(worker, worker) for worker in workers]
    for event in events:
        log.append(event)
    _check_events(log, events, "before sync")
    log.sync()
    log.sync()
    _check_events(log, events, "after sync")

    answers: dict[int, tuple[Outcome, str]] = {n: (_output(n, text), text) for n, text in enumerate(_TEXTS)}
    for outcome, text in reversed(list(answers.values())):
        log.answered(outcome, text, 0.25)
    log.answered(_output(0, "too late"), "too late", 0.5)
    _check_recall(log, answers, "before the outcomes are appended")
    expect(dict(log.recall([])) == {}, "recall of no ids is empty")
    expect(set(log.recall([1, 99])) == {1}, "recall leaves out commands that were never answered")
    _check_events(log, events, "an answer is no event until it is appended:")

    log = reopen(log)
    _check_events(log, events, "after reopening")
    _check_recall(log, answers, "after reopening, before the outcomes are appended")

    proposed = len(_TEXTS)
    more: list[Event] = [outcome for outcome, _ in answers.values()]
    more.extend(_propose(proposed + worker, worker, worker) for worker in workers)
    for event in more:
        log.append(event)
    events += more
    log.sync()
    _check_recall(log, answers, "while proposals that read the outputs are due")
    log = reopen(log)
    _check_events(log, events, "after reopening a second time")
    _check_recall(log, answers, "after reopening, while proposals that read the outputs are due")

    replies: dict[int, tuple[Outcome, str]] = {
        proposed: (Proposed(proposed, (Add("rule", "北京\x00"),), Usage(prompt=5)), ""),
        proposed + 1: (Proposed(proposed + 1, ()), ""),
        proposed + 2: (Failed(proposed + 2, "timeout", "120 s are over"), ""),
    }
    for outcome, text in replies.values():
        log.answered(outcome, text, 120.0)
    _check_recall(log, replies, "for answers that are no outputs")
    failed = replies[proposed + 2][0]
    log.append(failed)
    events.append(failed)
    again = _propose(proposed + 9, 2, 2)
    log.append(again)
    events.append(again)
    _check_recall(log, {2: answers[2]}, "while another attempt at a failed proposal reads the output")
    for event in (replies[proposed][0], Judged(0, "declined"), Interrupted("cancelled")):
        log.append(event)
        events.append(event)
    _check_events(log, events, "before closing")
    log = reopen(log)
    _check_events(log, events, "what was appended is synced by close:")
    log.close()
    log.close()


# --- executors ------------------------------------------------------------------------------------------------------

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


_PROMPTS = ("plain", "raise", "busy", "nonsense", *_TEXTS, "exit", "cancel", "unprintable", "hang")
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
    return Item(_propose(command, 0, 0).command, (("key", "北京"),), "# rules", "x" * 200_000)


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


# --- agents and scorers ---------------------------------------------------------------------------------------------


def check_agent(agent: object, tasks: Sequence[Task], rendered: str = "") -> None:
    """What the driver relies on: a name that stays, text for every task, replies that are text or None, usage within
    the strict tariff it declares, arguments left alone. The agent is called: use one that costs nothing."""
    ports = ports_of(lambda task, output: 0.0, agent, None, None, None, None)
    expect(ports.agent == ports_of(lambda task, output: 0.0, agent, None, None, None, None).agent, "the name changes")
    if ports.begin is not None:
        ports.begin(list(tasks))
    for number, task in enumerate(tasks):
        before = describe(task)
        answer = _value(ports.solve(rendered, task))
        output = answer.value
        expect(isinstance(output, str), f"solve returned {type(output).__name__} for task {task.id!r}: it returns text")
        prompt = len(rendered.encode()) + before.size
        _within(ports.tariff.solve, answer.usage, prompt, f"solve of task {task.id!r}")
        arguments = (rendered, task, output, 0.0, number) if ports.samples else (rendered, task, output, 0.0)
        reply = _value(ports.propose(*arguments))
        expect(reply.value is None or isinstance(reply.value, str), "propose returns text or None")
        read = min(len(output.encode()), ports.tariff.output_limit)
        _within(ports.tariff.propose, reply.usage, prompt + read, f"proposal for task {task.id!r}")
        expect(describe(task) == before, f"task {task.id!r} was changed")


def check_scorer(scorer: Callable[..., Any], tasks: Sequence[Task], outputs: Sequence[str]) -> None:
    """A number in [0, 1] for every task and output, the same when asked again."""
    for task in tasks:
        for output in outputs:
            score = _value(scorer(task, output)).value
            real = isinstance(score, Real) and not isinstance(score, bool)
            expect(real and 0 <= score <= 1, f"the score of task {task.id!r} is {score!r}: it is in [0, 1]")
            expect(_value(scorer(task, output)).value == score, f"the score of task {task.id!r} changes")


def _value(answer: Any) -> Answer:
    if inspect.iscoroutine(answer):
        answer = asyncio.run(answer)
    return answer if isinstance(answer, Answer) else Answer(answer)


def _within(rate: Rate, usage: Usage | None, prompt_bytes: int, what: str) -> None:
    checked(usage)
    if rate.strict and usage is not None:
        bound = worst(rate, prompt_bytes, 1)
        within = usage.tokens <= bound.tokens and usage.calls <= bound.calls
        expect(within, f"{what} used {usage}, and its strict tariff allows {bound.tokens} tokens, {bound.calls} calls")


__all__ = [
    "NotSimulated",
    "Scripted",
    "check_agent",
    "check_executor",
    "check_log",
    "check_scorer",
    "clock",
    "lognormal",
    "simulate",
]
