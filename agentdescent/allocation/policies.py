"""An allocator of one's own, and the controls that a learning one is compared with.

class Small:
    def probability(self, stage: Stage, features: Features) -> float:
        return 1.0 if features[1] < 0.5 else 0.1
"""

from __future__ import annotations

import math
from typing import Protocol, TypeAlias, runtime_checkable

from agentdescent.allocation.choice import Choice, Facts
from agentdescent.allocation.config import DEFAULT_STARTS, Starts, ValueBudgetAllocator, start_of
from agentdescent.allocation.features import AllocatorContext, Features, Stage, vector
from agentdescent.errors import UsageError
from agentdescent.record import Record, replace


@runtime_checkable
class AllocatorPolicy(Protocol):
    """The probability of spending, a function of its arguments alone: choosing is the engine's, so that every recorded
    propensity is exact. `allocation.checks.check_policy` tests it.
    """

    def probability(self, stage: Stage, features: Features) -> float:
        """In [0, 1]. `features` has the columns of `features.columns(stage)`, or of the policy's own `features`."""


@runtime_checkable
class OwnFeatures(Protocol):
    """What a policy may have beside `probability`: a vector of its own to decide on, which is recorded instead."""

    def features(self, stage: Stage, context: AllocatorContext) -> Features: ...


class Always(Record, frozen=True, tag="always"):
    """Full evaluation. `stages`, of every control: those it decides."""

    stages: tuple[Stage, ...] = ("verify",)

    def probability(self, stage: Stage, features: Features) -> float:
        return 1.0


class Never(Record, frozen=True, tag="never"):
    """No optional spend."""

    stages: tuple[Stage, ...] = ("verify",)

    def probability(self, stage: Stage, features: Features) -> float:
        return 0.0


class Randomly(Record, frozen=True, tag="randomly"):
    """Spends with this probability, blind: the control that skips at another allocator's own rate."""

    rate: float = 0.5
    stages: tuple[Stage, ...] = ("verify",)

    def probability(self, stage: Stage, features: Features) -> float:
        return self.rate


class Lineage(Record, frozen=True, tag="lineage"):
    """Spends when mean + sd >= 1/2 of Beta(1 + s, 1 + f), where s and f are the learned outcomes of the candidate's own
    cluster and, at the weight `kin`, of all others. It learns nothing of its own: its vector holds the counts."""

    kin: float = 0.5
    stages: tuple[Stage, ...] = ("verify",)

    def features(self, stage: Stage, context: AllocatorContext) -> Features:
        """(commits, failures) of the cluster and (commits, failures) of the others."""
        own, kin = context.closed - context.commits, context.kin_closed - context.kin_commits
        return float(context.commits), float(own), float(context.kin_commits), float(kin)

    def probability(self, stage: Stage, features: Features) -> float:
        commits, failures, kin_commits, kin_failures = features
        a, b = 1.0 + commits + self.kin * kin_commits, 1.0 + failures + self.kin * kin_failures
        mean = a / (a + b)
        return 1.0 if mean + math.sqrt(mean * (1.0 - mean) / (a + b + 1.0)) >= 0.5 else 0.0


Control: TypeAlias = Always | Never | Randomly | Lineage


def greedy(config: ValueBudgetAllocator) -> ValueBudgetAllocator:
    """The control without exploration: epsilon 0. Liveness keeps it from stopping for good."""
    return replace(config, epsilon_start=0.0, epsilon_end=0.0, finish_epsilon=0.0)


def _own_vector(policy: OwnFeatures, stage: Stage, context: AllocatorContext) -> Features:
    """As it can be written to the log: finite numbers."""
    x = policy.features(stage, context)
    if type(x) is not tuple or not all(type(value) in (int, float) and math.isfinite(value) for value in x):
        raise UsageError(f"{type(policy).__name__}.features returned {x!r}: it must be a tuple of finite numbers")
    return x


def choose(policy: AllocatorPolicy, facts: Facts, draw: float, budget_start: float | Starts = DEFAULT_STARTS) -> Choice:
    """What `allocator.decide` is for a policy: the clock and `budget_start` bind it as they bind the learning one.

    A spend of probability 1/2 or more is put down as `value`, a rarer one as `counterfactual`. Raises UsageError when
    the policy does not return a probability.
    """
    stage, context = facts.stage, facts.context
    x = _own_vector(policy, stage, context) if isinstance(policy, OwnFeatures) else vector(stage, context)
    if not facts.allowed:
        return Choice(stage, x, 0.0, 0.0, draw, False, "clock", 1.0)
    if facts.remaining >= start_of(budget_start, stage):
        return Choice(stage, x, 1.0, 0.0, draw, True, "not-tight", 1.0)
    spend = policy.probability(stage, x)
    if type(spend) not in (int, float) or not 0.0 <= spend <= 1.0:
        raise UsageError(f"{type(policy).__name__}.probability returned {spend!r}: it must be a number from 0 to 1")
    if draw < spend:
        return Choice(stage, x, spend, 0.0, draw, True, "value" if spend >= 0.5 else "counterfactual", spend)
    return Choice(stage, x, spend, 0.0, draw, False, "skip", 1.0 - spend)
