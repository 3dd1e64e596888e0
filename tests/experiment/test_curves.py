"""Learning curves: what a log says, and the arithmetic of steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import MemoryLog, UsageError, evolve
from agentdescent.experiment.curves import area, best, curve, grid, mean_curve, on_grid, reached, reward_at, tokens_to
from agentdescent.experiment.results import Curve
from agentdescent.job import Options
from agentdescent_adapters.worlds.calls import Immediate
from agentdescent_adapters.worlds.suite import setting
from bench.arms import BEST
from bench.trial import trial

STEPS: Curve = ((10, 0.3), (20, 0.5), (30, 0.4), (40, 0.7))
increasing = st.lists(st.integers(0, 1_000), min_size=1, max_size=8, unique=True).map(sorted)
curves = increasing.flatmap(
    lambda tokens: st.tuples(*(st.tuples(st.just(at), st.integers(0, 100).map(lambda x: x / 100)) for at in tokens))
)


def test_steps() -> None:
    assert [reward_at(STEPS, at) for at in (0, 10, 19, 20, 39, 40, 99)] == [0.3, 0.3, 0.3, 0.5, 0.4, 0.7, 0.7]
    assert [tokens_to(STEPS, target, 99) for target in (0.3, 0.5, 0.6, 0.8)] == [10, 20, 40, 99]
    assert [reached(STEPS, target, 35) for target in (0.3, 0.5, 0.6)] == [True, True, False]
    assert (tokens_to(STEPS, 0.6, 35), best(STEPS, 35), best(STEPS, 5)) == (35, 0.5, None)
    assert area(STEPS, 50) == pytest.approx((20 * 0.3 + 10 * 0.5 + 10 * 0.4 + 10 * 0.7) / 50)
    assert area(STEPS, 25) == pytest.approx((20 * 0.3 + 5 * 0.5) / 25)
    assert area(STEPS, 5) == pytest.approx(0.3)
    assert (reward_at((), 5), area((), 5)) == (None, None)


@given(curves, st.integers(1, 1_500))
def test_the_area_is_the_mean_over_a_grid_of_every_token(steps: Curve, cap: int) -> None:
    exact = area(steps, cap)
    assert exact is not None
    rewards = on_grid([steps], range(cap))[0]
    assert exact == pytest.approx(sum(rewards) / cap)


def test_curves_of_several_seeds_on_one_grid() -> None:
    other: Curve = ((5, 0.1), (25, 0.9))
    tokens = grid(40, 5)
    assert tokens == (0, 10, 20, 30, 40)
    assert on_grid([STEPS, other], tokens) == ((0.3, 0.3, 0.5, 0.4, 0.7), (0.1, 0.1, 0.1, 0.9, 0.9))
    assert mean_curve([STEPS, other], tokens) == pytest.approx((0.2, 0.2, 0.3, 0.65, 0.8))
    assert mean_curve([], tokens) == ()
    with pytest.raises(UsageError, match="curve 1 is empty"):
        on_grid([STEPS, ()], tokens)
    with pytest.raises(UsageError, match="at least 2"):
        grid(40, 1)
    with pytest.raises(UsageError, match="must be positive"):
        area(STEPS, 0)


def test_a_curve_of_a_log_is_what_the_world_knows() -> None:
    made, log = setting("clusters", 3), MemoryLog()
    arm: Options = {**BEST, "seed": 3, "max_tokens": 1_200_000}
    options: Options = {**made.options, **arm, "rounds": None, "agent": Immediate(made.agent), "log": log}
    result = evolve(made.tasks, made.scorer, **options)
    measured, true = curve(log.events()), curve(log.events(), made.agent.quality)
    assert len(measured) == result.version + 1 > 2
    assert (measured[0][1], measured[-1][1]) == (result.base, result.final)
    assert measured == true  # no noise: the held-out tasks are the truth
    path = trial(setting("clusters", 3), arm, 10**9).path
    assert true == path
    assert curve([]) == ()
