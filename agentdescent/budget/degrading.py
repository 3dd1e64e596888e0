"""How a run degrades before the wall, in one value: `evolve(governor=BudgetGovernor(...))`.

The functions say what the engine does at a given spend, and need no engine. Optional spends degrade; the rules that
decide a commit never do.
"""

from __future__ import annotations

from agentdescent.budget.projection import Projection, Rounds
from agentdescent.budget.projection import affords_next_round as affords
from agentdescent.budget.returns import DiminishingReturns
from agentdescent.record import Record


class BudgetGovernor(Record, frozen=True):
    """`soft_floor`, `hard_floor`: shares of the token cap, in (0, 1], from which no tournament is held, and nothing is
    self-verified. `projection`: "round" ends the run where the next round is not expected to fit. The economic stop is
    `diminishing_returns`, None for none. Without `max_tokens` it does nothing."""

    max_tokens: int | None = None
    soft_floor: float = 0.75
    hard_floor: float = 0.9
    projection: Projection = "verdict"
    diminishing_returns: DiminishingReturns | None = None


def spent_share(governor: BudgetGovernor, spent: int) -> float:
    """Share of the cap that is spent, in [0, 1]; 0.0 without a cap."""
    cap = governor.max_tokens
    return 0.0 if cap is None else min(1.0, max(0.0, spent / cap))


def remaining_fraction(governor: BudgetGovernor, spent: int) -> float:
    """clamp((cap - spent) / cap, 0, 1); 1.0 without a cap."""
    return 1.0 - spent_share(governor, spent)


def allows_tournament(governor: BudgetGovernor, spent: int) -> bool:
    return spent_share(governor, spent) < governor.soft_floor


def allows_self_verify(governor: BudgetGovernor, spent: int) -> bool:
    return spent_share(governor, spent) < governor.hard_floor


def affords_next_round(governor: BudgetGovernor, rounds: Rounds, spent: int) -> bool:
    """True when what is left is at least the mean cost of the rounds so far; always without a cap."""
    cap = governor.max_tokens
    return affords(rounds, None if cap is None else cap - spent)
