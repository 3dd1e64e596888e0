"""The ceiling of one proposal: its formula in exact arithmetic, its bounds, and what is impossible."""

from __future__ import annotations

import math
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.budget.call_budget import MILLION, CallBudget, ceiling, check, least, lowered, lowest
from agentdescent.errors import UsageError

SCORES = st.integers(0, MILLION)
SHARES = st.floats(0.0, 1.0)


@pytest.mark.parametrize(
    ("base", "score", "remaining", "tokens"),
    [
        (4096, MILLION, 1.0, 4096),
        (4096, 0, 1.0, 2048),
        (4096, MILLION, 0.0, 2048),
        (4096, 0, 0.0, 1024),
        (4096, 500_000, 0.5, 2304),
        (4096, 100_000, 1.0, 2256),  # 2252.8
        (4096, 250_000, 0.6, 2048),  # exactly, though 0.625 * 0.8 is not a float
        (300, 0, 0.0, 256),
        (100, 0, 0.0, 100),
        (5000, MILLION, 1.0, 5000),
        (1, 0, 0.0, 1),
        (4096, 2 * MILLION, 7.0, 4096),
        (4096, -5, -1.0, 1024),
        (4096, 0, float("nan"), 1024),
    ],
)
def test_examples(base: int, score: int, remaining: float, tokens: int) -> None:
    assert ceiling(CallBudget(base), score, remaining) == tokens


@given(st.integers(1, 100_000), SCORES, SHARES)
def test_the_formula(base: int, score: int, remaining: float) -> None:
    budget = CallBudget(base)
    share = Fraction(math.floor(remaining * MILLION + 0.5), MILLION)
    exact = base * (Fraction(1, 2) + Fraction(score, 2 * MILLION)) * (Fraction(1, 2) + share / 2)
    clamped = min(Fraction(base), max(Fraction(least(budget)), exact))
    assert ceiling(budget, score, remaining) == min(base, 16 * math.ceil(clamped / 16))


@given(st.integers(1, 100_000), SCORES, SCORES, SHARES, SHARES)
def test_it_rises_with_score_and_budget(base: int, low: int, high: int, early: float, late: float) -> None:
    budget, (low, high), (early, late) = CallBudget(base), sorted((low, high)), sorted((early, late))
    bounds = [ceiling(budget, s, r) for s, r in ((low, early), (high, early), (high, late))]
    assert bounds == sorted(bounds)
    assert least(budget) <= bounds[0]
    assert bounds[2] <= base


def test_the_floor_is_a_quarter_but_at_least_256_and_at_most_base() -> None:
    assert [least(CallBudget(base)) for base in (1, 200, 256, 1024, 2048, 4096)] == [1, 200, 256, 256, 512, 1024]
    assert least(CallBudget(4096, 64)) == 64
    assert ceiling(CallBudget(4096, 3000), 0, 0.0) == 3008


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (CallBudget(0), "base is 0: it must be a positive whole number"),
        (CallBudget(100, 0), "floor is 0: it must be a whole number from 1 to base"),
        (CallBudget(100, 101), r"floor is 101: .* \(100\)"),
        (CallBudget(100, True), "floor is True"),
    ],
)
def test_what_is_impossible_is_named(budget: CallBudget, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check(budget)


def test_it_is_a_value_in_the_log() -> None:
    for budget in (CallBudget(), CallBudget(100, 7)):
        check(budget)
        assert msgspec.json.decode(msgspec.json.encode(budget), type=CallBudget) == budget


@given(st.integers(1, 5_000), st.data())
def test_it_is_lowered_as_little_as_fits(base: int, data: st.DataObject) -> None:
    budget = CallBudget(base, data.draw(st.one_of(st.none(), st.integers(1, base))))
    wanted = ceiling(budget, data.draw(SCORES), data.draw(SHARES))
    limit = data.draw(st.integers(0, wanted - 1))
    asked: list[int] = []

    def fits(tokens: int) -> bool:
        asked.append(tokens)
        return tokens <= limit

    steps = [n for n in range(16, base + 1, 16) if lowest(budget) < n < wanted and n <= limit]
    assert lowered(budget, wanted, fits) == max(steps, default=lowest(budget))
    assert len(asked) <= 9
    assert least(budget) <= lowest(budget) <= wanted
