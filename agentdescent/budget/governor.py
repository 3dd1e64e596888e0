"""The ceiling: reserve the worst case before an effect, settle what it used, never a token over.

After every step, in every capped unit:  spent + due + held <= cap.
`due` is what effects decided on may still use; `held` is earmarked for effects not decided yet.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent.budget.tariff import Prices, Rate, Tariff, cost, worst
from agentdescent.budget.usage import NOTHING, Amount, Usage, add, covers, exceeds, smaller, subtract
from agentdescent.record import Record, replace

Purpose: TypeAlias = Literal[
    "base", "rollout", "propose", "verify", "rebase", "conflict", "tournament", "gate", "audit", "score", "test"
]
Kind: TypeAlias = Literal["solve", "propose"]


class Caps(Record, frozen=True):
    """Limits of a run, None where there is none. `cost` in nano-dollars, `seconds` enforced by the driver."""

    tokens: int | None = None
    cost: int | None = None
    calls: int | None = None
    rollouts: int | None = None
    seconds: float | None = None
    rounds: int | None = None


class Line(Record, frozen=True):
    """One line of the ledger: what a purpose has used. `assumed`: tokens settled at a reservation."""

    purpose: Purpose
    used: Amount = NOTHING
    assumed: int = 0


class Governor(Record, frozen=True):
    """`largest_*`: the largest cost seen of a kind of effect (observed ceilings). `reported`: effects whose usage was
    stated. `silent_solve`, `silent_propose`: effects of a kind that did not state it. `unpriced`: effects that stated
    it, and whose cost nobody knows all the same. `crossings`: reservations crossed. `hits`: answers out of a cache of
    responses. `cached`: effects that were all out of it, which say of no port whether it states its usage.
    """

    caps: Caps
    tariff: Tariff
    spent: Amount = NOTHING
    due: Amount = NOTHING
    held: Amount = NOTHING
    assumed: int = 0
    ledger: tuple[Line, ...] = ()
    largest_solve: Amount | None = None
    largest_propose: Amount | None = None
    reported: int = 0
    silent_solve: int = 0
    silent_propose: int = 0
    unpriced: int = 0
    crossings: int = 0
    overrun: bool = False
    hits: int = 0
    cached: int = 0


def fits(governor: Governor, amount: Amount) -> bool:
    """True when free money covers `amount` in every capped unit."""
    caps, spent, due, held = governor.caps, governor.spent, governor.due, governor.held
    cap = caps.tokens
    if cap is not None and spent.tokens + due.tokens + held.tokens + amount.tokens > cap:
        return False
    cap = caps.cost
    if cap is not None and spent.cost + due.cost + held.cost + amount.cost > cap:
        return False
    cap = caps.calls
    if cap is not None and spent.calls + due.calls + held.calls + amount.calls > cap:
        return False
    cap = caps.rollouts
    return cap is None or spent.rollouts + due.rollouts + held.rollouts + amount.rollouts <= cap


def binding(governor: Governor, amount: Amount) -> Literal["max_tokens", "max_cost", "max_calls", "max_rollouts"]:
    """The first cap that `amount` does not fit under; `max_tokens` when it fits under all."""
    caps = governor.caps
    if not fits(replace(governor, caps=Caps(tokens=caps.tokens)), amount):
        return "max_tokens"
    if not fits(replace(governor, caps=Caps(cost=caps.cost)), amount):
        return "max_cost"
    if not fits(replace(governor, caps=Caps(calls=caps.calls)), amount):
        return "max_calls"
    if not fits(replace(governor, caps=Caps(rollouts=caps.rollouts)), amount):
        return "max_rollouts"
    return "max_tokens"


def rate(governor: Governor, kind: Kind) -> Rate:
    return governor.tariff.solve if kind == "solve" else governor.tariff.propose


def alone(governor: Governor, kind: Kind) -> bool:
    """True while nothing is known of this kind of effect: it must run alone, with all free money reserved."""
    if kind == "solve":
        return governor.largest_solve is None and not governor.tariff.solve.strict
    return governor.largest_propose is None and not governor.tariff.propose.strict


def reservation(governor: Governor, kind: Kind, prompt_bytes: int, ceiling: int | None = None) -> Amount:
    """The worst case of one effect (strict; at `ceiling` where the call has its own), or twice the largest seen
    (observed; all free money before any)."""
    terms = rate(governor, kind)
    rollouts = 1 if kind == "solve" else 0
    if terms.strict:
        return worst(terms, prompt_bytes, rollouts, ceiling)
    largest = governor.largest_solve if kind == "solve" else governor.largest_propose
    if largest is None:
        caps, spent, due, held = governor.caps, governor.spent, governor.due, governor.held
        return Amount(  # at least 1: with nothing free it must not fit
            0 if caps.tokens is None else max(1, caps.tokens - spent.tokens - due.tokens - held.tokens),
            0 if caps.cost is None else max(1, caps.cost - spent.cost - due.cost - held.cost),
            terms.calls,
            rollouts,
        )
    return Amount(2 * largest.tokens, 2 * largest.cost, max(terms.calls, largest.calls), rollouts)


def reserve(governor: Governor, amount: Amount) -> Governor:
    """Free money becomes due."""
    return replace(governor, due=add(governor.due, amount))


def hold(governor: Governor, amount: Amount) -> Governor:
    """Free money becomes earmarked (a negative amount frees it)."""
    return replace(governor, held=add(governor.held, amount))


def release(governor: Governor, amount: Amount) -> Governor:
    return replace(governor, held=subtract(governor.held, amount))


def draw_on(governor: Governor, earmark: Amount, amount: Amount) -> tuple[Governor, Amount]:
    """`amount` becomes due, as much of it as there is out of an earmark; and what is left of the earmark."""
    share = amount if covers(earmark, amount) else smaller(earmark, amount)
    after = replace(governor, due=add(governor.due, amount), held=subtract(governor.held, share))
    return after, subtract(earmark, share)


def _charge(ledger: tuple[Line, ...], purpose: Purpose, used: Amount, assumed: int) -> tuple[Line, ...]:
    for i, line in enumerate(ledger):
        if line.purpose == purpose:
            return (*ledger[:i], Line(purpose, add(line.used, used), line.assumed + assumed), *ledger[i + 1 :])
    return (*ledger, Line(purpose, used, assumed))


def spend(governor: Governor, purpose: Purpose, used: Amount, assumed: int = 0) -> Governor:
    """Charge what was used, without a reservation to settle."""
    return replace(
        governor,
        spent=add(governor.spent, used),
        assumed=governor.assumed + assumed,
        ledger=_charge(governor.ledger, purpose, used, assumed),
    )


def settle(
    governor: Governor,
    kind: Kind,
    purpose: Purpose,
    reserved: Amount,
    usage: Usage | None,
    scoring: Usage | None = None,
    *,
    failed: bool = False,
) -> Governor:
    """An effect ended: its reservation is no longer due, and what it used is spent.

    Unknown usage is settled at the reservation and counted as assumed; under an observed ceiling of which
    nothing is known yet, at nothing. A strict reservation that was crossed is an overrun; an observed one
    that was crossed raises the bound, and is an overrun only when it crosses the cap itself. The first bound is that
    of an effect that did not fail and was not cached: both cost next to nothing, and say nothing of what an answer
    costs.
    """
    terms = governor.tariff.solve if kind == "solve" else governor.tariff.propose
    rollouts = 1 if kind == "solve" else 0
    due = subtract(governor.due, reserved)
    if usage is None:
        return _lose(_silent(replace(governor, due=due), kind), kind, purpose, reserved)
    total = Amount(usage.prompt + usage.completion, cost(terms.prices, usage), usage.calls, rollouts)
    ledger = _charge(governor.ledger, purpose, total, 0)
    if scoring is not None:
        judged = Amount(scoring.tokens, _cost_of_both(terms.prices, usage, scoring) - total.cost, scoring.calls, 0)
        ledger = _charge(ledger, "score", judged, 0)
        total = add(total, judged)
    after = replace(governor, due=due, spent=add(governor.spent, total), ledger=ledger, reported=governor.reported + 1)
    hits = usage.hits + (0 if scoring is None else scoring.hits)
    cached = hits > 0 and not total.calls
    if hits:
        after = replace(after, hits=after.hits + hits, cached=after.cached + cached)
    if terms.prices is None and usage.cost is None and governor.caps.cost is not None and not cached:
        after = replace(after, unpriced=after.unpriced + 1)
    if terms.strict:
        declared = total if terms.prices is not None else replace(total, cost=0)
        return replace(after, overrun=True) if exceeds(declared, reserved) else after
    first = alone(governor, kind)
    return _observe(after, kind, reserved, total, first=first, teaches=not (first and (failed or hits)))


def abandon(governor: Governor, kind: Kind, purpose: Purpose, reserved: Amount, *, started: bool) -> Governor:
    """An effect that will not be answered: charged as one of unknown usage if it started, else not at all."""
    freed = replace(governor, due=subtract(governor.due, reserved))
    return _lose(freed, kind, purpose, reserved) if started else freed


def _lose(governor: Governor, kind: Kind, purpose: Purpose, reserved: Amount) -> Governor:
    rollouts = 1 if kind == "solve" else 0
    lost = Amount(0, 0, rate(governor, kind).calls, rollouts) if alone(governor, kind) else reserved
    return spend(governor, purpose, lost, lost.tokens)


def _cost_of_both(prices: Prices | None, usage: Usage, scoring: Usage) -> int:
    """The money of a solve and its score, rounded up once, as their worst case is."""
    if usage.cost is not None or scoring.cost is not None:
        return cost(prices, usage) + cost(prices, scoring)
    prompt, completion = usage.prompt + scoring.prompt, usage.completion + scoring.completion
    return cost(prices, Usage(prompt, completion, usage.cached + scoring.cached))


def _silent(governor: Governor, kind: Kind) -> Governor:
    if kind == "solve":
        return replace(governor, silent_solve=governor.silent_solve + 1)
    return replace(governor, silent_propose=governor.silent_propose + 1)


def untold(governor: Governor, limit: int) -> Literal["tokens", "cost"] | None:
    """What a cap is set on and no port says: tokens, when none of the first `limit` effects stated its usage (of a
    kind whose ceiling is observed, none of the first of that kind); cost, when it can be computed for none of them."""
    caps = governor.caps
    if caps.tokens is not None:
        if governor.reported == governor.cached and governor.silent_solve + governor.silent_propose >= limit:
            return "tokens"
        if alone(governor, "solve") and governor.silent_solve >= limit:
            return "tokens"
        if alone(governor, "propose") and governor.silent_propose >= limit:
            return "tokens"
    if (
        caps.cost is not None
        and governor.unpriced >= limit
        and governor.unpriced == governor.reported - governor.cached
    ):
        return "cost"
    return None


def _observe(
    governor: Governor, kind: Kind, reserved: Amount, total: Amount, *, first: bool, teaches: bool
) -> Governor:
    largest = governor.largest_solve if kind == "solve" else governor.largest_propose
    crossed = total.tokens > reserved.tokens or total.cost > reserved.cost or total.calls > reserved.calls
    if largest is not None:
        total = Amount(
            max(total.tokens, largest.tokens),
            max(total.cost, largest.cost),
            max(total.calls, largest.calls),
            total.rollouts,
        )
    if crossed and not first:
        governor = replace(governor, crossings=governor.crossings + 1)
    if not fits(replace(governor, due=NOTHING, held=NOTHING), NOTHING):
        governor = replace(governor, overrun=True)
    if not teaches:
        return governor
    if kind == "solve":
        return replace(governor, largest_solve=total)
    return replace(governor, largest_propose=total)


def spent_share(governor: Governor) -> float:
    """Share of the token cap that is spent, in [0, 1]; 0.0 without a cap."""
    cap = governor.caps.tokens
    return 0.0 if cap is None else min(1.0, max(0.0, governor.spent.tokens / cap))


def remaining_fraction(governor: Governor) -> float:
    """clamp((cap - spent) / cap, 0, 1); 1.0 without a cap."""
    return 1.0 - spent_share(governor)
