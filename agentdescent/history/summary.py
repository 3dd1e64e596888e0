"""The budget of a run as a reader wants to see it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent.budget.governor import Caps, Purpose
from agentdescent.budget.usage import Amount
from agentdescent.engine.event import Event, Skipped
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


class Degraded(Record, frozen=True):
    """From when on the clock refused a purpose: at how many tokens spent, in which round."""

    purpose: Purpose
    tokens: int
    round: int


class Spend(Record, frozen=True):
    """All that a run used, and on what. Of its tokens `assumed` were settled at a reservation, the rest reported.
    `hits`: answers out of a cache of responses."""

    total: Amount
    assumed: int
    by_purpose: tuple[Purposes, ...]
    hits: int = 0


class BudgetSummary(Record, frozen=True):
    """`remaining` is what no reservation or earmark claims, in tokens; None without a token cap. `crossings`:
    reservations that an observed port crossed. `ceiling`: *strict* when every port declared a bound and kept it.
    `degraded`: optional spends that the governor gave up, oldest first."""

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
    degraded: tuple[Degraded, ...] = ()

    @property
    def cap(self) -> int | None:
        """The cap on tokens."""
        return self.caps.tokens


def degrade(before: tuple[Degraded, ...], event: Event, state: State) -> tuple[Degraded, ...]:
    """Fold an event; `state` is the one after it. The first refusal of each purpose counts."""
    if not isinstance(event, Skipped) or event.reason != "clock" or any(one.purpose == event.purpose for one in before):
        return before
    return (*before, Degraded(event.purpose, state.governor.spent.tokens, state.round))


def spend(state: State) -> Spend:
    governor = state.governor
    return Spend(
        governor.spent,
        governor.assumed,
        tuple(
            Purposes(line.purpose, line.used.tokens, line.used.cost, line.used.calls, line.used.rollouts, line.assumed)
            for line in governor.ledger
        ),
        governor.hits,
    )


def summarise(state: State, degraded: tuple[Degraded, ...] = ()) -> BudgetSummary | None:
    """None where neither tokens nor cost, calls or rollouts are capped."""
    governor = state.governor
    cap, spent, caps = governor.caps.tokens, governor.spent, governor.caps
    if cap is None and caps.cost is None and caps.calls is None and caps.rollouts is None:
        return None
    tariff = governor.tariff
    return BudgetSummary(
        governor.caps,
        spent,
        spent.tokens - governor.assumed,
        governor.assumed,
        governor.due,
        governor.held,
        None if cap is None else cap - spent.tokens - governor.due.tokens - governor.held.tokens,
        spend(state).by_purpose,
        "strict" if tariff.solve.strict and tariff.propose.strict and not governor.overrun else "observed",
        governor.crossings,
        governor.overrun,
        degraded,
    )
