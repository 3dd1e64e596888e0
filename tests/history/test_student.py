"""The quantile of Student's t against an independent implementation."""

from __future__ import annotations

import pytest
from scipy import stats

from agentdescent.history.student import quantile


@pytest.mark.parametrize("df", [1, 2, 5, 7.3, 9, 29, 400, 1e5])
@pytest.mark.parametrize("p", [0.0001, 0.005, 0.025, 0.5, 0.75, 0.9, 0.9875, 0.9995])
def test_it_is_that_of_scipy(p: float, df: float) -> None:
    assert quantile(p, df) == pytest.approx(float(stats.t.ppf(p, df)), rel=5e-5, abs=1e-12)
    assert quantile(p, df) == pytest.approx(-quantile(1.0 - p, df), rel=1e-5)
