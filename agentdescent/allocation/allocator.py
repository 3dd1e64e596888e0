"""Whether an optional spend is worth it, learned from the outcomes of this run. Pure: the draw is an argument.

    choice  = decide(config, learned, facts, draw)      recorded with the first event that it entails
    learned = chosen(learned, choice)                   when that event is folded
    learned = observe(config, learned, choice, outcome) when the decision has its one terminal outcome

The clock is the upper bound: what the governor refuses is never spent. Each stage has a model of its own.
"""

from __future__ import annotations

from typing import assert_never

from agentdescent.allocation.choice import Choice, Facts, Reason
from agentdescent.allocation.config import ValueBudgetAllocator, start_of, threshold_of
from agentdescent.allocation.features import Stage, vector
from agentdescent.allocation.outcomes import Outcome, label_of
from agentdescent.allocation.price import Account, earn, pace, worth
from agentdescent.allocation.value_model import Weights, has_signal, predict
from agentdescent.allocation.value_model import observe as step
from agentdescent.record import Record, replace


class Standing(Record, frozen=True):
    """What one stage has learned and done. `in_a_row`: skips since its last spend. Counts: decisions recorded, those
    `skipped` of its own accord, `counterfactual` spends, labels that were commits (labels: `weights.observed`)."""

    weights: Weights = Weights()
    in_a_row: int = 0
    decided: int = 0
    skipped: int = 0
    counterfactual: int = 0
    committed: int = 0


class Learned(Record, frozen=True):
    """All that an allocator knows of its run; `account` is shared by the stages."""

    verify: Standing = Standing()
    tournament: Standing = Standing()
    gate: Standing = Standing()
    finish: Standing = Standing()
    account: Account = Account()


def standing(learned: Learned, stage: Stage) -> Standing:
    match stage:
        case "verify":
            return learned.verify
        case "tournament":
            return learned.tournament
        case "gate":
            return learned.gate
        case "finish":
            return learned.finish
        case _:
            assert_never(stage)


def _with(learned: Learned, stage: Stage, own: Standing, account: Account) -> Learned:
    match stage:
        case "verify":
            return Learned(own, learned.tournament, learned.gate, learned.finish, account)
        case "tournament":
            return Learned(learned.verify, own, learned.gate, learned.finish, account)
        case "gate":
            return Learned(learned.verify, learned.tournament, own, learned.finish, account)
        case "finish":
            return Learned(learned.verify, learned.tournament, learned.gate, own, account)
        case _:
            assert_never(stage)


def epsilon(config: ValueBudgetAllocator, stage: Stage, observed: int) -> float:
    """The chance of trying what would be skipped, after so many labels at this stage."""
    if stage == "finish":
        return config.finish_epsilon
    if observed >= config.epsilon_anneal:
        return config.epsilon_end
    return config.epsilon_start + (config.epsilon_end - config.epsilon_start) * (observed / config.epsilon_anneal)


def decide(config: ValueBudgetAllocator, learned: Learned, facts: Facts, draw: float) -> Choice:
    """Spend when draw < probability of spending. `draw`: in [0, 1). `facts.stage`: one of `config.stages`."""
    stage = facts.stage
    own = standing(learned, stage)
    x = vector(stage, facts.context)
    p = predict(config.model, own.weights, x)
    chance = epsilon(config, stage, own.weights.observed)
    if not facts.allowed:
        return Choice(stage, x, p, chance, draw, False, "clock", 1.0)
    if facts.remaining >= start_of(config.budget_start, stage):
        return Choice(stage, x, p, chance, draw, True, "not-tight", 1.0)
    reason = _opinion(config, learned, own, facts, p)
    spend = chance if reason == "counterfactual" else 1.0
    least = config.min_propensity
    if least is not None:
        spend = min(max(spend, least), 1.0 - least)
    if own.in_a_row >= config.max_consecutive_skips:
        spend = 1.0
        reason = "liveness" if reason == "counterfactual" else reason
    if draw < spend:
        return Choice(stage, x, p, chance, draw, True, reason, spend)
    return Choice(stage, x, p, chance, draw, False, "skip", 1.0 - spend)


def _opinion(config: ValueBudgetAllocator, learned: Learned, own: Standing, facts: Facts, p: float) -> Reason:
    """Why to spend; `counterfactual` when there is no reason but to explore."""
    weights, account = own.weights, learned.account
    by_price = threshold_of(config.threshold, facts.stage) == "price"
    unpriced = by_price and (account.commits < config.min_commits or account.tokens <= 0.0)
    if weights.observed < config.min_observations or unpriced:
        return "warm-up"
    if not has_signal(weights, config.min_weight):
        return "no-signal"
    if by_price:
        spend = worth(account, p, facts.cost, pace(facts.remaining, facts.left, config.pace_limit))
    else:
        spend = p >= 0.5
    return "value" if spend else "counterfactual"


def chosen(learned: Learned, choice: Choice) -> Learned:
    """The choice is recorded. A refusal of the clock neither adds to the skips in a row nor ends them."""
    own = standing(learned, choice.stage)
    in_a_row, skip = own.in_a_row, choice.reason == "skip"
    if choice.reason != "clock":
        in_a_row = in_a_row + 1 if skip else 0
    own = Standing(
        own.weights,
        in_a_row,
        own.decided + 1,
        own.skipped + skip,
        own.counterfactual + (choice.reason == "counterfactual"),
        own.committed,
    )
    return _with(learned, choice.stage, own, learned.account)


def observe(
    config: ValueBudgetAllocator,
    learned: Learned,
    choice: Choice,
    outcome: Outcome,
    gain: float = 0.0,
    cost: float = 0.0,
    *,
    screen: bool = False,
    learns: bool = True,
) -> Learned:
    """The decision has its outcome: learn the label, on the vector decided on, and book what it brought and cost.

    `gain`, `cost`: how far the head rose, and tokens used, by the candidate from its rollout on. One candidate passes
    them once, with whichever of its decisions is closed last; 0 and 0 book nothing. `screen`: a verified proposal that
    did not gain is not merged. Without it a label of `verify` is known whatever was chosen, and weighs 1. `learns`:
    False counts the outcome only, as for a control, whose vectors are its own.
    """
    account = learned.account
    if gain or cost:
        account = book(config, learned, gain, cost, committed=outcome == "committed").account
    own = standing(learned, choice.stage)
    label = label_of(outcome)
    if choice.reason != "clock" and (label != "recorded" or outcome in config.also_negative):
        positive = label == "positive"
        propensity = choice.propensity if screen or choice.stage != "verify" else 1.0
        seen = replace(own.weights, observed=own.weights.observed + 1)
        own = Standing(
            step(config.model, own.weights, choice.features, positive, propensity) if learns else seen,
            own.in_a_row,
            own.decided,
            own.skipped,
            own.counterfactual,
            own.committed + positive,
        )
    return _with(learned, choice.stage, own, account)


def book(config: ValueBudgetAllocator, learned: Learned, gain: float, cost: float, *, committed: bool) -> Learned:
    """What a candidate about which nothing was chosen brought and cost; 0 and 0 book nothing."""
    if not (gain or cost):
        return learned
    return replace(learned, account=earn(learned.account, config.price_rate, gain, cost, committed=committed))
