"""The quantile of Student's t, without a library of statistics."""

from __future__ import annotations

import math
from statistics import NormalDist

from agentdescent import beta

_NORMAL_FROM = 1e5


def quantile(p: float, df: float) -> float:
    """The t with Pr(T <= t) = p, for p in (0, 1) and `df` > 0 degrees of freedom: df / (df + T^2) is Beta(df / 2, 1/2).
    Good to 1e-5 of itself where both tails hold 1e-4 or more. From 1e5 degrees on that of the normal distribution."""
    if df >= _NORMAL_FROM:
        return NormalDist().inv_cdf(p)
    if p == 0.5:
        return 0.0
    x = beta.quantile(df / 2.0, 0.5, 2.0 * min(p, 1.0 - p))
    return math.copysign(math.sqrt(df * (1.0 / x - 1.0)), p - 0.5)
