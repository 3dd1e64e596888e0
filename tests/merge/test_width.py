"""The width of a fusion: expected gains against brute force, and when a union waits for one more card."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.merge.width import MAX_WIDTH, Yields, gains, marginal, pays

HALF = Yields(mended=1, exposed=2, lost=1, kept=10)


def test_the_prior_mends_half_and_loses_a_fortieth() -> None:
    assert gains(Yields(), [4_000_000, 0], 8_000_000, [0]) == [4_000_000 * 0.5 - 8_000_000 / 40]


def test_cards_of_one_cluster_gain_less_and_less_those_of_others_do_not() -> None:
    same, other = gains(HALF, [8, 8], 0, [0, 0, 0]), gains(HALF, [8, 8], 0, [0, 1])
    assert same == [4, 6, 7]
    assert other == [4, 8]


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), min_size=2, max_size=2),
    st.integers(0, 3),
)
def test_gains_are_the_mean_over_all_that_can_happen(cards: list[int], unsolved: list[int], solved: int) -> None:
    """Each unsolved task of its cluster is mended by a card with probability 1/2, each task solved by the base is lost
    with probability 1/10: enumerate what each card does to one task of each kind."""
    clusters = [card % 2 for card in cards]
    expected = 0.0
    for k, mass in enumerate(unsolved):
        own = clusters.count(k)
        mended = sum(1 for did in itertools.product((0, 1), repeat=own) if any(did)) / 2**own
        expected += mass * mended
    lost = sum(
        math.prod(0.1 if one else 0.9 for one in did)
        for did in itertools.product((0, 1), repeat=len(cards))
        if any(did)
    )
    assert gains(HALF, unsolved, solved, clusters)[-1] == pytest.approx(expected - solved * lost)


@given(
    st.lists(st.integers(0, 2), max_size=5),
    st.lists(st.integers(0, 9), min_size=3, max_size=3),
    st.integers(0, 9),
    st.lists(st.floats(0.1, 5), min_size=3, max_size=3),
)
def test_marginal_is_the_mean_gain_of_one_more(
    clusters: list[int], unsolved: list[int], solved: int, weights: list[float]
) -> None:
    before = gains(HALF, unsolved, solved, clusters)[-1] if clusters else 0.0
    more = [gains(HALF, unsolved, solved, [*clusters, k])[-1] - before for k in range(3)]
    mean = sum(w * m for w, m in zip(weights, more, strict=True)) / sum(weights)
    assert marginal(HALF, unsolved, solved, clusters, weights) == pytest.approx(mean, abs=1e-9)


@given(st.floats(-5, 50), st.floats(-5, 5), st.integers(1, 20), st.floats(0.1, 100), st.floats(0, 1_000))
def test_a_dearer_gate_never_makes_a_union_narrower(
    gain: float, more: float, cards: int, card: float, gate: float
) -> None:
    now = pays(gain, more, cards, card, gate)
    assert pays(gain, max(0.0, more), cards, card, 2 * gate) <= now or more <= 0
    assert now or more > 0 or gain < 0
    if cards >= MAX_WIDTH:
        assert now


def test_a_union_waits_while_one_more_card_adds_more_than_the_average() -> None:
    assert not pays(gain=10.0, more=4.0, cards=2, card_cost=1.0, gate_cost=4.0)  # 4 a card, against 10 / 6
    assert pays(gain=10.0, more=1.0, cards=2, card_cost=1.0, gate_cost=4.0)
    assert pays(gain=10.0, more=4.0, cards=2, card_cost=1.0, gate_cost=0.0)  # gates cost nothing: wait for nothing
    assert not pays(gain=-1.0, more=0.5, cards=2, card_cost=1.0, gate_cost=4.0)  # it would not be accepted


def test_a_card_that_contradicts_another_adds_nothing_and_lowers_what_one_more_is_worth() -> None:
    assert gains(HALF, [8, 8], 0, [0, None, 1]) == [4, 4, 8]
    often = Yields(mended=1, exposed=2, lost=1, kept=10, clashed=3, met=4)
    assert marginal(often, [8, 8], 0, [0], [1.0, 1.0]) == marginal(HALF, [8, 8], 0, [0], [1.0, 1.0]) / 4
