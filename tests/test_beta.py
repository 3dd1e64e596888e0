"""The Beta distribution against sums and integrals that can be done otherwise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import beta

SHAPES = st.floats(1.0, 120.0)
WHOLE = st.integers(1, 60)


def exact(a: int, b: int, c: int, d: int) -> Fraction:
    """Pr(Beta(a, b) > Beta(c, d)): the sum over i < a of B(c + i, b + d) / ((b + i) B(1 + i, b) B(c, d))."""

    def function(x: int, y: int) -> Fraction:
        return Fraction(math.factorial(x - 1) * math.factorial(y - 1), math.factorial(x + y - 1))

    return sum(
        (function(c + i, b + d) / ((b + i) * function(1 + i, b) * function(c, d)) for i in range(a)), Fraction(0)
    )


def by_integration(a: float, b: float, c: float, d: float) -> float:
    """The same by a fine trapezoidal rule on the log odds."""
    t = np.linspace(-40.0, 40.0, 160_001)
    log_x = -np.logaddexp(0.0, -t)
    x = np.exp((a + b) * log_x - b * t - beta.log_beta(a, b))
    y = np.exp((c + d) * log_x - d * t - beta.log_beta(c, d))
    h = float(t[1] - t[0])
    below = (np.cumsum(y) - 0.5 * y) * h
    return float((x * below).sum() * h)


@given(WHOLE, WHOLE, WHOLE, WHOLE)
def test_exceeds_against_the_exact_sum(a: int, b: int, c: int, d: int) -> None:
    assert beta.exceeds(a, b, c, d) == pytest.approx(float(exact(a, b, c, d)), abs=1e-8)


@given(SHAPES, SHAPES, SHAPES, SHAPES)
def test_exceeds_against_an_integral(a: float, b: float, c: float, d: float) -> None:
    p = beta.exceeds(a, b, c, d)
    assert p == pytest.approx(by_integration(a, b, c, d), abs=1e-6)
    assert p + beta.exceeds(c, d, a, b) == pytest.approx(1.0, abs=2e-8)
    assert beta.exceeds(a, b, a, b) == 0.5


@given(WHOLE, WHOLE, st.floats(0.001, 0.999))
def test_cumulative_against_the_binomial(a: int, b: int, x: float) -> None:
    n = a + b - 1
    tail = math.fsum(math.comb(n, k) * x**k * (1.0 - x) ** (n - k) for k in range(a, n + 1))
    assert beta.cumulative(a, b, x) == pytest.approx(tail, abs=1e-12)
    assert (beta.cumulative(a, b, 0.0), beta.cumulative(a, b, 1.0)) == (0.0, 1.0)


@given(st.floats(0.5, 5_000.0), st.floats(0.5, 5_000.0), st.floats(0.0, 1.0, exclude_max=True))
def test_a_quantile_is_where_the_cumulative_is(a: float, b: float, u: float) -> None:
    x = beta.quantile(a, b, u)
    assert 0.0 <= x <= 1.0
    assert beta.cumulative(a, b, x - 1e-9) - 1e-9 <= u <= beta.cumulative(a, b, x + 1e-9) + 1e-9


def test_quantiles_known_in_closed_form() -> None:
    assert beta.quantile(1.0, 1.0, 0.375) == pytest.approx(0.375, abs=1e-12)
    assert beta.quantile(3.0, 1.0, 0.125) == pytest.approx(0.5, abs=1e-12)
    assert beta.quantile(1.0, 2.0, 0.75) == pytest.approx(0.5, abs=1e-12)
    assert beta.quantile(7.0, 7.0, 0.5) == pytest.approx(0.5, abs=1e-12)
