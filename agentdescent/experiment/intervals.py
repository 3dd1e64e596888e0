"""Confidence intervals: Student's t for a mean, BCa for a function of means. The same numbers give the same interval.

Resamples are a function of (seed, how many), so no generator is held, and two comparisons of equally many pairs see the
same ones.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from statistics import NormalDist

from agentdescent.errors import UsageError
from agentdescent.history.student import quantile
from agentdescent.record import Record

LEVEL = 0.95
RESAMPLES = 4_000
_NORMAL = NormalDist()
_DRAWS = 16

Statistic = Callable[[Sequence[float]], float]
"""A smooth function of the means of the columns."""


class Interval(Record, frozen=True):
    """`mid`: the estimate, at or between the limits but for BCa, which may put it outside."""

    lo: float
    mid: float
    hi: float

    def excludes(self, value: float) -> bool:
        return value < self.lo or value > self.hi


def t_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Of the mean of `values`, at least 2: mean +- t s / sqrt(n). Exact where they are normal."""
    n = _enough(len(values), level)
    mean = math.fsum(values) / n
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = quantile((1 + level) / 2, n - 1) * deviation / math.sqrt(n)
    return Interval(mean - half, mean, mean + half)


def mean_of(means: Sequence[float]) -> float:
    return means[0]


def ratio_of(means: Sequence[float]) -> float:
    """The first over the second, which is positive."""
    return means[0] / means[1]


def bca_interval(
    rows: Sequence[Sequence[float]],
    statistic: Statistic = mean_of,
    level: float = LEVEL,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    expanded: bool = False,
) -> Interval:
    """The bias-corrected and accelerated bootstrap interval of `statistic` over rows, at least 2 (Efron 1987, formulas
    2.3, 6.6). What is paired stands in one row.

    z0 = quantile of the share of resamples below the estimate, ties by half; a = sum d^3 / (6 (sum d^2)^1.5), with d
    the mean of the leave-one-out values less each of them. The limits are the quantiles of the resamples at
    Phi(z0 + (z0 + z) / (1 - a (z0 + z))) for z = -+ the normal quantile of the level; `expanded`: for
    sqrt(n / (n - 1)) times that of Student's t, by which a bootstrap of few rows is too narrow (Hesterberg 2015).
    """
    n = _enough(len(rows), level)
    columns = list(zip(*rows, strict=True))
    estimate = statistic([math.fsum(column) / n for column in columns])
    drawn = sorted(
        statistic([math.fsum(map(column.__getitem__, pick)) / n for column in columns])
        for pick in picks(n, resamples, seed)
    )
    if drawn[0] == drawn[-1]:
        return Interval(min(drawn[0], estimate), estimate, max(drawn[0], estimate))
    z0, a = _bias(drawn, estimate), _acceleration(columns, statistic)
    wide = math.sqrt(n / (n - 1)) * quantile((1 + level) / 2, n - 1)
    z = wide if expanded else _NORMAL.inv_cdf((1 + level) / 2)
    lo, hi = (_quantile(drawn, _adjusted(z0, a, side)) for side in (-z, z))
    return Interval(lo, estimate, hi)


def _enough(n: int, level: float) -> int:
    if not 0 < level < 1:
        raise UsageError(f"level is {level!r}: it must be a share above 0 and below 1, as 0.95")
    if n < 2:
        raise UsageError(f"an interval needs at least 2 values, and there are {n}")
    return n


def _bias(drawn: Sequence[float], estimate: float) -> float:
    below = sum(value < estimate for value in drawn) + sum(value == estimate for value in drawn) / 2
    least = 0.5 / len(drawn)  # an estimate beyond every resample would put both limits at infinity
    return _NORMAL.inv_cdf(min(1 - least, max(least, below / len(drawn))))


def _acceleration(columns: Sequence[Sequence[float]], statistic: Statistic) -> float:
    n, totals = len(columns[0]), [math.fsum(column) for column in columns]
    left_out = [
        statistic([(total - column[i]) / (n - 1) for total, column in zip(totals, columns, strict=True)])
        for i in range(n)
    ]
    centre = math.fsum(left_out) / n
    squares = math.fsum((centre - value) ** 2 for value in left_out)
    return math.fsum((centre - value) ** 3 for value in left_out) / (6 * squares**1.5) if squares else 0.0


def _adjusted(z0: float, a: float, side: float) -> float:
    z = z0 + side
    if a * z >= 1:  # beyond the pole, where the quantile is at the end on the side of z
        return 1.0 if z > 0 else 0.0
    return _NORMAL.cdf(z0 + z / (1 - a * z))


def _quantile(ordered: Sequence[float], p: float) -> float:
    """By linear interpolation, as type 7 of Hyndman and Fan (1996)."""
    place = p * (len(ordered) - 1)
    at = min(int(place), len(ordered) - 2)
    return ordered[at] + (place - at) * (ordered[at + 1] - ordered[at])


@lru_cache(maxsize=4)
def picks(n: int, resamples: int, seed: int) -> tuple[tuple[int, ...], ...]:
    """`resamples` draws of `n` positions below `n`, with replacement; equal arguments give equal draws."""
    draws = _uniform(f"{seed}/resample/{n}")
    return tuple(tuple((next(draws) * n) >> 32 for _ in range(n)) for _ in range(resamples))


def _uniform(key: str) -> Iterator[int]:
    """Integers of 32 bits, sixteen from each hash of (key, counter)."""
    counter = 0
    while True:
        raw = hashlib.blake2b(f"{key}/{counter}".encode(), digest_size=4 * _DRAWS).digest()
        yield from struct.unpack(f"<{_DRAWS}I", raw)
        counter += 1
