"""Reserve, hold, draw, settle: what is free, due, held and spent after each, and when a promise was broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Caps, Prices, Rate, Tariff, Usage
from agentdescent.budget.governor import (
    Governor,
    Line,
    alone,
    binding,
    draw_on,
    fits,
    hold,
    release,
    remaining_fraction,
    reservation,
    reserve,
    settle,
    spend,
    spent_share,
    untold,
)
from agentdescent.budget.tariff import cost, worst
from agentdescent.budget.usage import (
    NOTHING,
    Amount,
    add,
    at_least_zero,
    covers,
    exceeds,
    scale,
    smaller,
    subtract,
)
from agentdescent.record import replace

PRICES = Prices(prompt=3_000_000, completion=15_000_000, cached=300_000)
SOLVE = Rate(strict=True, overhead=10, bytes_per_token=4, ceiling=50, calls=2, prices=PRICES)
PROPOSE = Rate(strict=True, overhead=20, bytes_per_token=4, ceiling=100)
STRICT = Governor(Caps(tokens=1_000, cost=10**9, calls=20, rollouts=9), Tariff(SOLVE, PROPOSE))
OBSERVED = Governor(Caps(tokens=1_000), Tariff())
AMOUNTS = st.builds(Amount, *[st.integers(0, 10_000)] * 4)


# --- amounts and money ------------------------------------------------------------------------------------------------


@given(AMOUNTS, AMOUNTS)
def test_amounts_are_compared_and_summed_unit_by_unit(a: Amount, b: Amount) -> None:
    assert subtract(add(a, b), b) == a
    assert covers(a, b) == (not exceeds(b, a)) == (smaller(a, b) == b)
    assert add(smaller(a, b), at_least_zero(subtract(a, b))) == a
    assert scale(a, 3) == add(a, add(a, a))


@pytest.mark.parametrize(
    ("usage", "money"),
    [
        (Usage(prompt=1_000, completion=100), 4_500_000),
        (Usage(prompt=1_000, completion=100, cached=1_000), 1_800_000),
        (Usage(prompt=1, completion=0), 3_000),
        (Usage(prompt=1_000, completion=100, cost=7), 7),
        (Usage(cost=0), 0),
    ],
)
def test_money_is_nano_dollars_and_what_the_provider_states_wins(usage: Usage, money: int) -> None:
    assert cost(PRICES, usage) == money


def test_money_is_rounded_up_and_unknown_without_prices() -> None:
    assert cost(Prices(prompt=1, completion=1), Usage(prompt=1)) == 1
    assert cost(Prices(prompt=1, completion=1), Usage(prompt=1_001)) == 2
    assert cost(None, Usage(prompt=1_000)) == 0
    assert cost(Prices(prompt=2_000, completion=0), Usage(prompt=10, cached=10)) == 20


def test_the_worst_case_is_overhead_prompt_and_ceiling() -> None:
    assert worst(SOLVE, 0, 1) == Amount(60, 780_000, 2, 1)
    assert worst(SOLVE, 1, 1) == Amount(61, 783_000, 2, 1)
    assert worst(SOLVE, 8, 1) == Amount(62, 786_000, 2, 1)
    assert worst(PROPOSE, 9, 0) == Amount(123, 0, 1, 0)


# --- the ceiling ------------------------------------------------------------------------------------------------------


def test_free_money_is_what_nothing_claims() -> None:
    governor = reserve(hold(spend(STRICT, "base", Amount(300, 0, 2, 2)), Amount(200)), Amount(100))
    assert fits(governor, Amount(400))
    assert not fits(governor, Amount(401))
    assert fits(governor, Amount(400, 10**9, 18, 7))
    for over, name in (
        (Amount(401), "max_tokens"),
        (Amount(0, 10**9 + 1), "max_cost"),
        (Amount(0, 0, 19), "max_calls"),
        (Amount(0, 0, 0, 8), "max_rollouts"),
        (Amount(401, 10**9 + 1, 19, 8), "max_tokens"),
        (Amount(0, 10**9 + 1, 19), "max_cost"),
        (NOTHING, "max_tokens"),
    ):
        assert binding(governor, over) == name
        assert fits(governor, over) == (over == NOTHING)
    assert fits(Governor(Caps(rounds=1), Tariff()), Amount(10**18, 10**18, 10**18, 10**18))


def test_reserve_hold_and_draw_move_money_and_lose_none() -> None:
    governor = hold(STRICT, Amount(500, 0, 5, 5))
    governor, left = draw_on(governor, Amount(500, 0, 5, 5), Amount(120, 0, 1, 1))
    assert (governor.due, governor.held, left) == (Amount(120, 0, 1, 1), Amount(380, 0, 4, 4), Amount(380, 0, 4, 4))
    governor, left = draw_on(governor, Amount(380, 0, 4, 4), Amount(400, 0, 1, 1))
    assert (governor.due, governor.held, left) == (Amount(520, 0, 2, 2), Amount(0, 0, 3, 3), Amount(0, 0, 3, 3))
    governor = release(governor, left)
    assert (governor.due, governor.held, governor.spent) == (Amount(520, 0, 2, 2), NOTHING, NOTHING)


@given(AMOUNTS, AMOUNTS)
def test_drawing_on_an_earmark_claims_only_what_it_does_not_cover(earmark: Amount, amount: Amount) -> None:
    governor, left = draw_on(hold(OBSERVED, earmark), earmark, amount)
    assert governor.held == left == subtract(earmark, smaller(earmark, amount))
    assert add(governor.due, governor.held) == add(earmark, at_least_zero(subtract(amount, earmark)))


# --- settling ---------------------------------------------------------------------------------------------------------


def test_an_answer_is_charged_once_and_its_reservation_is_free_again() -> None:
    reserved = reservation(STRICT, "solve", 40)
    assert reserved == Amount(70, 810_000, 2, 1)
    governor = settle(reserve(STRICT, reserved), "solve", "gate", reserved, Usage(prompt=15, completion=30))
    assert governor == replace(
        STRICT,
        spent=Amount(45, 495_000, 1, 1),
        ledger=(Line("gate", Amount(45, 495_000, 1, 1)),),
        reported=1,
    )
    again = settle(reserve(governor, reserved), "solve", "gate", reserved, Usage(prompt=1))
    assert again.ledger == (Line("gate", Amount(46, 498_000, 2, 2)),)
    assert again.due == NOTHING


def test_a_scorer_that_bills_has_a_line_of_its_own() -> None:
    reserved = reservation(STRICT, "solve", 0)
    governor = settle(
        reserve(STRICT, reserved), "solve", "base", reserved, Usage(prompt=10, completion=20), Usage(completion=30)
    )
    assert governor.ledger == (
        Line("base", Amount(30, 330_000, 1, 1)),
        Line("score", Amount(30, 450_000, 1, 0)),
    )
    assert (governor.spent, governor.overrun) == (Amount(60, 780_000, 2, 1), False)


def test_unknown_usage_is_assumed_at_the_reservation() -> None:
    reserved = reservation(STRICT, "propose", 8)
    governor = settle(reserve(STRICT, reserved), "propose", "propose", reserved, None)
    assert (governor.spent, governor.assumed, governor.due) == (reserved, 122, NOTHING)
    assert governor.ledger == (Line("propose", reserved, 122),)
    assert (governor.reported, governor.silent_propose, governor.silent_solve) == (0, 1, 0)


@pytest.mark.parametrize(
    ("usage", "overrun"),
    [
        (Usage(prompt=10, completion=50), False),
        (Usage(prompt=0, completion=60), True),
        (Usage(prompt=61), True),
        (Usage(prompt=1, calls=2), False),
        (Usage(prompt=1, calls=3), True),
        (Usage(prompt=1, cost=780_000), False),
        (Usage(prompt=1, cost=780_001), True),
    ],
)
def test_a_strict_promise_broken_in_any_unit_is_an_overrun(usage: Usage, overrun: bool) -> None:
    reserved = reservation(STRICT, "solve", 0)
    assert settle(reserve(STRICT, reserved), "solve", "base", reserved, usage).overrun == overrun


def test_money_that_no_tariff_speaks_of_breaks_no_promise() -> None:
    reserved = reservation(STRICT, "propose", 0)
    governor = settle(reserve(STRICT, reserved), "propose", "propose", reserved, Usage(prompt=20, cost=5_000))
    assert (governor.spent.cost, governor.overrun) == (5_000, False)


# --- observed ceilings ------------------------------------------------------------------------------------------------


def test_the_first_of_a_kind_has_all_free_money_and_later_ones_twice_the_largest() -> None:
    governor = hold(spend(OBSERVED, "base", Amount(100)), Amount(200))
    assert (alone(governor, "solve"), alone(governor, "propose")) == (True, True)
    reserved = reservation(governor, "solve", 123)
    assert reserved == Amount(700, 0, 1, 1)
    governor = settle(reserve(governor, reserved), "solve", "base", reserved, Usage(prompt=30, completion=10))
    assert (alone(governor, "solve"), alone(governor, "propose")) == (False, True)
    assert reservation(governor, "solve", 10**6) == Amount(80, 0, 1, 1)
    assert reservation(governor, "propose", 0) == Amount(1_000 - 140 - 200, 0, 1, 0)
    assert (governor.crossings, governor.overrun) == (0, False)


def test_a_crossing_raises_the_bound_and_is_counted_once() -> None:
    governor = replace(OBSERVED, largest_solve=Amount(10, 0, 1, 1))
    reserved = reservation(governor, "solve", 0)
    for _ in range(3):
        governor = reserve(governor, reserved)
    governor = settle(governor, "solve", "gate", reserved, Usage(prompt=50))
    assert (governor.crossings, governor.largest_solve) == (1, Amount(50, 0, 1, 1))
    governor = settle(governor, "solve", "gate", reserved, Usage(prompt=5))
    governor = settle(governor, "solve", "gate", reserved, Usage(prompt=20))
    assert (governor.crossings, governor.largest_solve, governor.overrun) == (1, Amount(50, 0, 1, 1), False)
    assert reservation(governor, "solve", 0) == Amount(100, 0, 1, 1)


def test_only_crossing_the_cap_ends_a_run_whose_costs_are_observed() -> None:
    governor = hold(replace(OBSERVED, largest_solve=Amount(10, 0, 1, 1)), Amount(900))
    reserved = reservation(governor, "solve", 0)
    crossed = settle(reserve(governor, reserved), "solve", "gate", reserved, Usage(prompt=500))
    assert (crossed.crossings, crossed.overrun) == (1, False)
    over = settle(reserve(governor, reserved), "solve", "gate", reserved, Usage(prompt=1_001))
    assert (over.crossings, over.overrun) == (1, True)


def test_unknown_usage_of_the_first_of_a_kind_is_not_the_whole_budget() -> None:
    reserved = reservation(OBSERVED, "solve", 0)
    governor = settle(reserve(OBSERVED, reserved), "solve", "base", reserved, None)
    assert (governor.spent, governor.assumed, governor.due) == (Amount(0, 0, 1, 1), 0, NOTHING)
    assert reservation(governor, "solve", 0) == reserved


# --- ports that do not say --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("governor", "what"),
    [
        (replace(OBSERVED, silent_solve=3), "tokens"),
        (replace(OBSERVED, silent_solve=2), None),
        (replace(OBSERVED, silent_solve=2, silent_propose=1), "tokens"),
        (replace(STRICT, silent_solve=9, reported=1), None),
        (replace(OBSERVED, reported=5, largest_solve=Amount(9, 0, 1, 1), silent_propose=3), "tokens"),
        (replace(OBSERVED, caps=Caps(rounds=1), silent_solve=9), None),
        (replace(OBSERVED, caps=Caps(cost=9), reported=3, unpriced=3), "cost"),
        (replace(OBSERVED, caps=Caps(cost=9), reported=4, unpriced=3), None),
    ],
)
def test_what_a_cap_is_set_on_and_nobody_tells(governor: Governor, what: str | None) -> None:
    assert untold(governor, 3) == what


def test_only_a_cap_on_money_asks_for_prices() -> None:
    reserved = reservation(STRICT, "propose", 0)
    governor = settle(reserve(STRICT, reserved), "propose", "propose", reserved, Usage(prompt=1))
    assert governor.unpriced == 1
    free = replace(STRICT, caps=Caps(tokens=500))
    assert settle(reserve(free, reserved), "propose", "propose", reserved, Usage(prompt=1)).unpriced == 0


# --- shares -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("spent", "share"), [(0, 0.0), (250, 0.25), (1_000, 1.0), (1_500, 1.0)])
def test_shares_are_of_the_token_cap(spent: int, share: float) -> None:
    governor = spend(STRICT, "base", Amount(spent))
    assert (spent_share(governor), remaining_fraction(governor)) == (share, 1.0 - share)
    free = replace(governor, caps=Caps(calls=5))
    assert (spent_share(free), remaining_fraction(free)) == (0.0, 1.0)


def test_a_governor_is_a_value() -> None:
    """Two runs with one configuration share nothing, and the second starts at nothing."""
    used = spend(STRICT, "base", Amount(10))
    assert STRICT.spent == NOTHING
    assert STRICT.ledger == ()
    assert used.spent == Amount(10)


def test_money_of_a_solve_and_its_score_is_rounded_once() -> None:
    rate = Rate(strict=True, overhead=1, ceiling=1, calls=2, prices=Prices(37_500, 37_500))
    governor = Governor(Caps(cost=10**6), Tariff(rate, rate))
    amount = reservation(governor, "solve", 0)
    after = settle(reserve(governor, amount), "solve", "base", amount, Usage(prompt=1), Usage(completion=1))
    assert (after.overrun, after.spent.cost, amount.cost) == (False, 75, 75)


def test_a_first_call_that_failed_teaches_nothing() -> None:
    governor = Governor(Caps(tokens=50_000), Tariff())
    amount = reservation(governor, "solve", 10)
    assert amount.tokens == 50_000
    after = settle(reserve(governor, amount), "solve", "base", amount, Usage(prompt=2), failed=True)
    assert (after.spent.tokens, reservation(after, "solve", 10).tokens) == (2, 49_998)


def test_with_nothing_free_an_unknown_call_does_not_fit() -> None:
    governor = Governor(Caps(tokens=100), Tariff(), spent=Amount(100))
    assert not fits(governor, reservation(governor, "solve", 10))


def test_an_answer_out_of_a_cache_costs_nothing_and_teaches_an_observed_ceiling_nothing() -> None:
    governor = reserve(OBSERVED, reservation(OBSERVED, "solve", 10))
    cached = settle(governor, "solve", "gate", governor.due, Usage(calls=0, hits=1))
    assert (cached.spent, cached.hits, cached.reported) == (Amount(rollouts=1), 1, 1)
    assert alone(cached, "solve")
    asked = settle(reserve(cached, Amount(tokens=500)), "solve", "gate", Amount(tokens=500), Usage(30, 4))
    assert not alone(asked, "solve")
    assert reservation(asked, "solve", 10).tokens == 68
    scored = settle(asked, "solve", "gate", NOTHING, Usage(calls=0, hits=1), Usage(calls=0, hits=1))
    assert (scored.hits, reservation(scored, "solve", 10).tokens) == (3, 68)


def test_an_answer_that_is_half_out_of_a_cache_raises_a_bound_that_it_crosses() -> None:
    asked = settle(OBSERVED, "solve", "gate", NOTHING, Usage(30, 4), Usage(0, 6))
    assert reservation(asked, "solve", 10).tokens == 80
    crossed = settle(asked, "solve", "gate", Amount(tokens=80), Usage(calls=0, hits=1), Usage(90, 10))
    assert (crossed.crossings, reservation(crossed, "solve", 10).tokens) == (1, 200)


def test_answers_out_of_a_cache_hide_from_no_cap_that_a_port_says_nothing() -> None:
    hit = Usage(calls=0, hits=1)
    priced = replace(OBSERVED, caps=Caps(cost=10**9))
    for _ in range(4):
        priced = settle(priced, "solve", "gate", NOTHING, hit)
    assert (priced.unpriced, priced.cached, untold(priced, 3)) == (0, 4, None)
    for _ in range(3):
        priced = settle(priced, "solve", "gate", NOTHING, Usage(30, 4))
    assert untold(priced, 3) == "cost"
    strict = Governor(Caps(tokens=10**6), Tariff(Rate(strict=True), Rate(strict=True)))
    for usage in (hit, hit, hit, None, None):
        strict = settle(strict, "solve", "gate", NOTHING, usage)
    assert untold(strict, 3) is None
    assert untold(settle(strict, "solve", "gate", NOTHING, None), 3) == "tokens"
