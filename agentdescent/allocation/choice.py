"""One allocation decision as it is recorded: what was known, what was chosen, and how probable that was."""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent.allocation.features import AllocatorContext, Features, Stage
from agentdescent.record import Record

Reason: TypeAlias = Literal["not-tight", "warm-up", "no-signal", "value", "counterfactual", "liveness", "clock", "skip"]


class Choice(Record, frozen=True):
    """Whether an optional spend is made.

    `features`: the vector decided on, and learned from. `p`: predicted probability of a commit; of a policy, its
    probability of spending. `epsilon`: that of exploring, at that moment. `draw`: the uniform in [0, 1) that decided.
    `choice`: True to spend. `propensity`: the probability of what was chosen, given all but the draw, in (0, 1].

    Reasons to spend: `not-tight` (the allocator was not consulted), `warm-up` (too little was observed), `no-signal`
    (nothing tells candidates apart), `value`, `counterfactual` (not worth it, tried all the same), `liveness` (the
    last so many were skipped). Not to: `clock` (the governor refused), `skip`.
    """

    stage: Stage
    features: Features
    p: float
    epsilon: float
    draw: float
    choice: bool
    reason: Reason
    propensity: float


class Facts(Record, frozen=True):
    """What a decision may depend on beside what was learned.

    `remaining`: share of the token cap not spent, [0, 1]; 1 without a cap. `allowed`: the governor would spend.
    `cost`: expected tokens of the spend and all that it entails. `left`: share of the rounds or rollouts that may still
    be made, the smaller one, [0, 1]; None where neither is limited.
    """

    stage: Stage
    context: AllocatorContext
    remaining: float = 1.0
    allowed: bool = True
    cost: float = 0.0
    left: float | None = None
