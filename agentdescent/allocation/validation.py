"""What is wrong with an allocator, found before anything is spent. Every message names the field and the remedy."""

from __future__ import annotations

import math
from typing import get_args

from agentdescent.allocation.config import Starts, Threshold, Thresholds, ValueBudgetAllocator
from agentdescent.allocation.features import STAGES
from agentdescent.allocation.outcomes import Outcome, label_of
from agentdescent.errors import UsageError


def check(config: ValueBudgetAllocator) -> None:
    """Raises UsageError when no run could be decided by `config`."""
    _check_stages(config)
    model = config.model
    for name, value, low, high, remedy in (
        ("model.lr", model.lr, 0.0, 1.0, "above 0 and at most 1"),
        ("model.max_logit", model.max_logit, 0.0, 50.0, "above 0 and at most 50"),
        ("price_rate", config.price_rate, 0.0, 1.0, "above 0 and at most 1"),
    ):
        if value == 0 or not _between(value, low, high):
            raise UsageError(f"{name} is {value!r}: it must be {remedy}")
    for name, value, low, high, remedy in (
        ("model.reg", model.reg, 0.0, 1.0, "in [0, 1], 0 for no penalty"),
        ("model.weight_cap", model.weight_cap, 1.0, math.inf, "at least 1, which is no weighting"),
        ("min_weight", config.min_weight, 0.0, math.inf, "at least 0"),
        ("epsilon_start", config.epsilon_start, 0.0, 1.0, "a probability, 0 for no exploration"),
        ("epsilon_end", config.epsilon_end, 0.0, 1.0, "a probability, 0 for no exploration"),
        ("finish_epsilon", config.finish_epsilon, 0.0, 1.0, "a probability, 0 for no exploration"),
        ("pace_limit", config.pace_limit, 1.0, math.inf, "at least 1, which is no pacing"),
    ):
        if not _between(value, low, high):
            raise UsageError(f"{name} is {value!r}: it must be {remedy}")
    least = config.min_propensity
    if least is not None and (least == 0 or not _between(least, 0.0, 0.5)):
        raise UsageError(f"min_propensity is {least!r}: it must be above 0 and at most 0.5, or None for no minimum")
    for name, count, lowest in (
        ("min_observations", config.min_observations, 0),
        ("epsilon_anneal", config.epsilon_anneal, 0),
        ("max_consecutive_skips", config.max_consecutive_skips, 1),
        ("min_commits", config.min_commits, 1),
    ):
        if type(count) is not int or count < lowest:
            raise UsageError(f"{name} is {count!r}: it must be a whole number of at least {lowest}")
    for outcome in config.also_negative:
        if outcome not in get_args(Outcome) or label_of(outcome) != "recorded":
            raise UsageError(f"also_negative holds {outcome!r}: name outcomes that are not learned otherwise")


def _check_stages(config: ValueBudgetAllocator) -> None:
    stages = config.stages
    if not stages or len(set(stages)) < len(stages) or not set(stages) <= set(STAGES):
        raise UsageError(f"stages is {stages!r}: name one or more of {', '.join(STAGES)}, each once")
    starts, thresholds = config.budget_start, config.threshold
    shares = (starts.verify, starts.tournament, starts.gate, starts.finish) if isinstance(starts, Starts) else (starts,)
    for share in shares:
        if not _between(share, 0.0, math.inf):
            raise UsageError(f"budget_start is {share!r}: it must be a share of the budget, or above 1 for always")
    names = (
        (thresholds.verify, thresholds.tournament, thresholds.gate, thresholds.finish)
        if isinstance(thresholds, Thresholds)
        else (thresholds,)
    )
    for name in names:
        if name not in get_args(Threshold):
            raise UsageError(f"threshold is {name!r}: it must be {' or '.join(get_args(Threshold))}")


def _between(value: object, low: float, high: float) -> bool:
    """A finite number, and no bool, from `low` to `high`, both included."""
    return (
        type(value) in (int, float) and isinstance(value, int | float) and math.isfinite(value) and low <= value <= high
    )
