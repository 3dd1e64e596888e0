"""Ratios of means over paired seeds, with their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 2_000
_SEED = 20_14


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """(lo, mid, hi): mean of `ours` over mean of `theirs`, and its 95 % percentile interval over resamples of the
    seeds, by which the two are paired. Always the same for the same numbers."""
    a, b = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    if a.shape != b.shape or a.ndim != 1 or not a.size:
        raise ValueError(f"{a.shape} and {b.shape} are not paired")
    picks = np.random.default_rng(_SEED).integers(a.size, size=(RESAMPLES, a.size))
    resampled = a[picks].mean(axis=1) / b[picks].mean(axis=1)
    lo, hi = np.quantile(resampled, (0.025, 0.975))
    return round(float(lo), 4), round(float(a.mean() / b.mean()), 4), round(float(hi), 4)
