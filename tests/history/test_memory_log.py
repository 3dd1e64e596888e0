"""The log in memory: the contract of every log, going on from a prefix, and memory that does not grow."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.engine.event import Abandoned, Event, Failed, Outcome, Proposed
from agentdescent.errors import UsageError
from agentdescent.history.log import read
from agentdescent.history.memory import MemoryLog
from agentdescent.history.outputs import OpenOutputs
from agentdescent.ports import Log
from agentdescent.testing import check_log
from tests.history.facts import events, lines_of, propose, rolled, rollout, small_log


def test_it_keeps_the_contract_of_a_log() -> None:
    def reopen(log: Log) -> Log:
        log.close()
        return MemoryLog(log.events(), cast(MemoryLog, log).answers)

    check_log(MemoryLog, reopen)
    check_log(MemoryLog, lambda log: log)


@given(st.lists(events, max_size=6), st.integers(0, 6))
def test_going_on_from_a_prefix_is_the_same_log(facts: list[Event], cut: int) -> None:
    whole, rest = MemoryLog(), MemoryLog(facts[:cut])
    for event in facts:
        whole.append(event)
    for event in facts[cut:]:
        rest.append(event)
    assert list(rest.events()) == list(whole.events()) == facts
    assert rest.digest == whole.digest == [MemoryLog().digest, *(after for _, after in read(lines_of(facts)))][-1]


def test_answers_of_the_prefix_are_recalled_until_they_are_appended() -> None:
    answers: dict[int, tuple[Outcome, str]] = {0: (rolled(0, "kept"), "kept"), 7: (Proposed(7, ()), "")}
    log = MemoryLog([rollout(0)], answers)
    assert log.recall([0, 7, 8]) == answers
    log.append(answers[7][0])
    assert log.recall([0, 7, 8]) == {0: answers[0]}


def test_what_was_given_is_not_changed() -> None:
    facts: list[Event] = [rollout(0)]
    answers: dict[int, tuple[Outcome, str]] = {0: (Failed(0, "timeout", ""), "")}
    log = MemoryLog(facts, answers)
    log.append(answers[0][0])
    log.answered(rolled(9), "", 0.0)
    assert (facts, list(answers)) == ([rollout(0)], [0])


@pytest.mark.parametrize("keep", [True, False])
def test_answers_held_do_not_grow_with_the_run(keep: bool) -> None:
    log = MemoryLog(keep=keep)
    most = 0
    for turn in range(500):
        for worker in range(4):
            first = 12 * turn + 3 * worker
            log.append(rollout(first, worker))
            log.answered(rolled(first, "text"), "text", 0.0)
            log.append(rolled(first, "text"))
            if turn % 2:
                log.append(propose(first + 1, first, worker))
                reply = Failed(first + 1, "empty", "") if turn % 3 else Proposed(first + 1, ())
                log.answered(reply, "", 0.0)
                log.append(reply)
            log.append(rollout(first + 2, purpose="gate"))
            log.answered(rolled(first + 2, "gate"), "gate", 0.0)
            log.append(rolled(first + 2, "gate"))
            most = max(most, len(log.answers))
    assert most == 4


def test_events_that_are_not_kept_cannot_be_read_and_are_digested_all_the_same() -> None:
    facts = small_log()
    flat, kept = MemoryLog(facts[:3], keep=False), MemoryLog(facts)
    assert tuple(flat.events()) == facts[:3]
    for event in facts[3:]:
        flat.append(event)
    assert flat.digest == kept.digest
    with pytest.raises(UsageError, match="keep=True"):
        flat.events()
    assert (flat.path, kept.path) == (None, None)


def test_an_output_is_open_until_nobody_can_read_it() -> None:
    outputs = OpenOutputs()
    history: list[tuple[Event, int | None, set[int]]] = [
        (rollout(0, 0), None, {0}),
        (rollout(1, 1), None, {0, 1}),
        (rollout(2, 2), None, {0, 1, 2}),
        (rollout(3, 0, purpose="gate"), None, {0, 1, 2}),
        (rolled(0), None, {0, 1, 2}),
        (Failed(1, "timeout", ""), 1, {0, 2}),
        (Abandoned(2), 2, {0}),
        (rollout(4, 1), 1, {0, 4}),
        (rolled(4), None, {0, 4}),
        (propose(5, 0, 0), None, {0, 4}),
        (Failed(5, "malformed", ""), None, {0, 4}),
        (propose(6, 0, 0), None, {0, 4}),
        (Abandoned(6), None, {0, 4}),
        (propose(7, 0, 0), None, {0, 4}),
        (Proposed(7, ()), 0, {4}),
        (rollout(8, 1), 4, {8}),
    ]
    for event, closed, still in history:
        assert outputs.observe(event) == closed, event
        assert {command for command in range(9) if command in outputs} == still, event
