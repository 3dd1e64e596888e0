"""Reliability of predicted probabilities, by hand; and that a log gives the labels that the engine learned."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Caps, ValueBudgetAllocator
from agentdescent.allocation import Always
from agentdescent.history.allocations import summarise
from agentdescent.history.calibration import Prediction, predictions, reliability
from agentdescent.history.interval import wilson
from agentdescent.record import replace
from tests.strategies import Job, any_job
from tests.world import any_order, play

EAGER = ValueBudgetAllocator(stages=("verify", "gate"), budget_start=2.0, min_observations=1, epsilon_start=0.5)


def test_by_hand() -> None:
    low = [Prediction("gate", 0.2, number == 0) for number in range(4)]
    high = [Prediction("gate", 0.9, committed=True) for _ in range(6)]
    found = reliability([*low, *high])
    assert found is not None
    assert (found.count, [row.count for row in found.bins]) == (10, [4, 6])
    assert [(row.low, row.high) for row in found.bins] == [(0.2, 0.3), (0.9, 1.0)]
    assert found.bins[0].interval == wilson(0.25, 4)
    assert found.ece == pytest.approx(0.4 * 0.05 + 0.6 * 0.1)
    assert found.brier == pytest.approx((0.8**2 + 3 * 0.2**2 + 6 * 0.1**2) / 10)
    assert found.base == pytest.approx(0.7 * 0.3)
    half = 1.959963984540054 * math.sqrt(4 * 0.25 * 0.75) / 10
    assert found.ece_interval == pytest.approx((0.0, 0.08 + half))
    chance = math.sqrt(2 * 4 * 0.2 * 0.8 / math.pi) + math.sqrt(2 * 6 * 0.9 * 0.1 / math.pi)
    assert found.chance == pytest.approx(chance / 10)
    assert reliability([]) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1), st.integers(1, 20))
def test_it_stays_within_bounds(rows: list[tuple[float, bool]], bins: int) -> None:
    found = reliability([Prediction("gate", p, won) for p, won in rows], bins)
    assert found is not None
    assert sum(row.count for row in found.bins) == len(rows)
    assert 0.0 <= found.ece_interval[0] <= found.ece + 1e-12
    assert found.ece - 1e-12 <= found.ece_interval[1] <= 1.0
    assert 0.0 <= found.brier <= 1.0


@given(any_job(), st.integers(0, 9_999))
def test_the_labels_are_those_that_were_learned(job: Job, seed: int) -> None:
    spec, setup, world = job
    spec = replace(spec, allocator=EAGER, self_verify=True, caps=Caps(tokens=10**6, rounds=6))
    _, log = play(spec, setup, world, order=any_order(seed))
    summary, found = summarise(log), predictions(log)
    assert summary is not None
    assert len(found) == summary.n_observed
    assert sum(one.committed for one in found) == summary.n_committed
    for stage in summary.stages:
        held = reliability([one for one in found if one.stage == stage.stage])
        assert (held is None) == (stage.calibration is None)
        if held is not None and stage.calibration is not None:
            assert held.brier == pytest.approx(stage.calibration.brier)
    _, other = play(replace(spec, allocator=Always()), setup, world)
    assert predictions(other) == ()
