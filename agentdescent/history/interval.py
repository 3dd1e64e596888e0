"""Intervals for a mean of scores in [0, 1]."""

from __future__ import annotations

import math

Z95 = 1.959963984540054


def wilson(mean: float, n: int, z: float = Z95) -> tuple[float, float]:
    """The Wilson score interval (Wilson 1927) of a mean of `n` scores in [0, 1]; conservative where scores are
    fractional, since no such mean varies more than a share. (0, 1) for n = 0."""
    if n == 0:
        return 0.0, 1.0
    centre = mean + z * z / (2 * n)
    spread = z * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = max(0.0, (centre - spread) / scale) if mean > 0.0 else 0.0  # exactly, whatever rounding says
    return low, min(1.0, (centre + spread) / scale) if mean < 1.0 else 1.0
