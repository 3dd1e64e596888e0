"""What holds after every event, for arbitrary jobs, worlds, orders of arrival, failures, crashes and interruptions.

`world.Watch` keeps books of its own from the events alone: money by purpose, open effects, open proposals, holds,
scores of every commit, and the verdict that a sweep of all held-out tasks would have given.
"""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentdescent import Caps, due
from agentdescent.budget.usage import NOTHING, add
from agentdescent.engine.event import (
    Amended,
    Committed,
    Decided,
    Event,
    Failed,
    Interrupted,
    Judged,
    Proposed,
    RolledOut,
    Skipped,
    Stopped,
)
from agentdescent.engine.path import cheapest_path
from agentdescent.engine.state import State
from agentdescent.history.outcomes import outcomes
from agentdescent.record import replace
from tests.strategies import Job, any_job, setups, specs, tight, trouble, worlds
from tests.world import Kind, Meddler, any_order, play

FREE = Caps(rounds=3)
VAST = Caps(tokens=10**12, cost=10**18, calls=10**9, rollouts=10**9, rounds=3)
HELPFUL: tuple[Kind, ...] = ("good", "good", "clash", "pair", "meh")
SEEDS = st.integers(0, 9_999)


def end_of(log: list[Event]) -> Stopped:
    ended = log[-1]
    assert isinstance(ended, Stopped)
    return ended


# --- books ------------------------------------------------------------------------------------------------------------


@settings(max_examples=250)
@given(any_job(over=True), SEEDS)
def test_books_balance_in_any_order_of_answers(job: Job, seed: int) -> None:
    state, log = play(*job, order=any_order(seed))
    assert (state.stopped, due(state)) == (log[-1], ())


@settings(max_examples=250)
@given(any_job(over=True), SEEDS)
def test_books_balance_through_crashes_and_interruptions(job: Job, seed: int) -> None:
    state, log = play(*job, order=any_order(seed), meddle=trouble(seed))
    assert (state.stopped, due(state)) == (log[-1], ())


@given(any_job(), SEEDS)
def test_every_proposal_ends_once(job: Job, seed: int) -> None:
    """By number, from 0 without a gap: closed by one Judged, or listed by Stopped."""
    _, log = play(*job, order=any_order(seed))
    closed = [subject for event in log if isinstance(event, Judged) for subject in (event.subject, *event.contributors)]
    everyone = sorted((*closed, *end_of(log).unresolved))
    assert everyone == list(range(len(everyone)))
    labels = outcomes(log)
    assert sorted(labels) == everyone
    assert [subject for subject in everyone if labels[subject] == "unresolved"] == list(end_of(log).unresolved)


@given(any_job(failing=False), SEEDS)
def test_a_commit_is_labelled_at_its_first_contributor(job: Job, seed: int) -> None:
    spec, setup, world = job
    free, helpful = replace(spec, caps=FREE), replace(world, menu=HELPFUL, solved=0.1)
    _, log = play(free, setup, helpful, order=any_order(seed))
    labels = outcomes(log)
    contributors = {event.subject: event.contributors or (event.subject,) for event in log if isinstance(event, Judged)}
    commits = [event.subject for event in log if isinstance(event, Committed)]
    assume(commits)
    for subject in commits:
        first, *rest = contributors[subject]
        assert [labels[subject], labels[first]] == ["committed", "committed"]
        assert [labels[other] for other in rest] == ["co-contributor"] * len(rest)


# --- caps -------------------------------------------------------------------------------------------------------------


def bare(event: Event) -> Event:
    """Without the reservation: under an observed tariff the first of a kind reserves all there is."""
    return replace(event, command=replace(event.command, reserve=NOTHING)) if isinstance(event, Decided) else event


@given(st.data())
def test_a_cap_that_never_binds_changes_nothing(data: st.DataObject) -> None:
    setup = data.draw(setups())
    spec = data.draw(specs(setup, limits=st.just(FREE)))
    world = replace(data.draw(worlds()), silent=0.0)
    vast = VAST if setup.tariff.solve.prices is not None else replace(VAST, cost=None)
    _, free = play(spec, setup, world)
    _, capped = play(replace(spec, caps=vast), setup, world)
    assert [bare(event) for event in free[1:]] == [bare(event) for event in capped[1:]]
    if setup.tariff.solve.strict:
        assert free[1:] == capped[1:]


@given(st.data())
def test_what_is_left_does_not_buy_another_verdict(data: st.DataObject) -> None:
    setup = data.draw(setups(strict=True))
    spec = data.draw(specs(setup, limits=tight(setup)))
    world = data.draw(worlds())
    spec = replace(spec, projection="verdict")
    state, log = play(replace(spec, test_share=0.0, patience=None, target=None), setup, world)
    assume(state.base is None and end_of(log).reason.startswith("max_"))
    caps, used, path = state.governor.caps, add(state.governor.spent, state.governor.held), cheapest_path(state)
    left = [
        (cap - amount, needed)
        for cap, amount, needed in (
            (caps.tokens, used.tokens, path.tokens),
            (caps.cost, used.cost, path.cost),
            (caps.calls, used.calls, path.calls),
            (caps.rollouts, used.rollouts, path.rollouts),
        )
        if cap is not None
    ]
    assert len(left) == 1
    assert 0 <= left[0][0] < left[0][1]


@given(any_job(strict=True))
def test_after_an_overrun_nothing_starts(job: Job) -> None:
    spec, setup, world = job
    state, log = play(spec, setup, replace(world, over=0.3))
    assume(end_of(log).reason == "overrun")
    assert state.governor.overrun
    reserved = {one.command.id: one.command.reserve.tokens for one in log if isinstance(one, Decided)}
    crossed = [
        n
        for n, event in enumerate(log)
        if isinstance(event, RolledOut | Proposed | Failed)
        and event.usage is not None
        and event.usage.tokens > reserved[event.id]
    ]
    assert max(n for n, event in enumerate(log) if isinstance(event, Decided)) < crossed[0]


# --- the end, and going on --------------------------------------------------------------------------------------------


def interrupt_at(number: int) -> Meddler:
    def meddle(state: State, count: int) -> Event | None:
        return Interrupted("cancelled") if count == number else None

    return meddle


@given(any_job(), SEEDS, st.floats(0.0, 0.99))
def test_after_an_interruption_only_what_is_open_is_awaited(job: Job, seed: int, share: float) -> None:
    _, straight = play(*job, order=any_order(seed))
    at = 1 + int(share * (len(straight) - 1))
    assume(at < len(straight))
    _, log = play(*job, order=any_order(seed), meddle=interrupt_at(at))
    assert log[: at + 1] == [*straight[:at], Interrupted("cancelled")]
    asked = [event.command.id for event in straight[:at] if isinstance(event, Decided)]
    assert [event.command.id for event in log if isinstance(event, Decided)] == asked
    answered = [event.id for event in log if isinstance(event, RolledOut | Proposed | Failed)]
    assert sorted(answered) == asked
    assert {type(event) for event in log[at + 1 :]} <= {
        RolledOut,
        Proposed,
        Failed,
        Judged,
        Skipped,
        Committed,
        Stopped,
    }


@given(any_job(failing=False), SEEDS, st.floats(0.0, 1.0), st.booleans())
def test_what_was_unresolved_is_taken_up_again(job: Job, seed: int, share: float, more_rounds: bool) -> None:
    spec, setup, world = job
    _, straight = play(spec, setup, world, order=any_order(seed))
    proposals = [n for n, event in enumerate(straight) if isinstance(event, Decided) and event.subject >= 0]
    assume(proposals)
    at = proposals[int(share * (len(proposals) - 1))] + 1
    state, log = play(spec, setup, world, order=any_order(seed), meddle=interrupt_at(at) if share < 1.0 else None)
    unresolved = end_of(log).unresolved
    assume(unresolved)
    unlimited = Caps(rounds=max(1, state.round) + 2 * more_rounds)
    _, longer = play(spec, setup, world, order=any_order(seed), log=[*log, Amended(unlimited)])
    # Without a barrier a run that has all it wants does not go on to merge what is in progress.
    assume(spec.schedule == "rounds" or end_of(longer).reason not in ("target_reward", "solved", "error"))
    closed = {
        subject
        for event in longer[len(log) :]
        if isinstance(event, Judged)
        for subject in (event.subject, *event.contributors)
    }
    assert (end_of(longer).unresolved, set(unresolved) - closed) == ((), set())


@given(any_job(failing=False, strict=True), st.floats(0.0, 1.0))
def test_an_interrupted_run_goes_on_as_if_it_had_not_been(job: Job, share: float) -> None:
    """Interrupted and amended at once with the same caps, nothing is lost: the other facts are the same."""
    spec, setup, world = job
    spec = replace(spec, test_share=0.0)
    _, straight = play(spec, setup, world)
    at = 1 + int(share * (len(straight) - 2))

    def pause(state: State, number: int) -> Event | None:
        if state.interrupted is not None:
            return Amended(spec.caps)
        return Interrupted("cancelled") if number == at else None

    _, paused = play(spec, setup, world, meddle=pause)
    assert paused[at : at + 2] == [Interrupted("cancelled"), Amended(spec.caps)]
    assert [event for event in paused if not isinstance(event, Interrupted | Amended)] == straight
