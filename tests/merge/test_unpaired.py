"""Acceptance by two posteriors: the probability, the verdict, and what completed gates teach."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import beta
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.unpaired import Counts, Prior, accepts, learn, probability

HALF = MILLION // 2
BASES = st.integers(4, 60).flatmap(lambda n: st.builds(Counts, total=st.integers(0, n * MILLION), size=st.just(n)))
PRIORS = st.builds(Prior, st.integers(0, 20 * MILLION), st.integers(0, 20 * MILLION))


@st.composite
def gates(draw: st.DrawFn) -> tuple[Prior, Counts, int, int]:
    """A prior, a base, and sums that a candidate could have against it."""
    prior, base = draw(PRIORS), draw(BASES)
    gain = draw(st.integers(0, base.size * MILLION - base.total))
    return prior, base, gain, draw(st.integers(0, base.total))


def test_the_posteriors_by_hand() -> None:
    base = Counts(12 * MILLION, 40)
    assert probability(Prior(), base, 2 * MILLION, 0) == beta.exceeds(15, 27, 13, 29)
    assert probability(Prior(2 * MILLION, HALF), base, 2 * MILLION, MILLION) == beta.exceeds(16, 28.5, 15, 29.5)
    assert probability(Prior(), base, 0, 0, MILLION, 0) == beta.exceeds(14, 29, 13, 29)
    assert probability(Prior(), base, 0, 0, 0, HALF) == beta.exceeds(13, 29.5, 13, 29)


@given(gates())
def test_without_a_difference_it_is_exactly_even(gate: tuple[Prior, Counts, int, int]) -> None:
    prior, base, gain, loss = gate
    assert probability(prior, base, 0, 0) == 0.5
    same = min(gain, loss)
    assert probability(prior, base, same, same) == 0.5


@given(gates(), st.integers(1, MILLION))
def test_more_gain_never_hurts_and_more_loss_never_helps(gate: tuple[Prior, Counts, int, int], more: int) -> None:
    prior, base, gain, loss = gate
    here = probability(prior, base, gain, loss)
    more = min(more, loss)
    assert 0.0 <= here <= 1.0
    assert probability(prior, base, gain, loss - more) >= here - 2e-8


@given(gates(), st.integers(0, 5 * MILLION), st.sampled_from([HALF, 750_000, 990_000]))
def test_what_is_accepted_did_not_fall_and_changed_something(
    gate: tuple[Prior, Counts, int, int], weight: int, bar: int
) -> None:
    prior, base, gain, loss = gate
    assert not accepts(prior, base, 0, 0, weight, 0, bar)
    if accepts(prior, base, gain, loss, weight, 0, bar):
        assert gain >= loss
        assert gain + loss > 0
        assert probability(prior, base, gain, loss, weight, 0) > bar / MILLION


@pytest.mark.parametrize(
    ("gain", "loss", "weight_gain", "weight_loss", "bar", "verdict"),
    [
        (MILLION, 0, 0, 0, HALF, True),
        (0, 0, MILLION, 0, HALF, False),
        (MILLION, MILLION, 0, 0, HALF, False),
        (MILLION, MILLION, MILLION, 0, HALF, True),
        (MILLION, 2 * MILLION, 5 * MILLION, 0, HALF, False),
        (MILLION, 0, 0, MILLION, HALF, True),
        (MILLION, 0, 0, 0, 750_000, False),
        (8 * MILLION, 0, 0, 0, 900_000, True),
        (4 * MILLION, 0, 0, 0, 900_000, False),
    ],
)
def test_verdicts(gain: int, loss: int, weight_gain: int, weight_loss: int, bar: int, verdict: bool) -> None:
    base = Counts(12 * MILLION, 40)
    assert accepts(Prior(), base, gain, loss, weight_gain, weight_loss, bar) is verdict


@pytest.mark.parametrize(
    ("gain", "loss", "committed", "expected"),
    [
        (3 * MILLION, MILLION, True, Prior(2_500_000, 250_000)),
        (MILLION, 0, False, Prior(600_000, 250_000)),  # 4 * 1/40
        (0, MILLION, False, Prior(500_000, 350_000)),
        (0, 20 * MILLION, False, Prior(500_000, 1_250_000)),
        (MILLION, MILLION, False, Prior(500_000, 250_000)),
    ],
)
def test_what_a_completed_gate_teaches(gain: int, loss: int, committed: bool, expected: Prior) -> None:
    assert learn(Prior(500_000, 250_000), gain, loss, 40, committed=committed) == expected


def test_a_prior_is_shared_and_pulls_both_sides_together() -> None:
    base = Counts(12 * MILLION, 40)
    shares = [probability(Prior(n * MILLION, n * MILLION), base, 2 * MILLION, 0) for n in (0, 10, 100)]
    assert shares == sorted(shares, reverse=True)
    assert shares[2] > 0.5


def test_its_records_survive_the_log() -> None:
    for value in (Prior(), Prior(3, 4), Counts(5, 6)):
        assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value
