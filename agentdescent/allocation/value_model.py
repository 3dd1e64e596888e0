"""The probability that a candidate commits, learned online from what this run has seen.

    p  = sigmoid(clip(w.x + b, -max_logit, max_logit))
    w += lr * (iw * (y - p) * x - reg * w),   b += lr * (iw * (y - p) - reg * b),   iw = min(1 / propensity, weight_cap)

Logistic regression by stochastic gradient steps with an L2 penalty. Weighting a label by the inverse of the probability
with which it came to be known makes the expected step that of a run in which everything was tried (Horvitz and
Thompson 1952); the cap bounds the variance that this brings. The order of every sum is fixed.
"""

from __future__ import annotations

import math
from operator import mul

from agentdescent.allocation.features import Features
from agentdescent.record import Record


class ValueModel(Record, frozen=True):
    """`lr`: step; `reg`: pull towards 0 on every weight and the bias; `max_logit` 3 keeps p within [0.047, 0.953]."""

    lr: float = 0.2
    reg: float = 0.05
    max_logit: float = 3.0
    weight_cap: float = 10.0


LearningValueModel = ValueModel


class Weights(Record, frozen=True):
    """What was learned. `weights`: one a column, () while all are 0; `observed`: labels learned from."""

    weights: Features = ()
    bias: float = 0.0
    observed: int = 0


def predict(model: ValueModel, learned: Weights, x: Features) -> float:
    """Pr(commit) of a candidate with the vector x."""
    logit = learned.bias
    for term in map(mul, learned.weights, x):  # not `sum`: of floats it is not the same in every version of Python
        logit += term
    top = model.max_logit
    logit = top if logit > top else -top if logit < -top else logit
    return 1.0 / (1.0 + math.exp(-logit))


def observe(model: ValueModel, learned: Weights, x: Features, label: bool, propensity: float) -> Weights:
    """One step towards `label`. `propensity` in (0, 1]: how probable the choice was to which the label is owed."""
    lr, reg, cap = model.lr, model.reg, model.weight_cap
    weight = 1.0 / propensity
    pull = (weight if weight < cap else cap) * (label - predict(model, learned, x))
    before = learned.weights or (0.0,) * len(x)
    if len(before) != len(x):
        raise ValueError(f"{len(x)} columns, and weights for {len(before)}")
    return Weights(
        tuple([old + lr * (pull * x[i] - reg * old) for i, old in enumerate(before)]),
        learned.bias + lr * (pull - reg * learned.bias),
        learned.observed + 1,
    )


def has_signal(learned: Weights, least: float) -> bool:
    """True when some column weighs more than `least`. The bias alone tells no candidate from another."""
    weights = learned.weights
    return bool(weights) and (max(weights) > least or min(weights) < -least)
