"""Whether the next round fits: what is left against the mean cost of the rounds so far.

A forecast, not a bound: the ceiling holds without it. With it a run ends at a barrier, its last merge done, and leaves
unspent what would not have bought a whole round.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent.record import Record

Projection: TypeAlias = Literal["verdict", "round"]


class Rounds(Record, frozen=True):
    """`began`: tokens spent when the round in progress began. `count`, `tokens`: rounds before it that used any, and
    what they used; a round that cost nothing is no sample of what one costs."""

    began: int = 0
    count: int = 0
    tokens: int = 0


def observe(rounds: Rounds, spent: int) -> Rounds:
    """A round ended, with so many tokens spent in the run."""
    used = spent - rounds.began
    return Rounds(spent, rounds.count + 1, rounds.tokens + used) if used > 0 else rounds


def affords_next_round(rounds: Rounds, remaining: int | None) -> bool:
    """True when `remaining` tokens (None: no cap) are at least the mean cost of a round, and before any is known."""
    return remaining is None or remaining * rounds.count >= rounds.tokens
