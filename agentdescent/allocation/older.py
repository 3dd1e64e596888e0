"""Allocators written to the older protocol: objects that choose for themselves and learn in place.

What such an object decides is a fact of the run, not a function of it: a replay takes its choices from the log and
cannot decide them again. It belongs to one run; give every run a new one.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from agentdescent.allocation.choice import Choice, Facts
from agentdescent.allocation.config import DEFAULT_STARTS, Starts, start_of
from agentdescent.allocation.features import AllocatorContext, vector
from agentdescent.allocation.outcomes import Outcome, label_of
from agentdescent.errors import UsageError
from agentdescent.record import Record


class AllocateDecision(Record, frozen=True):
    """What `decide` of an older allocator returns; anything with `deep_eval` will do. `propensity`: the probability of
    what was decided; 1 where the object does not say."""

    deep_eval: bool = True
    counterfactual: bool = False
    predicted_value: float = 0.0
    n_observed: int = 0
    propensity: float = 1.0


@runtime_checkable
class OlderAllocator(Protocol):
    def decide(self, context: AllocatorContext) -> object:
        """Something whose `deep_eval` says whether to spend."""

    def observe(self, context: AllocatorContext, committed: bool) -> object:
        """A decision made on this context has ended."""


class Counts(Record, frozen=True):
    """What became of the decisions of an older allocator: labels it was told of, skips of its own accord, spends that
    it called counterfactual, and labels that were commits."""

    n_observed: int = 0
    n_skipped: int = 0
    n_counterfactual: int = 0
    n_committed: int = 0


def consult(
    allocator: OlderAllocator, counts: Counts, facts: Facts, budget_start: float | Starts = DEFAULT_STARTS
) -> tuple[Choice, Counts]:
    """Its choice, and the counts with it. It is asked only where the clock allows and the budget is tight.

    Raises UsageError when what it returned has no boolean `deep_eval`, or a `propensity` that is no probability.
    """
    stage = facts.stage
    x = vector(stage, facts.context)
    if not facts.allowed:
        return Choice(stage, x, 0.0, 0.0, 0.0, False, "clock", 1.0), counts
    if facts.remaining >= start_of(budget_start, stage):
        return Choice(stage, x, 1.0, 0.0, 0.0, True, "not-tight", 1.0), counts
    decision = allocator.decide(facts.context)
    spend, propensity = getattr(decision, "deep_eval", None), getattr(decision, "propensity", 1.0)
    if type(spend) is not bool:
        raise UsageError(f"{type(allocator).__name__}.decide returned {decision!r}: its `deep_eval` must be a bool")
    if type(propensity) not in (int, float) or not 0.0 < propensity <= 1.0:
        raise UsageError(f"{type(allocator).__name__}.decide has propensity {propensity!r}: it must be in (0, 1]")
    explored = spend and bool(getattr(decision, "counterfactual", False))
    counts = Counts(
        counts.n_observed, counts.n_skipped + (not spend), counts.n_counterfactual + explored, counts.n_committed
    )
    chance = propensity if spend else 1.0 - propensity
    if not spend:
        return Choice(stage, x, chance, 0.0, 0.0, False, "skip", propensity), counts
    return Choice(stage, x, chance, 0.0, 0.0, True, "counterfactual" if explored else "value", propensity), counts


def report(
    allocator: OlderAllocator, counts: Counts, context: AllocatorContext, choice: Choice, outcome: Outcome
) -> Counts:
    """Tell it the outcome of a decision, with the very context it was asked with, if that outcome is a label and the
    clock had not refused; and the counts with it."""
    label = label_of(outcome)
    if label == "recorded" or choice.reason == "clock":
        return counts
    committed = label == "positive"
    allocator.observe(context, committed)
    return Counts(counts.n_observed + 1, counts.n_skipped, counts.n_counterfactual, counts.n_committed + committed)
