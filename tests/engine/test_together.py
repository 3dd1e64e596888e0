"""Every option drawn together, through failures, orphans, interruptions and amendments: the books of the world, of the
population and of the choices balance, every run ends with nothing held, and its log decides itself again."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import CallBudget, Caps, DiminishingReturns, Spec, State, UsageError, apply, due, initial, replay
from agentdescent.allocation.choice import Choice
from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.allocation.outcomes import Outcome
from agentdescent.allocation.policies import Always
from agentdescent.engine.allotting import left_of
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Decided, Event
from agentdescent.engine.merge_needs import begin
from agentdescent.engine.path import proposal_terms, verdict_cost, worker_path
from agentdescent.engine.population import dev_head, live
from agentdescent.engine.spec import Allocator, FusionWidth
from agentdescent.engine.state import Member, Worker
from agentdescent.engine.validation import check
from agentdescent.history.outcomes import outcomes
from agentdescent.merge.acceptance import MILLION, Unpaired
from agentdescent.merge.audit import Audit, Audited
from agentdescent.record import replace
from agentdescent.search import Archive, Beam, SingleHead
from tests.engine import spends
from tests.engine.population_books import audited
from tests.engine.spends import eager, spied, terminal
from tests.strategies import (
    ACCEPTANCES,
    ALLOCATORS,
    AUDITS,
    POLICIES,
    SAMPLINGS,
    Job,
    caps,
    economies,
    setups,
    specs,
    tight,
    trouble,
    worlds,
)
from tests.world import World, any_order, jobs, play

SEEDS = st.integers(0, 99_999)
FUTILITY = (0.0, 0.3, 0.9)
WIDTHS: tuple[FusionWidth, ...] = ("all", "adaptive", 2, 3)


@st.composite
def everything(draw: st.DrawFn, *, failing: bool = True, over: bool = False, strict: bool | None = None) -> Job:
    """A job in which no optional mechanism excludes another that it can be had with."""
    setup = draw(setups(strict=strict))
    limits = draw(st.sampled_from([caps(setup), tight(setup), tight(setup)]))
    spec = draw(specs(setup, limits=limits))
    selection = draw(st.sampled_from([SingleHead(), *POLICIES]))
    single = isinstance(selection, SingleHead)
    allocator: Allocator | None = draw(st.sampled_from([None, *ALLOCATORS[3:], *spends.ALLOCATORS, *spends.ALLOCATORS]))
    futility = draw(st.sampled_from(FUTILITY))
    predicted = futility > 0 or (allocator is not None and "finish" in allocator.stages)
    acceptances = [one for one in ACCEPTANCES if not (predicted and isinstance(one, Unpaired))]
    spec = replace(
        spec,
        selection=selection,
        refresh_interval=draw(st.sampled_from([1, 2])) if single else 1,
        fusion="union",
        fusion_width=draw(st.sampled_from(WIDTHS)) if single else "all",
        tournament=draw(st.sampled_from([True, True, False])),
        soft_floor=draw(st.sampled_from([0.3, 0.75, 1.0])),
        futility=futility,
        finish_epsilon=draw(st.sampled_from([0.0, 0.1, 0.5])),
        allocator=allocator,
        acceptance=draw(st.sampled_from(acceptances)),
        audit=draw(st.sampled_from(AUDITS)),
        oracle_budget=draw(st.sampled_from([0, 3, 12, 1_000])),
        sampling=draw(st.sampled_from(SAMPLINGS)),
        samples=draw(st.sampled_from([1, 2, 4])),
    )
    spec = replace(spec, **draw(economies(setup, spec)))
    return Job(spec, setup, draw(worlds(failing=failing, over=over)))


@given(everything(over=True), SEEDS, st.sampled_from([0, 0, 1, 2]))
def test_together(job: Job, seed: int, rough: int) -> None:
    observed: list[tuple[Choice, Outcome]] = []
    meddle = None if not rough else trouble(seed, stops=0.01 * rough**2)
    with spied(observed):
        state, log = play(*job, order=any_order(seed), meddle=meddle, limit=30_000)
    assert (state.stopped, due(state)) == (log[-1], ())
    if not (state.sweep is not None and state.sweep.gates) and state.base is None:
        assert state.governor.held == state.test_hold
    ended = terminal(log)
    assert Counter(observed) == Counter((choice, outcome) for choice, outcome in ended if outcome != "unresolved")
    assert (found := replay(log)).divergence is None, found.divergence
    assert found.finished
    if not isinstance(job.spec.selection, SingleHead):
        audited(job, log)
    labels = outcomes(log)
    everyone = sorted(labels)
    assert everyone == list(range(len(everyone)))


MEASURES = ("rebase", "conflict", "tournament")


def merges(job: Job, log: list[Event]) -> list[tuple[State, State]]:
    """(before, after) of each first fact of a merge that is an effect."""
    found, state = [], initial(job.spec, job.setup)
    for event in log:
        after = apply(state, event)
        if isinstance(event, Decided) and isinstance(event.command, Rollout) and event.command.purpose in MEASURES:
            begun = begin(state, patient=False)
            if begun is not None and begun is not state.sweep:
                found.append((state, after))
        state = after
    return found


@pytest.mark.parametrize("seed", [2, 8, 10, 14])
def test_a_merge_that_begins_with_a_tournament_is_about_its_own_head(seed: int) -> None:
    """Also where the merge before it was about another head: the union is compared, and nothing is stale."""
    spec, setup = jobs(16, workers=4)
    spec = replace(spec, selection=Beam(3), tournament=True, cheap_size=2)
    spec = replace(spec, schedule="rounds" if seed % 3 else "continuous")
    world = World(seed=seed, menu=("good", "good", "pair"), solved=0.1)
    _, log = play(spec, setup, world, order=any_order(seed))
    turned = [
        (before, after)
        for before, after in merges(Job(spec, setup, world), log)
        if after.sweep is not None and after.sweep.version != before.head.version.number
    ]
    assert turned, "the scenario is no longer met"
    for before, after in turned:
        assert after.sweep is not None
        assert after.head.version.number == after.sweep.version
        number = before.head.version.number
        assert live(after, number).rejected == before.head.rejected
    assert "cas-conflict" not in outcomes(log).values()


@given(everything(failing=False), SEEDS)
def test_a_merge_that_begins_with_an_effect_is_a_point_of_the_returns(job: Job, seed: int) -> None:
    rule = DiminishingReturns()
    caps = Caps(tokens=10**9, rounds=6)
    spec = replace(job.spec, schedule="continuous", caps=caps, diminishing_returns=rule, projection="verdict")
    job = Job(spec, job.setup, replace(job.world, menu=("good", "good", "clash", "pair", "meh"), solved=0.1))
    _, log = play(*job, order=any_order(seed), limit=30_000)
    for before, after in merges(job, log):
        if before.sweep is not None:
            point = after.returns.points[-1]
            assert point.tokens == before.governor.spent.tokens or after.returns == before.returns
            assert point.reward == dev_head(before).scores.total / (MILLION * before.head.scores.size)


def with_two_heads() -> tuple[State, Member, Member]:
    """At a barrier: the head that the merge was at last, of which the oracle has said all, and another."""
    spec, setup = jobs(16, workers=4)
    setup = replace(setup, oracle="oracle")
    spec = replace(
        spec, selection=Archive(), oracle_budget=1_000, audit=Audit(blast_radius=0.0), call_budget=CallBudget(48, 1)
    )
    world = World(seed=1, menu=("good", "long", "pair"), solved=0.1)
    state = initial(spec, setup)
    for event in play(spec, setup, world)[1]:
        state = apply(state, event)
        here = state.head.version
        others = [one for one in state.population.members if one.successor < 0 and one.head.version.size != here.size]
        if state.audited.artifact == here.artifact and others and not state.window.count:
            mine = next(one for one in state.population.members if one.head.version.number == here.number)
            return state, mine, others[0]
    raise AssertionError("the scenario is no longer met")


def test_the_path_of_a_turn_is_that_of_the_head_it_starts_from() -> None:
    """Whatever the oracle has said of the head that the merge was at last."""
    state, _, other = with_two_heads()
    start = other.head.version
    unheard = replace(state, audited=Audited())
    assert worker_path(state, 0, state.round, start=start) == worker_path(unheard, 0, state.round, start=start)


def test_what_a_proposal_may_use_depends_on_its_own_head() -> None:
    """With money for the smaller head's verdict and not for the larger one's."""
    state, mine, other = with_two_heads()
    for at in (mine, other):
        worker = Worker(stage="rolled", copy=at.head.version, task=state.split.train[0], score=900_000)
        facing = [replace(state, head=head) for head in (mine.head, other.head)]
        need = verdict_cost(state, at.head.version).tokens
        for free in range(0, need + 400, 8):
            caps = Caps(tokens=state.governor.spent.tokens + state.governor.held.tokens + free)
            now = [replace(one, governor=replace(one.governor, caps=caps)) for one in facing]
            assert len({proposal_terms(one, worker, 30) for one in now}) == 1


def test_rollouts_are_paced_as_rounds_are() -> None:
    """The price is paced by what runs out first of all that is limited beside the tokens."""
    state, _, _ = with_two_heads()
    spent = state.governor.spent.rollouts
    for limits, left in (
        (Caps(tokens=10**9), None),
        (Caps(tokens=10**9, rollouts=4 * spent), 0.75),
        (Caps(tokens=10**9, rollouts=4 * spent, rounds=2 * state.round), 0.5),
        (Caps(tokens=10**9, rollouts=4 * spent, rounds=8 * state.round), 0.75),
    ):
        assert left_of(replace(state, governor=replace(state.governor, caps=limits))) == left


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (Spec(tournament=True, fusion="none"), "tournament .* fusion"),
        (Spec(allocator=Always(stages=("tournament",))), "allocator .* tournament"),
        (Spec(allocator=eager(), fusion="none"), "allocator .* tournament"),
        (Spec(allocator=ValueBudgetAllocator(), self_verify=False), "allocator .* self_verify"),
    ],
)
def test_what_would_be_ignored_is_refused(changes: Spec, message: str) -> None:
    _, setup = jobs()
    with pytest.raises(UsageError, match=message):
        check(changes, setup)
