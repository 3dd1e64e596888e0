"""The probability that a change is better, against sums that can be done exactly, and the verdict that follows."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.merge.acceptance import MILLION, Paired, accepts, bar, probability, risk, verify_weights

SUMS = st.integers(0, 60 * MILLION)
SMALL = st.integers(0, 6 * MILLION)


def binomial(gains: int, losses: int) -> Fraction:
    """Pr(Beta(1 + g, 1 + l) > 1/2) = Pr(Bin(g + l + 1, 1/2) <= g), for whole numbers."""
    n = gains + losses + 1
    return Fraction(sum(math.comb(n, k) for k in range(gains + 1)), 2**n)


def by_quadrature(gain: int, loss: int) -> float:
    """The same by Simpson's rule on the density."""
    a, b = gain / MILLION, loss / MILLION
    x = np.linspace(0.0, 1.0, 20_001)
    density = np.power(x, a) * np.power(1.0 - x, b)
    weights = np.ones_like(x)
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    half = weights * (x >= 0.5)
    half[10_000] = 1.0
    return float((density * half).sum() / (density * weights).sum())


@pytest.mark.parametrize("gains", [0, 1, 2, 3, 7, 20, 40])
@pytest.mark.parametrize("losses", [0, 1, 2, 5, 19, 40])
def test_whole_sums_against_the_binomial(gains: int, losses: int) -> None:
    assert probability(gains * MILLION, losses * MILLION) == pytest.approx(float(binomial(gains, losses)), abs=1e-13)


@given(SMALL, SMALL)
def test_fractional_sums_against_quadrature(gain: int, loss: int) -> None:
    assert probability(gain, loss) == pytest.approx(by_quadrature(gain, loss), abs=1e-4)


@given(SUMS)
def test_equal_sums_are_exactly_even(total: int) -> None:
    assert probability(total, total) == 0.5


@given(SUMS, SUMS)
def test_what_one_side_wins_the_other_loses(gain: int, loss: int) -> None:
    assert probability(gain, loss) + probability(loss, gain) == pytest.approx(1.0, abs=1e-15)
    assert 0.0 <= probability(gain, loss) <= 1.0


@given(SUMS, SUMS, st.integers(1, MILLION))
def test_more_gain_never_hurts_and_more_loss_never_helps(gain: int, loss: int, more: int) -> None:
    here = probability(gain, loss)
    assert probability(gain + more, loss) >= here - 1e-12
    assert probability(gain, loss + more) <= here + 1e-12


# --- risk and bar -----------------------------------------------------------------------------------------------------


def test_the_bar_starts_even_and_rises_to_its_floor() -> None:
    assert [bar(Paired(), version) for version in (0, 1, 32, 64, 128, 400, 10_000)] == [
        500_000,
        505_386,
        646_447,
        750_000,
        875_000,
        990_000,
        990_000,
    ]
    assert risk(Paired(start=0.2, floor=0.05, half_life=2.0), 2) == pytest.approx(0.1)
    assert risk(Paired(start=0.2, floor=0.05, half_life=2.0), 20) == 0.05


def test_from_version_64_on_one_task_does_not_suffice() -> None:
    assert accepts(MILLION, 0, 0, 0, bar(Paired(), 63))
    assert not accepts(MILLION, 0, 0, 0, bar(Paired(), 64))
    assert accepts(2 * MILLION, 0, 0, 0, bar(Paired(), 64))


# --- weights of self-verify -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deltas", "weights"),
    [
        ((), (0, 0)),
        ((0,), (0, 0)),
        ((100_000,), (400_000, 0)),
        ((250_000,), (MILLION, 0)),
        ((MILLION,), (MILLION, 0)),
        ((-100_000,), (0, 400_000)),
        ((-MILLION, 50_000, MILLION), (1_200_000, MILLION)),
    ],
)
def test_a_delta_weighs_four_times_itself_and_at_most_one(deltas: tuple[int, ...], weights: tuple[int, int]) -> None:
    assert verify_weights(deltas) == weights


# --- the verdict ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gain", "loss", "weight_gain", "weight_loss", "at", "verdict"),
    [
        (1, 0, 0, 0, 500_000, True),
        (0, 0, 0, 0, 500_000, False),
        (0, 0, 5 * MILLION, 0, 500_000, False),
        (MILLION, MILLION, 0, 0, 500_000, False),
        (MILLION, MILLION, 1, 0, 500_000, True),
        (MILLION, MILLION, 0, 1, 500_000, False),
        (MILLION - 1, MILLION, 5 * MILLION, 0, 500_000, False),
        (MILLION, 0, 0, MILLION, 500_000, False),
        (2 * MILLION, 0, 0, MILLION, 500_000, True),
        (MILLION, 0, 0, 0, 749_999, True),
        (MILLION, 0, 0, 0, 750_000, False),
        (6 * MILLION, 0, 0, 0, 990_000, True),
        (5 * MILLION, 0, 0, 0, 990_000, False),
    ],
)
def test_verdicts(gain: int, loss: int, weight_gain: int, weight_loss: int, at: int, verdict: bool) -> None:
    """P above the bar, the mean not below, and something changed; evidence of verify alone is nothing."""
    assert accepts(gain, loss, weight_gain, weight_loss, at) is verdict


@given(SMALL, SMALL, SMALL, SMALL, st.sampled_from([500_000, 505_386, 750_000, 990_000]), st.integers(0, MILLION))
def test_an_acceptance_survives_more_gain_and_less_loss(
    gain: int, loss: int, weight_gain: int, weight_loss: int, at: int, change: int
) -> None:
    if accepts(gain, loss, weight_gain, weight_loss, at):
        assert accepts(gain + change, loss, weight_gain, weight_loss, at)
        assert accepts(gain, max(0, loss - change), weight_gain, weight_loss, at)
        assert gain >= loss
        assert gain + loss > 0


@given(SMALL, SMALL)
def test_at_the_first_bar_the_larger_sum_decides(gain: int, loss: int) -> None:
    assert accepts(gain, loss, 0, 0, 500_000) == (gain > loss)
