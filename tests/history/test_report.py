"""The report of any log agrees with every other projection of it, and with the log itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import CorruptLog
from agentdescent.engine.event import Committed, GateOpened, Judged
from agentdescent.history.fold import folded
from agentdescent.history.lineage import lineage
from agentdescent.history.outcomes import choice_of, outcomes
from agentdescent.history.report import report
from agentdescent.history.spend import by_subject
from agentdescent.merge.verdict import GateEvidence
from agentdescent.record import replace
from tests.strategies import Job, any_job
from tests.world import World, any_order, jobs, play

SEEDS = st.integers(0, 9_999)


@given(any_job(), SEEDS)
def test_it_agrees_with_the_log(job: Job, seed: int) -> None:
    state, log = play(*job, order=any_order(seed))
    found = report(log)
    assert (found.state, found.events) == (state, len(log))
    assert found.commits == lineage(log)[1]
    spent = by_subject(log)
    assert {one.subject: one.tokens for one in found.subjects} == {
        subject: used.tokens for subject, used in spent.items() if subject >= 0
    }
    assert found.unassigned + sum(one.tokens for one in found.subjects) == found.spend.total.tokens
    ended = outcomes(event for event in log if isinstance(event, Judged))
    assert all(one.outcome == ended.get(one.subject) for one in found.subjects)
    assert [one.choice for one in found.choices] == [made for event in log if (made := choice_of(event)) is not None]
    opened = {event.subject for event in log if isinstance(event, GateOpened)}  # one may be opened again on a new head
    assert sorted(row.subject for row in found.gates) == sorted(opened)


@given(any_job(), SEEDS)
def test_a_row_of_a_gate_is_what_it_was_judged_by(job: Job, seed: int) -> None:
    _, log = play(*job, order=any_order(seed))
    found = report(log)
    judged = [event for event in log if isinstance(event, Judged) and isinstance(event.evidence, GateEvidence)]
    rows = [row for row in found.gates if row.p is not None]
    assert [row.subject for row in rows] == [event.subject for event in judged]
    for row, event in zip(rows, judged, strict=True):
        evidence = event.evidence
        assert isinstance(evidence, GateEvidence)
        assert (row.outcome, row.answered) == (event.outcome, evidence.answered)
        assert len(row.marks) == len(found.heldout) == evidence.total
        assert evidence.total - row.marks.count(".") == evidence.answered
        assert ("+" in row.marks, "-" in row.marks) == (evidence.gain > 0, evidence.loss > 0)
        assert (row.reason == "completed") == ("." not in row.marks)
        assert 0 <= row.began <= row.ended <= found.spend.total.tokens


def test_the_curve_and_the_matrix_by_hand() -> None:
    spec, setup = jobs(24, workers=2)
    _, log = play(replace(spec, caps=replace(spec.caps, rounds=6)), setup, World(seed=1, menu=("good",), solved=0.2))
    found = report(log)
    commits = [(event, after) for event, _, after in folded(log) if isinstance(event, Committed)]
    assert len(commits) > 1
    assert [point.version for point in found.curve] == list(range(len(commits) + 1))
    assert [(point.tokens, round(point.reward * 1_000_000 * len(found.heldout))) for point in found.curve[1:]] == [
        (after.governor.spent.tokens, event.total) for event, after in commits
    ]
    won = {row.subject: row for row in found.gates if row.outcome == "committed"}
    for commit in found.commits:
        marks = dict(zip(found.heldout, won[commit.subject].marks, strict=True))
        assert tuple(name for name, mark in marks.items() if mark == "+") == commit.gained
        assert tuple(name for name, mark in marks.items() if mark == "-") == commit.lost
    assert sum(found.final_scores) / len(found.heldout) == pytest.approx(found.curve[-1].reward)
    assert sum(found.base_scores) / len(found.heldout) == pytest.approx(found.curve[0].reward)
    assert (found.start, len(found.final)) == (setup.artifact, len(commits))


@given(any_job(), SEEDS, st.floats(0, 1))
def test_of_a_run_that_is_going_on(job: Job, seed: int, share: float) -> None:
    _, log = play(*job, order=any_order(seed))
    part = log[: max(1, round(share * len(log)))]
    found = report(part)
    assert found.events == len(part)
    assert (found.stop_reason is None) == (len(part) < len(log))
    opened = {event.subject for event in part if isinstance(event, GateOpened)}
    assert {row.subject for row in found.gates} == opened
    assert all(row.reason == "open" for row in found.gates if row.outcome is None)


def test_of_what_is_no_log() -> None:
    with pytest.raises(CorruptLog, match="the log is empty"):
        report([])
    with pytest.raises(CorruptLog, match="does not begin with Started"):
        report([Judged(0, "declined")])
