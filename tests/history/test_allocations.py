"""What an allocator decided and what came of it, and what a governor gave up, as the result shows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Caps, State, ValueBudgetAllocator
from agentdescent.allocation import Always, Never, Randomly
from agentdescent.allocation.allocator import standing
from agentdescent.allocation.outcomes import Outcome
from agentdescent.engine.event import Decided, Event, Judged, Skipped, Started
from agentdescent.engine.spec import Allocator
from agentdescent.engine.state import initial
from agentdescent.engine.transition import apply
from agentdescent.history.allocations import Allocations, summarise
from agentdescent.history.outcomes import choice_of, labels_of
from agentdescent.history.summary import Degraded, degrade, spend
from agentdescent.history.summary import summarise as budget_of
from agentdescent.record import replace
from tests.strategies import Job, any_job
from tests.world import World, any_order, jobs, play

SEEDS = st.integers(0, 9_999)
ALSO: tuple[tuple[Outcome, ...], ...] = ((), ("all-stale", "failed"), ("not-worth-gating",))
EAGER = ValueBudgetAllocator(budget_start=2.0, min_observations=1, epsilon_start=0.5)


def allocated(allocator: Allocator, job: Job, seed: int) -> tuple[State, list[Event]]:
    spec, setup, world = job
    spec = replace(spec, allocator=allocator, self_verify=True, caps=Caps(tokens=10**6, rounds=6))
    return play(spec, setup, world, order=any_order(seed))


@given(any_job(), SEEDS, st.sampled_from(ALSO))
def test_it_counts_what_the_engine_learned(job: Job, seed: int, also: tuple[Outcome, ...]) -> None:
    state, log = allocated(replace(EAGER, also_negative=also), job, seed)
    found, learned = summarise(log), standing(state.learned, "verify")
    assert found is not None
    assert (found.n_decisions, found.n_skipped) == (learned.decided, learned.skipped)
    assert found.n_counterfactual == learned.counterfactual
    assert (found.n_observed, found.n_committed) == (learned.weights.observed, learned.committed)
    for stage in found.stages:
        assert (stage.calibration is None) == (stage.observed == 0)
        if stage.calibration is not None:
            assert stage.calibration.count == stage.observed
            assert sum(one.count for one in stage.calibration.bins) == stage.observed
            assert round(sum(one.observed * one.count for one in stage.calibration.bins)) == stage.committed
            assert all(one.low <= one.predicted <= one.high for one in stage.calibration.bins)


def test_the_calibration_by_hand() -> None:
    spec, setup = jobs(20, workers=4)
    spec = replace(spec, allocator=EAGER, caps=Caps(tokens=10**6, rounds=8))
    _, log = play(spec, setup, World(seed=4, solved=0.1))
    labels = {subject: outcome for event in log if isinstance(event, Judged) for subject, outcome in labels_of(event)}
    pairs = []
    for event in log:
        choice = choice_of(event)
        if choice is not None and isinstance(event, Decided | Skipped):
            label = labels.get(event.subject)
            if label in ("committed", "regression", "below-threshold", "lost-conflict", "cas-conflict"):
                pairs.append((choice.p, label == "committed"))
    found = summarise(log)
    assert found is not None
    calibration = found.stages[0].calibration
    assert calibration is not None
    assert calibration.brier == pytest.approx(sum((p - label) ** 2 for p, label in pairs) / len(pairs))
    first = calibration.bins[0]
    inside = [(p, label) for p, label in pairs if first.low <= p < first.high]
    assert (first.count, first.observed) == (len(inside), sum(label for _, label in inside) / len(inside))
    assert first.predicted == pytest.approx(sum(p for p, _ in inside) / len(inside))


@given(any_job(), SEEDS)
def test_a_control_predicts_nothing(job: Job, seed: int) -> None:
    for control in (Never(), Randomly(0.5)):
        _, log = allocated(control, job, seed)
        found = summarise(log)
        assert found is not None
        assert all(stage.calibration is None for stage in found.stages)
        skipped = sum(isinstance(event, Skipped) and event.reason == "allocator" for event in log)
        assert found.n_skipped == skipped


def test_a_run_without_an_allocator_has_none() -> None:
    _, log = play(*jobs(), World())
    assert summarise(log) is None
    assert Allocations().summary() is None


def test_what_a_governor_gave_up_and_when() -> None:
    """At half the cap no self-verify: the first refusal, by purpose, with the tokens and the round of it."""
    spec, setup = jobs(20, workers=4)
    spec = replace(spec, caps=Caps(tokens=8_000), hard_floor=0.5, allocator=Always())
    final, log = play(spec, setup, World(seed=1, solved=0.1, menu=("meh",)))
    first = log[0]
    assert isinstance(first, Started)
    state = initial(first.spec, first.setup)
    degraded: tuple[Degraded, ...] = ()
    expected: Degraded | None = None
    for event in log:
        before, state = state, apply(state, event)
        degraded = degrade(degraded, event, state)
        if expected is None and isinstance(event, Skipped) and event.reason == "clock":
            expected = Degraded("verify", before.governor.spent.tokens, before.round)
    assert expected is not None
    assert degraded == (expected,)
    assert 4_000 <= expected.tokens < 8_000
    budget = budget_of(final, degraded)
    assert budget is not None
    assert (budget.cap, budget.degraded, budget.ceiling) == (8_000, (expected,), "strict")
    assert budget.reported + budget.assumed == budget.spent.tokens == spend(final).total.tokens
    assert budget.remaining == 8_000 - budget.spent.tokens - budget.due.tokens - budget.held.tokens
    refused = summarise(log)
    assert refused is not None
    assert refused.stages[0].refused == sum(isinstance(event, Skipped) and event.reason == "clock" for event in log)


def test_without_a_cap_there_is_no_budget_to_sum_up() -> None:
    final, _ = play(*jobs(), World())
    assert budget_of(final) is None
    assert spend(final).total.tokens > 0
    assert sum(line.tokens for line in spend(final).by_purpose) == spend(final).total.tokens
