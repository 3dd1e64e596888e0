"""What is chosen, why, and with which probability; what is learned from the outcome."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.allocation import AllocatorContext, Choice, Facts, Starts, Thresholds, ValueBudgetAllocator
from agentdescent.allocation.allocator import Learned, Standing, chosen, decide, epsilon, observe, standing
from agentdescent.allocation.features import STAGES, Stage, vector
from agentdescent.allocation.outcomes import Outcome, label_of
from agentdescent.allocation.price import Account, earn, pace, price, worth
from agentdescent.allocation.validation import check
from agentdescent.allocation.value_model import Weights
from agentdescent.errors import UsageError
from agentdescent.merge import verdict
from agentdescent.record import replace

CONFIG = ValueBudgetAllocator()
GOOD = AllocatorContext(advantage=2.0)
POOR = AllocatorContext(advantage=-2.0)
TIGHT = Facts("verify", POOR, remaining=0.3)
# Advantage decides: 2.0 gives a logit of 2, -2.0 one of -2.
ABLE = Standing(Weights((1.0, 0.0, 0.0), 0.0, 50))
LEARNED = Learned(verify=ABLE)
P_POOR = 0.11920292202211755
DRAWS = [(2 * i + 1) / 2_000 for i in range(1_000)]


def outcome_of(choice: Choice) -> tuple[bool, str, float]:
    return choice.choice, choice.reason, choice.propensity


# --- reasons ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learned", "facts", "draw", "expected"),
    [
        (LEARNED, replace(TIGHT, remaining=0.5), 0.99, (True, "not-tight", 1.0)),
        (LEARNED, replace(TIGHT, allowed=False), 0.0, (False, "clock", 1.0)),
        (LEARNED, replace(TIGHT, remaining=1.0, allowed=False), 0.0, (False, "clock", 1.0)),
        (Learned(), TIGHT, 0.99, (True, "warm-up", 1.0)),
        (Learned(Standing(Weights((1.0, 0.0, 0.0), 0.0, 4))), TIGHT, 0.99, (True, "warm-up", 1.0)),
        (Learned(Standing(Weights((0.01, 0.0, 0.0), -3.0, 5))), TIGHT, 0.99, (True, "no-signal", 1.0)),
        (LEARNED, replace(TIGHT, context=GOOD), 0.99, (True, "value", 1.0)),
        (LEARNED, TIGHT, 0.049, (True, "counterfactual", 0.05)),
        (LEARNED, TIGHT, 0.05, (False, "skip", 0.95)),
        (Learned(replace(ABLE, in_a_row=8)), TIGHT, 0.99, (True, "liveness", 1.0)),
        (Learned(replace(ABLE, in_a_row=7)), TIGHT, 0.99, (False, "skip", 0.95)),
        (Learned(replace(ABLE, in_a_row=8)), replace(TIGHT, context=GOOD), 0.99, (True, "value", 1.0)),
        (Learned(replace(ABLE, in_a_row=8)), replace(TIGHT, allowed=False), 0.99, (False, "clock", 1.0)),
    ],
)
def test_reasons(learned: Learned, facts: Facts, draw: float, expected: tuple[bool, str, float]) -> None:
    assert outcome_of(decide(CONFIG, learned, facts, draw)) == expected


def test_a_choice_records_all_it_was_made_of() -> None:
    expected = Choice("verify", vector("verify", POOR), P_POOR, 0.05, 0.7, False, "skip", 0.95)
    assert decide(CONFIG, LEARNED, TIGHT, 0.7) == expected


@pytest.mark.parametrize(
    ("context", "draw", "expected"),
    [
        (GOOD, 0.79, (True, "value", 0.8)),
        (GOOD, 0.81, (False, "skip", 0.2)),
        (POOR, 0.19, (True, "counterfactual", 0.2)),
        (POOR, 0.21, (False, "skip", 0.8)),
    ],
)
def test_both_actions_keep_a_minimum_where_it_is_wanted(
    context: AllocatorContext, draw: float, expected: tuple[bool, str, float]
) -> None:
    config = ValueBudgetAllocator(min_propensity=0.2)
    reached = decide(config, LEARNED, replace(TIGHT, context=context), draw)
    assert (reached.choice, reached.reason, round(reached.propensity, 12)) == expected
    early = decide(config, Learned(), TIGHT, 0.9)
    assert (early.choice, early.reason, round(early.propensity, 12)) == (False, "skip", 0.2)
    assert outcome_of(decide(config, LEARNED, replace(TIGHT, remaining=0.9), 0.9)) == (True, "not-tight", 1.0)


def test_when_a_stage_is_consulted() -> None:
    config = ValueBudgetAllocator(stages=STAGES)
    for stage, start in zip(STAGES, (0.5, 0.5, 1.0, 1.0), strict=True):
        facts = Facts(stage, POOR, remaining=start)
        assert decide(config, Learned(), facts, 0.5).reason == "not-tight"
        assert decide(config, Learned(), replace(facts, remaining=start - 0.001), 0.5).reason == "warm-up"
    always = ValueBudgetAllocator(budget_start=2.0)
    assert decide(always, Learned(), replace(TIGHT, remaining=1.0), 0.5).reason == "warm-up"


def test_epsilon_falls_in_a_straight_line() -> None:
    assert [epsilon(CONFIG, "verify", n) for n in (0, 20, 40, 1_000)] == pytest.approx([0.3, 0.175, 0.05, 0.05])
    assert epsilon(CONFIG, "verify", 40) == 0.05
    flat = ValueBudgetAllocator(epsilon_start=0.1, epsilon_end=0.1)
    assert {epsilon(flat, "gate", n) for n in range(60)} == {0.1}
    assert epsilon(ValueBudgetAllocator(epsilon_anneal=0), "verify", 0) == 0.05
    assert {epsilon(CONFIG, "finish", n) for n in (0, 20, 40)} == {0.1}


# --- propensity -------------------------------------------------------------------------------------------------------

SITUATIONS = st.builds(
    Facts,
    st.sampled_from(STAGES),
    st.builds(AllocatorContext, st.floats(-3, 3), st.integers(1, 30), st.floats(0, 1)),
    st.sampled_from([0.0, 0.2, 0.49, 0.7, 1.0]),
    st.booleans(),
    st.sampled_from([0.0, 100.0, 5_000.0]),
    st.sampled_from([None, 0.0, 0.5, 1.0]),
)
STANDINGS = st.builds(
    Standing,
    st.builds(Weights, st.tuples(*[st.sampled_from([0.0, -1.0, 1.0])] * 3), st.floats(-2, 2), st.integers(0, 60)),
    st.integers(0, 10),
)
CONFIGS = st.builds(
    ValueBudgetAllocator,
    threshold=st.sampled_from(["half", "price"]),
    epsilon_start=st.sampled_from([0.0, 0.3, 1.0]),
    epsilon_end=st.sampled_from([0.0, 0.05, 0.5]),
    min_propensity=st.sampled_from([None, None, 0.1, 0.5]),
    max_consecutive_skips=st.integers(1, 9),
    min_observations=st.integers(0, 5),
)


@given(CONFIGS, SITUATIONS, STANDINGS, st.sampled_from([Account(), Account(50.0, 3_000.0, 200.0, 5)]))
def test_the_propensity_is_the_share_of_draws_that_choose_the_same(
    config: ValueBudgetAllocator, facts: Facts, own: Standing, account: Account
) -> None:
    learned = Learned(own, own, own, own, account)
    choices = [decide(config, learned, facts, draw) for draw in DRAWS]
    share = sum(choice.choice for choice in choices) / len(DRAWS)
    for choice in choices:
        assert choice.propensity == pytest.approx(share if choice.choice else 1.0 - share, abs=0.001)
        assert 0.0 < choice.propensity <= 1.0
        assert facts.allowed or outcome_of(choice) == (False, "clock", 1.0)
        least = config.min_propensity
        if least is not None and choice.reason in ("value", "counterfactual", "skip") and choice.propensity < 1.0:
            assert least - 1e-12 <= choice.propensity <= 1.0 - least + 1e-12
    reasons = {choice.reason for choice in choices if choice.choice}
    assert len(reasons) <= 1
    assert {choice.reason for choice in choices if not choice.choice} <= {"skip", "clock"}


@given(CONFIGS, SITUATIONS, STANDINGS)
def test_all_records_survive_the_log(config: ValueBudgetAllocator, facts: Facts, own: Standing) -> None:
    learned = Learned(own, own, own, own, Account(1.0, 2.0, 3.0, 4))
    choice = decide(config, learned, facts, 0.25)
    for value in (config, facts, learned, choice, replace(config, budget_start=Starts(), threshold=Thresholds())):
        assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value


# --- liveness ---------------------------------------------------------------------------------------------------------


@given(st.integers(1, 9), st.lists(st.booleans(), min_size=30, max_size=60))
def test_never_more_skips_in_a_row_than_allowed(limit: int, allowed: list[bool]) -> None:
    """Field case 31: with epsilon 0 and nothing that ever commits, the run goes on."""
    config = ValueBudgetAllocator(epsilon_start=0.0, epsilon_end=0.0, max_consecutive_skips=limit)
    learned, in_a_row, decided = Learned(replace(ABLE, weights=Weights((1.0, 0.0, 0.0), -3.0, 50))), 0, []
    for may in allowed:
        choice = decide(config, learned, replace(TIGHT, allowed=may), 0.5)
        learned = chosen(learned, choice)
        decided.append(choice)
        if not may:
            assert outcome_of(choice) == (False, "clock", 1.0)
        elif in_a_row == limit:
            assert outcome_of(choice) == (True, "liveness", 1.0)
            learned, in_a_row = observe(config, learned, choice, "regression"), 0
        else:
            assert outcome_of(choice) == (False, "skip", 1.0)
            in_a_row += 1
    assert learned.verify.in_a_row == in_a_row
    assert learned.verify.decided == len(allowed)
    assert learned.verify.skipped == sum(choice.reason == "skip" for choice in decided)


# --- outcomes ---------------------------------------------------------------------------------------------------------


def test_the_outcomes_are_those_of_the_merge() -> None:
    assert get_args(Outcome) == get_args(verdict.Outcome)
    labels = {label: [o for o in get_args(Outcome) if label_of(o) == label] for label in ("positive", "negative")}
    assert labels == {
        "positive": ["committed"],
        "negative": [
            "below-threshold",
            "regression",
            "lost-conflict",
            "lost-tournament",
            "oracle-rejected",
            "cas-conflict",
        ],
    }


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_a_label_is_learned_once_and_nothing_else_is(outcome: Outcome) -> None:
    choice = decide(CONFIG, Learned(), TIGHT, 0.5)
    after = observe(CONFIG, Learned(), choice, outcome)
    label = label_of(outcome)
    assert after.verify.weights.observed == (label != "recorded")
    assert after.verify.committed == (label == "positive")
    assert (after.verify.weights.bias > 0) == (label == "positive")
    assert (after.tournament, after.gate, after.finish, after.account) == (Standing(),) * 3 + (Account(),)
    refused = decide(CONFIG, Learned(), replace(TIGHT, allowed=False), 0.5)
    assert observe(CONFIG, Learned(), refused, outcome) == Learned()


def test_outcomes_may_be_added_as_failures() -> None:
    config = ValueBudgetAllocator(also_negative=("all-stale",))
    choice = decide(config, Learned(), TIGHT, 0.5)
    assert observe(config, Learned(), choice, "all-stale") == observe(config, Learned(), choice, "regression")
    assert observe(config, Learned(), choice, "failed") == Learned()


def test_a_label_weighs_by_the_propensity_where_it_depends_on_the_choice() -> None:
    tried = decide(CONFIG, LEARNED, TIGHT, 0.01)
    assert outcome_of(tried) == (True, "counterfactual", 0.05)
    certain = replace(tried, propensity=1.0)
    capped = replace(tried, propensity=0.1)
    assert observe(CONFIG, LEARNED, tried, "committed") == observe(CONFIG, LEARNED, certain, "committed")
    screened = observe(CONFIG, LEARNED, tried, "committed", screen=True)
    assert screened == observe(CONFIG, LEARNED, capped, "committed", screen=True)
    assert screened.verify.weights.weights[0] == pytest.approx(1.0 + 0.2 * (10 * (1.0 - P_POOR) * -2.0 - 0.05))


def test_stages_learn_apart() -> None:
    learned = Learned()
    for stage in STAGES:
        choice = decide(CONFIG, learned, Facts(stage, GOOD, remaining=0.1), 0.5)
        learned = chosen(observe(CONFIG, learned, choice, "committed"), choice)
    assert [len(standing(learned, stage).weights.weights) for stage in STAGES] == [3, 4, 7, 9]
    counts = [(s.decided, s.committed, s.weights.observed) for s in (standing(learned, stage) for stage in STAGES)]
    assert counts == [(1, 1, 1)] * 4


def test_one_configuration_in_two_runs_shares_nothing() -> None:
    """Field case 32."""
    config, before = ValueBudgetAllocator(), msgspec.json.encode(ValueBudgetAllocator())
    one = two = Learned()
    for i in range(20):
        facts = Facts("verify", GOOD if i % 2 else POOR, 0.1)
        first, second = decide(config, one, facts, 0.5), decide(config, two, facts, 0.5)
        one = observe(config, chosen(one, first), first, "committed" if i % 2 else "regression")
        two = observe(config, chosen(two, second), second, "regression" if i % 2 else "committed")
    assert decide(config, one, replace(TIGHT, context=GOOD), 0.9).reason == "value"
    assert decide(config, two, replace(TIGHT, context=GOOD), 0.9).reason == "skip"
    assert msgspec.json.encode(config) == before


# --- the price --------------------------------------------------------------------------------------------------------


def test_the_price_is_the_ratio_of_two_averages() -> None:
    account = earn(Account(), 0.1, 0.0, 1_000.0, committed=False)
    assert (price(Account()), price(account)) == (0.0, 0.0)
    account = earn(account, 0.1, 50.0, 3_000.0, committed=True)
    assert account == Account(0.1 * 50.0, 0.9 * 100.0 + 0.1 * 3_000.0, 50.0, 1)
    assert price(account) == pytest.approx(5.0 / 390.0)
    account = earn(account, 0.1, 150.0, 3_000.0, committed=True)
    assert (round(account.per_commit, 12), account.commits) == (60.0, 2)


def test_worth_is_expected_gain_per_token_against_the_price() -> None:
    account = Account(gain=10.0, tokens=1_000.0, per_commit=100.0, commits=5)  # a price of 0.01
    assert worth(account, 0.5, 5_000.0, 1.0)
    assert not worth(account, 0.5, 5_001.0, 1.0)
    assert not worth(account, 0.5, 5_000.0, 1.1)
    assert worth(account, 0.0, 0.0, 4.0)


@pytest.mark.parametrize(
    ("remaining", "left", "factor"),
    [(0.5, None, 1.0), (0.5, 0.5, 1.0), (0.25, 0.5, 2.0), (0.5, 0.25, 0.5), (0.0, 0.5, 4.0), (0.5, 0.0, 0.25)],
)
def test_pacing_makes_tokens_and_rounds_end_together(remaining: float, left: float | None, factor: float) -> None:
    assert pace(remaining, left, 4.0) == factor


def test_a_gate_is_paid_for_at_the_price_of_the_run() -> None:
    config = ValueBudgetAllocator(stages=("gate",), min_observations=0)
    own = Standing(Weights((1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), 0.0, 50))
    priced = Account(gain=10.0, tokens=1_000.0, per_commit=100.0, commits=3)
    facts = Facts("gate", POOR, remaining=0.5, cost=P_POOR * 100.0 / 0.01)
    dearer = replace(facts, cost=facts.cost * 1.01)
    assert outcome_of(decide(config, Learned(gate=own, account=priced), facts, 0.9)) == (True, "value", 1.0)
    assert outcome_of(decide(config, Learned(gate=own, account=priced), dearer, 0.9)) == (False, "skip", 0.95)
    paced = replace(dearer, left=0.25)
    assert decide(config, Learned(gate=own, account=priced), paced, 0.9).reason == "value"
    for unknown in (replace(priced, commits=2), replace(priced, tokens=0.0)):
        assert decide(config, Learned(gate=own, account=unknown), dearer, 0.9).reason == "warm-up"


def test_a_candidate_is_booked_once() -> None:
    choice = decide(CONFIG, Learned(), TIGHT, 0.5)
    learned = observe(CONFIG, Learned(), choice, "committed", 200.0, 4_000.0)
    assert learned.account == Account(20.0, 400.0, 200.0, 1)
    assert observe(CONFIG, learned, choice, "committed").account == learned.account
    lost = observe(CONFIG, learned, choice, "failed", 0.0, 1_000.0)
    assert lost.account == Account(18.0, 460.0, 200.0, 1)
    assert lost.verify == learned.verify


# --- what is wrong ----------------------------------------------------------------------------------------------------


def test_the_defaults_are_possible() -> None:
    check(ValueBudgetAllocator())
    check(ValueBudgetAllocator(stages=STAGES, budget_start=2, threshold="price", min_propensity=0.5))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ValueBudgetAllocator(stages=()), "stages is .*: name one or more of verify"),
        (ValueBudgetAllocator(stages=("verify", "verify")), "each once"),
        (ValueBudgetAllocator(budget_start=-0.1), "budget_start is -0.1"),
        (ValueBudgetAllocator(budget_start=Starts(gate=float("nan"))), "budget_start is nan"),
        (ValueBudgetAllocator(epsilon_start=1.1), "epsilon_start is 1.1: it must be a probability"),
        (ValueBudgetAllocator(epsilon_end=-1), "epsilon_end is -1"),
        (ValueBudgetAllocator(finish_epsilon=float("inf")), "finish_epsilon is inf"),
        (ValueBudgetAllocator(epsilon_anneal=-1), "epsilon_anneal is -1: it must be a whole number of at least 0"),
        (ValueBudgetAllocator(min_observations=True), "min_observations is True"),
        (ValueBudgetAllocator(max_consecutive_skips=0), "max_consecutive_skips is 0"),
        (ValueBudgetAllocator(min_propensity=0.6), "min_propensity is 0.6: .* or None for no minimum"),
        (ValueBudgetAllocator(min_propensity=0), "min_propensity is 0"),
        (ValueBudgetAllocator(min_commits=0), "min_commits is 0"),
        (ValueBudgetAllocator(price_rate=0), "price_rate is 0: it must be above 0"),
        (ValueBudgetAllocator(pace_limit=0.5), "pace_limit is 0.5"),
        (ValueBudgetAllocator(min_weight=-1), "min_weight is -1"),
        (ValueBudgetAllocator(also_negative=("committed",)), "also_negative holds 'committed'"),
    ],
)
def test_what_is_impossible_is_named(config: ValueBudgetAllocator, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check(config)


@pytest.mark.parametrize("stage", STAGES)
def test_equal_arguments_give_equal_choices(stage: Stage) -> None:
    facts = Facts(stage, GOOD, remaining=0.2, cost=100.0)
    assert decide(CONFIG, LEARNED, facts, 0.3) == decide(CONFIG, LEARNED, facts, 0.3)
