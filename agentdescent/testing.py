"""Contract checks for what an adapter implements. Plain functions: a broken contract is an AssertionError.

def test_my_log(tmp_path):
    check_log(lambda: MyLog(tmp_path / "run"), lambda log: MyLog.reopen(log.path))
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any

from agentdescent.artifact.diff import Add, digest
from agentdescent.budget.tariff import Rate, worst
from agentdescent.budget.usage import Amount, Usage
from agentdescent.effects import checked, describe, ports_of
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import Decided, Event, Failed, Interrupted, Judged, Outcome, Proposed, RolledOut
from agentdescent.history.log import GENESIS, encode
from agentdescent.ports import Answer, Log, Task


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
