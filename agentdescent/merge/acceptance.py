"""When a change is measurably better: a Beta posterior over paired held-out outcomes.

Over the held-out tasks let g be the sum of gains and l the sum of losses against the frozen base scores, and
wg, wl the weights of self-verify. Then P = Pr(Beta(1 + g + wg, 1 + l + wl) > 1/2), and a candidate is accepted when
P > 1 - risk(version) + 1e-12, the mean did not fall, and some task changed. P grows with g and falls with l, so
the best that the remaining tasks can do decides whether a rejection is certain already.
"""

from __future__ import annotations

import functools
import math
from typing import TypeAlias

from agentdescent.record import Record

MILLION = 1_000_000
_TOLERANCE = 1e-12


class Paired(Record, frozen=True, tag="paired"):
    """risk(v) = max(floor, start * 0.5 ** (v / half_life)); versions count from 0."""

    start: float = 0.5
    floor: float = 0.01
    half_life: float = 64.0


class Unpaired(Record, frozen=True, tag="unpaired"):
    """Two posteriors with a running prior (see `unpaired`), held to the same bar."""

    start: float = 0.5
    floor: float = 0.01
    half_life: float = 64.0


Acceptance: TypeAlias = Paired | Unpaired


def risk(rule: Acceptance, version: int) -> float:
    return max(rule.floor, rule.start * math.exp2(-version / rule.half_life))


def bar(rule: Acceptance, version: int) -> int:
    """What P has to exceed, in millionths, rounded: the number that a gate freezes."""
    return round((1.0 - risk(rule, version)) * MILLION)


def verify_weights(deltas: tuple[int, ...]) -> tuple[int, int]:
    """(wg, wl) in millionths: each verified delta d (millionths) weighs min(1, 4 |d|) on its side."""
    gain = sum(min(MILLION, 4 * d) for d in deltas if d > 0)
    loss = sum(min(MILLION, -4 * d) for d in deltas if d < 0)
    return gain, loss


def probability(gain: int, loss: int) -> float:
    """Pr(Beta(1 + gain, 1 + loss) > 1/2) for sums in millionths; exactly 1/2 when they are equal.

    The regularised incomplete beta function by its continued fraction (Lentz's method; DLMF 8.17.22).
    """
    if gain == loss:
        return 0.5
    if gain < loss:
        return 1.0 - probability(loss, gain)
    return 1.0 - _half_tail(1.0 + gain / MILLION, 1.0 + loss / MILLION)


@functools.lru_cache(8192)
def _half_tail(a: float, b: float) -> float:
    """I_{1/2}(a, b) for a > b: the smaller tail, where the fraction converges fast."""
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) - (a + b) * math.log(2.0)) / a
    tiny = 1e-300
    total = a + b
    c, d = 1.0, 1.0 / (1.0 - total * 0.5 / (a + 1.0))
    result = d
    for m in range(1, 10_000):
        even = m * (b - m) * 0.5 / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / (1.0 + even * d or tiny)
        c = 1.0 + even / c or tiny
        result *= d * c
        odd = -(a + m) * (total + m) * 0.5 / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1.0 / (1.0 + odd * d or tiny)
        c = 1.0 + odd / c or tiny
        step = d * c
        result *= step
        if abs(step - 1.0) < 1e-15:
            break
    return front * result


def accepts(gain: int, loss: int, weight_gain: int, weight_loss: int, bar: int) -> bool:
    """The verdict on final sums; monotone: more gain or less loss never turns it to False.

    One exception, which callers with remaining tasks must keep in mind: with gain = loss = 0 nothing changed,
    and nothing is accepted.
    """
    if gain < loss or (gain == 0 and loss == 0):
        return False
    a, b = gain + weight_gain, loss + weight_loss
    if bar == MILLION // 2:
        return a > b
    return a > b and probability(a, b) > bar / MILLION + _TOLERANCE
