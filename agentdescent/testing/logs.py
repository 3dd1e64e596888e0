"""The contract of a Log: what is appended and journalled is what is read again, in whatever process."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentdescent.artifact.diff import Add
from agentdescent.budget.usage import Usage
from agentdescent.engine.event import Event, Failed, Interrupted, Judged, Outcome, Proposed
from agentdescent.history.log import GENESIS, encode
from agentdescent.ports import Log
from agentdescent.testing.facts import TEXTS, expect, output_of, proposal_of, rollout_of


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

    workers = range(len(TEXTS))
    events: list[Event] = [rollout_of(worker, worker) for worker in workers]
    for event in events:
        log.append(event)
    _check_events(log, events, "before sync")
    log.sync()
    log.sync()
    _check_events(log, events, "after sync")

    answers: dict[int, tuple[Outcome, str]] = {n: (output_of(n, text), text) for n, text in enumerate(TEXTS)}
    for outcome, text in reversed(list(answers.values())):
        log.answered(outcome, text, 0.25)
    log.answered(output_of(0, "too late"), "too late", 0.5)
    _check_recall(log, answers, "before the outcomes are appended")
    expect(dict(log.recall([])) == {}, "recall of no ids is empty")
    expect(set(log.recall([1, 99])) == {1}, "recall leaves out commands that were never answered")
    _check_events(log, events, "an answer is no event until it is appended:")

    log = reopen(log)
    _check_events(log, events, "after reopening")
    _check_recall(log, answers, "after reopening, before the outcomes are appended")

    proposed = len(TEXTS)
    more: list[Event] = [outcome for outcome, _ in answers.values()]
    more.extend(proposal_of(proposed + worker, worker, worker) for worker in workers)
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
    again = proposal_of(proposed + 9, 2, 2)
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
