"""Whether the next round fits, and what a governor says at a given spend."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import BudgetGovernor
from agentdescent.budget import degrading
from agentdescent.budget.projection import Rounds, affords_next_round, observe


def after(*spent: int) -> Rounds:
    rounds = Rounds(began=spent[0])
    for tokens in spent[1:]:
        rounds = observe(rounds, tokens)
    return rounds


def test_the_mean_is_over_rounds_that_cost_something() -> None:
    assert after(100, 400, 400, 400, 500) == Rounds(500, 2, 400)
    assert affords_next_round(after(100, 400, 400, 400, 500), 200)
    assert not affords_next_round(after(100, 400, 400, 400, 500), 199)


def test_nothing_is_refused_before_a_round_is_known_or_without_a_cap() -> None:
    assert affords_next_round(Rounds(), 0)
    assert affords_next_round(after(0, 0, 0), 0)
    assert affords_next_round(after(0, 1_000), None)


@given(st.lists(st.integers(0, 1_000), min_size=1), st.integers(0, 2_000))
def test_it_compares_with_the_mean(costs: list[int], remaining: int) -> None:
    spent = [50]
    for cost in costs:
        spent.append(spent[-1] + cost)
    paid = [cost for cost in costs if cost]
    expected = not paid or remaining >= sum(paid) / len(paid)
    assert affords_next_round(after(*spent), remaining) == expected


@pytest.mark.parametrize(
    ("spent", "remaining", "tournament", "verify"),
    [
        (0, 1.0, True, True),
        (749, 0.251, True, True),
        (750, 0.25, False, True),
        (900, 0.1, False, False),
        (2_000, 0, 0, 0),
    ],
)
def test_what_degrades_when(spent: int, remaining: float, tournament: bool, verify: bool) -> None:
    governor = BudgetGovernor(max_tokens=1_000)
    assert degrading.remaining_fraction(governor, spent) == pytest.approx(remaining)
    assert degrading.allows_tournament(governor, spent) == tournament
    assert degrading.allows_self_verify(governor, spent) == verify


def test_without_a_cap_a_governor_says_nothing() -> None:
    governor = BudgetGovernor()
    assert degrading.remaining_fraction(governor, 10**9) == 1.0
    assert degrading.allows_tournament(governor, 10**9)
    assert degrading.allows_self_verify(governor, 10**9)
    assert degrading.affords_next_round(governor, after(0, 10**9), 10**9)
    assert not degrading.affords_next_round(BudgetGovernor(max_tokens=1_999), after(0, 1_000), 1_000)
