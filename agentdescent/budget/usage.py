"""What one call consumed, and sums of it. Tokens, calls and rollouts are counts; money is nano-dollars."""

from __future__ import annotations

from agentdescent.record import Record


class Usage(Record, frozen=True):
    """What a port says one effect consumed.

    `prompt` includes `cached`; a token is billed once, as prompt or as completion.
    `cost` is nano-dollars when the provider states it, None to have it computed from prices.
    `hits`: answers taken from a cache of responses, which are no calls and cost nothing.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    calls: int = 1
    cost: int | None = None
    hits: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion


class Amount(Record, frozen=True):
    """A quantity of every unit that can be capped: tokens, nano-dollars, port calls, rollouts."""

    tokens: int = 0
    cost: int = 0
    calls: int = 0
    rollouts: int = 0


NOTHING = Amount()


def add(a: Amount, b: Amount) -> Amount:
    return Amount(a.tokens + b.tokens, a.cost + b.cost, a.calls + b.calls, a.rollouts + b.rollouts)


def subtract(a: Amount, b: Amount) -> Amount:
    return Amount(a.tokens - b.tokens, a.cost - b.cost, a.calls - b.calls, a.rollouts - b.rollouts)


def scale(a: Amount, n: int) -> Amount:
    return Amount(a.tokens * n, a.cost * n, a.calls * n, a.rollouts * n)


def at_least_zero(a: Amount) -> Amount:
    return Amount(max(0, a.tokens), max(0, a.cost), max(0, a.calls), max(0, a.rollouts))


def smaller(a: Amount, b: Amount) -> Amount:
    """Unit by unit the smaller of the two."""
    return Amount(min(a.tokens, b.tokens), min(a.cost, b.cost), min(a.calls, b.calls), min(a.rollouts, b.rollouts))


def covers(a: Amount, b: Amount) -> bool:
    """True when `a` is at least `b` in every unit."""
    return a.tokens >= b.tokens and a.calls >= b.calls and a.rollouts >= b.rollouts and a.cost >= b.cost


def exceeds(a: Amount, b: Amount) -> bool:
    """True when any unit of `a` is larger than the same unit of `b`."""
    return a.tokens > b.tokens or a.cost > b.cost or a.calls > b.calls or a.rollouts > b.rollouts
