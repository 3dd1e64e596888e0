"""The budget of a run as a reader wants to see it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent.budget.governor import Caps
from agentdescent.budget.usage import Amount
from agentdescent.engine.state import State
from agentdescent.record import Record

Ceiling: TypeAlias = Literal["strict", "observed"]


class Purposes(Record, frozen=True):
    """What one purpose used; `assumed` tokens were settled at a reservation, the rest was reported."""

    purpose: str
    tokens: int
    cost: int
    calls: int
    rollouts: int
    assumed: int


class BudgetSummary(Record, frozen=True):
    """`remaining` is what no reservation or earmark claims, in tokens; None without a token cap. `crossings`:
    reservations that an observed port crossed. `ceiling`: *strict* when every port declared a bound and kept it."""

    caps: Caps
    spent: Amount
    reported: int
    assumed: int
    due: Amount
    held: Amount
    remaining: int | None
    by_purpose: tuple[Purposes, ...]
    ceiling: Ceiling
    crossings: int
    overrun: bool


def summarise(state: State) -> BudgetSummary:
    governor = state.governor
    cap, spent = governor.caps.tokens, governor.spent
    tariff = governor.tariff
    return BudgetSummary(
        governor.caps,
        spent,
        spent.tokens - governor.assumed,
        governor.assumed,
        governor.due,
        governor.held,
        None if cap is None else cap - spent.tokens - governor.due.tokens - governor.held.tokens,
        tuple(
            Purposes(line.purpose, line.used.tokens, line.used.cost, line.used.calls, line.used.rollouts, line.assumed)
            for line in governor.ledger
        ),
        "strict" if tariff.solve.strict and tariff.propose.strict and not governor.overrun else "observed",
        governor.crossings,
        governor.overrun,
    )
