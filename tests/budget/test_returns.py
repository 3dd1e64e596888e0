"""When a token no longer buys what it once did."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.budget.returns import DiminishingReturns, Point, Returns, check, diminished, observe
from agentdescent.errors import UsageError

RULE = DiminishingReturns()


def stops_at(rewards: Sequence[float], rule: DiminishingReturns = RULE, cost: int = 1_000) -> int | None:
    """The round after which the run ends; the first reward is the base."""
    returns = Returns()
    for number, reward in enumerate(rewards):
        returns = observe(rule, returns, cost * number, reward)
        if diminished(rule, returns):
            return number
    return None


@pytest.mark.parametrize("phase", [0, 1, 2])
def test_steady_gains_in_every_third_round_run_to_the_end(phase: int) -> None:
    """Field case 33."""
    rewards = [0.1 * ((i + phase) // 3) for i in range(31)]
    assert stops_at(rewards) is None


def test_gains_that_cease_end_the_run() -> None:
    assert stops_at([0.0, 0.1, 0.2, 0.3, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4]) == 8
    assert stops_at([0.0, 0.4] + [0.4] * 9) == 5


def test_it_waits_for_a_whole_window_and_for_a_peak() -> None:
    assert stops_at([0.0, 0.4, 0.4, 0.4]) is None
    assert stops_at([0.5] * 20) is None
    assert stops_at([0.5 - 0.01 * i for i in range(20)]) is None


def test_the_returns_by_hand() -> None:
    returns = Returns()
    for number, reward in enumerate([0.0, 0.2, 0.4, 0.4, 0.6, 0.6]):
        returns = observe(RULE, returns, 500 * number, reward)
    points = tuple(Point(500 * i, reward) for i, reward in ((1, 0.2), (2, 0.4), (3, 0.4), (4, 0.6), (5, 0.6)))
    assert returns == Returns(points, (0.6 - 0.2) / 2_000, 0.6 / 2_000)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_is_skipped(odd: float) -> None:
    returns = Returns()
    for tokens, reward in ((0, 0.0), (1_000, odd), (2_000, 0.1)):
        returns = observe(RULE, returns, tokens, reward)
    assert returns == Returns((Point(0, 0.0), Point(2_000, 0.1)))
    rewards = [0.1 * (i // 3) if i % 5 else odd for i in range(31)]
    assert stops_at(rewards) is None


def test_a_round_that_cost_nothing_is_no_sample() -> None:
    returns = observe(RULE, observe(RULE, Returns(), 700, 0.25), 700, 0.5)
    assert returns == Returns((Point(700, 0.5),))


@given(st.lists(st.tuples(st.integers(0, 5_000), st.floats(0, 1)), max_size=40), st.integers(2, 6))
def test_the_state_is_a_window_and_survives_the_log(rounds: list[tuple[int, float]], samples: int) -> None:
    rule, returns, tokens = DiminishingReturns(min_efficiency_samples=samples), Returns(), 0
    for cost, reward in rounds:
        tokens += cost
        returns = observe(rule, returns, tokens, reward)
        assert len(returns.points) <= samples + 1
        assert not diminished(rule, returns) or (returns.peak or 0.0) > 0.0
    assert msgspec.json.decode(msgspec.json.encode(returns), type=Returns) == returns
    assert msgspec.json.decode(msgspec.json.encode(rule), type=DiminishingReturns) == rule


@pytest.mark.parametrize(
    ("rule", "cap", "message"),
    [
        (RULE, None, "needs a token cap: set max_tokens"),
        (DiminishingReturns(0.0), 1, "efficiency_floor is 0.0"),
        (DiminishingReturns(1.0), 1, "efficiency_floor is 1.0"),
        (DiminishingReturns(math.nan), 1, "efficiency_floor is nan"),
        (DiminishingReturns(0.25, 1), 1, "min_efficiency_samples is 1"),
    ],
)
def test_what_is_impossible_is_named(rule: DiminishingReturns, cap: int | None, message: str) -> None:
    check(RULE, 1_000)
    with pytest.raises(UsageError, match=message):
        check(rule, cap)
