"""What holds after every event, for arbitrary jobs, worlds, orders of arrival, failures, crashes and interruptions.

`world.Watch` keeps books of its own from the events alone: money by purpose, open effects, open proposals, holds,
scores of every commit, and the verdict that a sweep of all held-out tasks would have given.
"""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from agentdescent import Caps, Spec, apply, decide, due, seeded
from agentdescent.engine.event import (
    Amended,
    Committed,
    Decided,
    Event,
    Failed,
    GateOpened,
    Interrupted,
    Judged,
    Promoted,
    Proposed,
    RolledOut,
    Started,
    Stopped,
)
from agentdescent.engine.path import cheapest_path
from agentdescent.history.outcomes import outcomes
from agentdescent.record import replace
from strategies import Job, any_job, raised, setups, specs, trouble, worlds
from world import any_order, calls, play

FREE = Caps(rounds=3)
VAST = Caps(tokens=10**12, cost=10**18, calls=10**9, rollouts=10**9, rounds=3)


@given(any_job(), st.integers(0, 9_999))
def test_books_balance_in_any_order_of_answers(job: Job, seed: int) -> None:
    state, log = play(*job, order=any_order(seed))
    assert state.stopped == log[-1]
    assert due(state) == ()


@given(any_job(), st.integers(0, 9_999))
def test_books_balance_through_crashes_and_interruptions(job: Job, seed: int) -> None:
    state, log = play(*job, order=any_order(seed), meddle=trouble(seed))
    assert state.stopped == log[-1]
    assert due(state) == ()


@given(any_job(), st.integers(0, 9_999))
def test_every_proposal_ends_once(job: Job, seed: int) -> None:
    """By number, from 0 without a gap: closed by one Judged, or listed by Stopped."""
    _, log = play(*job, order=any_order(seed))
    ended = log[-1]
    assert isinstance(ended, Stopped)
    closed = [subject for event in log if isinstance(event, Judged) for subject in closed_by(event)]
    assert sorted((*closed, *ended.unresolved)) == list(range(len(closed) + len(ended.unresolved)))
    assert sorted(outcomes(log)) == sorted((*closed, *ended.unresolved))
    committed = [event.subject for event in log if isinstance(event, Committed)]
    labels = {event.subject: event.outcome for event in log if isinstance(event, Judged)}
    assert [subject for subject, label in labels.items() if label == "committed"] == committed


def closed_by(event: Judged) -> tuple[int, ...]:
    return (event.subject, *event.contributors)


# --- caps -------------------------------------------------------------------------------------------------------------


def bare(event: Event) -> Event:
    """Without the reservation: under an observed tariff the first of a kind reserves all there is."""
    if isinstance(event, Decided):
        return replace(event, command=replace(event.command, reserve=NONE))
    return event


NONE = calls_reserve = Caps and __import__("agentdescent.budget.usage", fromlist=["NOTHING"]).NOTHING


@given(st.data())
def test_a_cap_that_never_binds_changes_nothing(data: st.DataObject) -> None:
    priced = data.draw(st.booleans())
    setup = data.draw(setups(priced=priced))
    spec = data.draw(specs(setup, limits=st.just(FREE)))
    world = data.draw(worlds())
    vast = VAST if priced or not setup.tariff.solve.strict else replace(VAST, cost=None)
    _, free = play(spec, setup, world)
    _, capped = play(replace(spec, caps=vast), setup, world)
    if setup.tariff.solve.strict:
        assert free[1:] == capped[1:]
    assert [bare(event) for event in free[1:]] == [bare(event) for event in capped[1:]]


@given(any_job(failing=False, over=False, strict=True))
def test_what_is_left_does_not_buy_another_verdict(job: Job) -> None:
    state, log = play(*job)
    ended = log[-1]
    assert isinstance(ended, Stopped)
    assume(ended.reason == "max_tokens" and state.base is None)
    governor = state.governor
    assert governor.caps.tokens is not None
    free = governor.caps.tokens - governor.spent.tokens - governor.held.tokens
    assert 0 <= free < cheapest_path(state).tokens
