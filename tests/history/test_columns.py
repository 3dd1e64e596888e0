"""A log as rows and columns."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from agentdescent.engine.event import Abandoned, Failed, Proposed, RolledOut
from agentdescent.history.columns import Answered, columns, records
from agentdescent.history.fold import folded
from tests.strategies import Job, any_job
from tests.world import any_order, play


@given(any_job(), st.integers(0, 9_999))
def test_every_answer_is_a_row(job: Job, seed: int) -> None:
    state, log = play(*job, order=any_order(seed))
    rows = list(records(log))
    answers = [
        (n, event) for n, event in enumerate(log) if isinstance(event, RolledOut | Proposed | Failed | Abandoned)
    ]
    assert [(row.event, row.command) for row in rows] == [(n, event.id) for n, event in answers]
    after = [state for _, _, state in folded(log)]
    for row, (n, event) in zip(rows, answers, strict=True):
        assert row.spent == after[n].governor.spent.tokens
        assert (row.score is not None) == isinstance(event, RolledOut)
        assert bool(row.failure) == isinstance(event, Failed | Abandoned)
        assert -1 <= row.worker < state.spec.n_workers
    assert not rows or rows[-1].spent <= state.governor.spent.tokens


@given(any_job(), st.integers(0, 9_999))
def test_a_column_holds_a_field_of_every_row(job: Job, seed: int) -> None:
    _, log = play(*job, order=any_order(seed))
    rows, found = list(records(log)), columns(log)
    assert tuple(found) == Answered.__struct_fields__
    for name, column in found.items():
        assert column.shape == (len(rows),)
        if name == "score":
            assert [None if math.isnan(value) else value for value in column.tolist()] == [row.score for row in rows]
        else:
            assert column.tolist() == [getattr(row, name) for row in rows]


@given(any_job())
def test_a_column_has_its_type_before_anything_was_answered(job: Job) -> None:
    _, log = play(*job)
    kinds = [{name: column.dtype.kind for name, column in columns(events).items()} for events in (log[:1], log)]
    assert kinds[0] == kinds[1]
    assert [kinds[0][name] for name in ("event", "task", "score", "reward")] == ["i", "U", "f", "f"]
