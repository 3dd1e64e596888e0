"""The predicted probability of acceptance: against enumeration of what it stands for, and how it moves."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.merge.acceptance import MILLION, accepts
from agentdescent.merge.futility import (
    LOSS,
    OTHER,
    OWN,
    Belief,
    Partial,
    Rates,
    Share,
    acceptance,
    afresh,
    combine,
    partial,
    together,
)
from agentdescent.merge.scores import Scores, blank, record

COUNTS = st.integers(0, 6)
BARS = st.sampled_from([500_000, 520_000, 700_000, 900_000])


def scores(values: tuple[int, ...]) -> Scores:
    """-1: not known."""
    made = blank(len(values))
    for position, value in enumerate(values):
        if value >= 0:
            made = record(made, position, value, 999_000)
    return made


@st.composite
def shares(draw: st.DrawFn, most: int = 8) -> Share:
    could = draw(st.integers(0, most))
    return Share(draw(st.integers(0, could)) * MILLION, could * MILLION)


RATES = st.builds(Rates, shares(40), shares(40), shares(40))


def chances(trials: int, seen: Share, run: Share, belief: Belief) -> list[float]:
    """Beta-binomial, term by term from its definition."""
    mean = (run.did / MILLION + 2.0 * belief.mean) / (run.could / MILLION + 2.0)
    a = belief.weight * mean + seen.did / MILLION
    b = belief.weight * (1.0 - mean) + (seen.could - seen.did) / MILLION

    def beta(x: float, y: float) -> float:
        return math.exp(math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y))

    return [math.comb(trials, k) * beta(k + a, trials - k + b) / beta(a, b) for k in range(trials + 1)]


def enumerated(part: Partial, run: Rates, bar: int) -> float:
    """The sum over every way in which what is left may end, with the verdict itself."""
    seen, total = part.seen, 0.0
    own = chances(part.own // MILLION, seen.own, run.own, OWN)
    other = chances(part.other // MILLION, seen.other, run.other, OTHER)
    loss = chances(part.loss // MILLION, seen.loss, run.loss, LOSS)
    gained, lost = seen.own.did + seen.other.did, seen.loss.did
    for (i, p), (j, q), (k, r) in product(enumerate(own), enumerate(other), enumerate(loss)):
        if accepts(gained + (i + j) * MILLION, lost + k * MILLION, 0, 0, bar):
            total += p * q * r
    return total


@given(st.builds(Rates, shares(), shares(), shares()), COUNTS, COUNTS, COUNTS, RATES, BARS)
def test_it_is_the_sum_over_every_completion(
    seen: Rates, own: int, other: int, loss: int, run: Rates, bar: int
) -> None:
    """Up to sums at which the normal approximation and the verdict fall on different sides of the bar."""
    part = Partial(seen, own * MILLION, other * MILLION, loss * MILLION)
    exact = [enumerated(part, run, near) for near in (min(999_999, bar + 12_000), max(1, bar - 12_000))]
    assert exact[0] - 1e-3 <= acceptance(part, run, 0, 0, bar) <= exact[1] + 1e-3


@given(RATES, RATES, COUNTS, COUNTS, COUNTS, BARS)
def test_it_is_a_probability_that_falls_with_the_bar(
    seen: Rates, run: Rates, own: int, other: int, loss: int, bar: int
) -> None:
    part = Partial(seen, own * MILLION + 300_000, other * MILLION, loss * MILLION + 1)
    p = acceptance(part, run, 0, 0, bar)
    assert 0.0 <= p <= 1.0
    assert acceptance(part, run, 0, 0, bar + 50_000) <= p + 1e-9
    assert acceptance(part, run, 0, MILLION, bar) <= p + 1e-9


@pytest.mark.parametrize(("won", "least", "most"), [(0, 0.0, 0.05), (1, 0.5, 1.0), (4, 0.9, 1.0)])
def test_the_prompting_cluster_tells(won: int, least: float, most: float) -> None:
    """A run in which changes help the tasks that prompted them and no others: after those, most is known."""
    run = Rates(Share(60 * MILLION, 300 * MILLION), Share(0, 800 * MILLION), Share(20 * MILLION, 500 * MILLION))
    seen = Rates(Share(won * MILLION, 5 * MILLION), Share(), Share())
    p = acceptance(Partial(seen, 0, 23 * MILLION, 12 * MILLION), run, 0, 0, 500_000)
    assert least <= p <= most


def test_what_is_known_and_what_is_left() -> None:
    base, now = scores((0, 0, 250_000, MILLION, MILLION, 0)), scores((MILLION, -1, 750_000, 0, -1, 0))
    part = partial(base, now, (0, 1))
    assert part == Partial(
        Rates(Share(MILLION, MILLION), Share(500_000, 1_750_000), Share(MILLION, 1_250_000)), MILLION, 0, MILLION
    )
    assert afresh(part) == Partial(Rates(), 2 * MILLION, 1_750_000, 2_250_000)
    assert together(part.seen, part.seen).own == Share(2 * MILLION, 2 * MILLION)


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_a_prior_is_moved_by_what_the_outcomes_say(now: float, before: float, prior: float) -> None:
    assert combine(now, before, before) == pytest.approx(now)
    assert combine(now, now, prior) == pytest.approx(prior)
    assert (combine(now, before, prior) > prior) == (now > before) or now == pytest.approx(before)
