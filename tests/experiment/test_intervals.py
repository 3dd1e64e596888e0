"""Intervals: equal to an independent implementation, and covering as often as they say where the truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from agentdescent.errors import UsageError
from agentdescent.experiment.intervals import (
    Interval,
    bca_interval,
    mean_of,
    picks,
    ratio_of,
    t_interval,
)

Floats: TypeAlias = npt.NDArray[np.float64]
SKEWED = tuple(math.exp(1.3 * math.sin(9.0 * i)) - 0.01 * i**1.5 for i in range(14))
PAIRED = tuple((value, 0.5 + 0.4 * value + 0.3 * math.cos(5.0 * i)) for i, value in enumerate(SKEWED))
lists = st.lists(st.floats(-100, 100, allow_subnormal=False).map(lambda x: round(x, 3)), min_size=2, max_size=40)


@given(lists, st.sampled_from([0.5, 0.95, 0.975]))
def test_the_t_interval_is_that_of_scipy(values: list[float], level: float) -> None:
    found, error = t_interval(values, level), float(stats.sem(values))
    if error < 1e-9:
        assert found.hi - found.lo == pytest.approx(0.0, abs=1e-6)
        return
    lo, hi = stats.t.interval(level, len(values) - 1, loc=np.mean(values), scale=error)
    assert (found.lo, found.mid, found.hi) == pytest.approx((float(lo), float(np.mean(values)), float(hi)), abs=1e-6)


class Resampled(NamedTuple):
    """What scipy goes on from, where resamples are given to it."""

    bootstrap_distribution: Floats


def theirs(rows: Sequence[Sequence[float]], level: float, *, ratio: bool) -> tuple[float, float]:
    """scipy's interval over our resamples: the same distribution, so that the formulas alone are compared."""
    columns = tuple(np.array(rows).T)
    drawn = np.array(picks(len(rows), 4_000, 0))

    def statistic(*data: Floats, axis: int = -1) -> Floats:
        means = [column.mean(axis=axis) for column in data]
        return np.asarray(means[0] / means[1] if ratio else means[0])

    bootstrap = cast("Callable[..., Any]", stats.bootstrap)  # its overloads know nothing of resamples that are given
    made = Resampled(statistic(*(column[drawn] for column in columns)))
    found = bootstrap(
        columns, statistic, n_resamples=0, paired=True, confidence_level=level, method="BCa", bootstrap_result=made
    ).confidence_interval
    return float(found.low), float(found.high)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.975])
def test_the_bca_interval_is_that_of_scipy(level: float) -> None:
    cases: list[tuple[Sequence[Sequence[float]], bool]] = [([(value,) for value in SKEWED], False), (PAIRED, True)]
    for rows, ratio in cases:
        found = bca_interval(rows, ratio_of if ratio else mean_of, level)
        assert (found.lo, found.hi) == pytest.approx(theirs(rows, level, ratio=ratio), rel=1e-9)
        assert found.lo < found.mid < found.hi


@given(lists)
@settings(max_examples=30)
def test_bca_is_deterministic_ordered_and_turns_round_with_its_numbers(values: list[float]) -> None:
    rows = [(value,) for value in values]
    found = bca_interval(rows, resamples=400)
    assert bca_interval(rows, resamples=400) == found
    assert min(values) - 1e-9 <= found.lo <= found.hi <= max(values) + 1e-9
    turned = bca_interval([(-value,) for value in values], resamples=400)
    assert (-turned.hi, -turned.lo) == pytest.approx((found.lo, found.hi), abs=1e-6 + 1e-6 * abs(found.hi))


@pytest.mark.parametrize("level", [0.95, 0.999, 0.9999])
def test_bca_turns_round_beyond_the_pole_of_its_adjustment(level: float) -> None:
    """Three skewed rows, by which 1 - a z is below 0 on one side: the limits stay on their sides."""
    values = [math.exp(2.5 * x) for x in (0.13, -0.13, 0.64)]
    found = bca_interval([(value,) for value in values], level=level, expanded=True)
    turned = bca_interval([(-value,) for value in values], level=level, expanded=True)
    assert found.lo < found.mid < found.hi
    assert (-turned.hi, -turned.mid, -turned.lo) == pytest.approx((found.lo, found.mid, found.hi))


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, math.nan])
def test_a_level_is_a_share(level: float) -> None:
    with pytest.raises(UsageError, match="must be a share"):
        t_interval([0.1, 0.2], level)
    with pytest.raises(UsageError, match="must be a share"):
        bca_interval([(0.1,), (0.2,)], level=level)


def test_expanding_widens_a_little_and_less_for_more_rows() -> None:
    few, many = [(value,) for value in SKEWED], [(value,) for value in SKEWED * 10]
    widths = []
    for rows in (few, many):
        plain, wide = bca_interval(rows), bca_interval(rows, expanded=True)
        assert wide.lo < plain.lo < plain.mid == wide.mid < plain.hi < wide.hi
        widths.append((wide.hi - wide.lo) / (plain.hi - plain.lo))
    assert 1.3 > widths[0] > widths[1] > 1.0


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert bca_interval([(0.25,)] * 12) == t_interval([0.25] * 12) == Interval(0.25, 0.25, 0.25)
    assert bca_interval([(2.0, 4.0)] * 5, ratio_of) == Interval(0.5, 0.5, 0.5)


def test_one_value_has_no_interval() -> None:
    for values in ([], [1.0]):
        with pytest.raises(UsageError, match="at least 2 values"):
            t_interval(values)
        with pytest.raises(UsageError, match="at least 2 values"):
            bca_interval([(value,) for value in values])


def test_resamples_are_uniform_and_differ_by_seed() -> None:
    drawn = picks(7, 3_000, 0)
    counts = np.bincount(np.array(drawn).ravel(), minlength=7)
    assert counts.sum() == 21_000
    assert float(stats.chisquare(counts).pvalue) > 1e-3
    assert len(set(drawn)) > 2_990
    assert picks(7, 3, 1) != drawn[:3] == picks(7, 3, 0)


def coverage(kind: str, n: int, repetitions: int = 1_000) -> tuple[float, float]:
    """(t, BCa): how often the nominal 95 % holds the truth, over paired samples with a known one."""
    generator = np.random.default_rng(7)
    held = [0, 0]
    for _ in range(repetitions):
        if kind == "normal":
            rows, truth, statistic = generator.normal(0.3, 1.0, (n, 1)), 0.3, mean_of
            held[0] += not t_interval(rows[:, 0].tolist()).excludes(truth)
        elif kind == "fortieths":  # differences of shares of 40 tasks
            both = generator.binomial(40, 0.5, (n, 2)) / 40
            rows, truth, statistic = both[:, :1] - both[:, 1:], 0.0, mean_of
            held[0] += not t_interval(rows[:, 0].tolist()).excludes(truth)
        else:  # tokens to a target, correlated by the seed, censored at the cap
            common = generator.lognormal(13.0, 0.4, (n, 1))
            rows = np.minimum(common * generator.lognormal(0.0, 0.3, (n, 2)), 900_000.0)
            truth, statistic = 1.0, ratio_of
        held[1] += not bca_interval(rows.tolist(), statistic, resamples=2_000, expanded=True).excludes(truth)
    return held[0] / repetitions, held[1] / repetitions


@pytest.mark.parametrize("kind", ["normal", "fortieths"])
def test_intervals_of_a_difference_cover(kind: str) -> None:
    """Three standard errors of 1,000 repetitions are 2.1 %."""
    t, bca = coverage(kind, 30)
    assert math.isclose(t, 0.95, abs_tol=0.021)
    assert 0.925 <= bca <= 0.971
    t, _ = coverage(kind, 10)
    assert math.isclose(t, 0.95, abs_tol=0.021)


def test_the_interval_of_a_ratio_covers_at_thirty_pairs() -> None:
    assert 0.925 <= coverage("ratio", 30)[1] <= 0.971


def test_coverage_can_fail() -> None:
    """The same harness sees an interval that is too narrow."""
    generator = np.random.default_rng(3)
    rows = [generator.normal(0.0, 1.0, 20).tolist() for _ in range(500)]
    assert sum(not t_interval(row, 0.8).excludes(0.0) for row in rows) / 500 < 0.87
