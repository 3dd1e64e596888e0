"""The best few candidates, in turn."""

from __future__ import annotations

from agentdescent.record import Record
from agentdescent.search.candidate import SelectionContext, turns


class Beam(Record, frozen=True, tag="beam"):
    """The `k` best by score. What was not scored comes first: ranked last, a new branch would never be tried."""

    k: int = 1


def picks(policy: Beam, context: SelectionContext) -> tuple[int, ...]:
    return best(policy.k, context)


def best(k: int, context: SelectionContext) -> tuple[int, ...]:
    """One index a worker, the `k` first of the candidates ordered by (not scored, score), earlier ones before later."""
    scores = [candidate.score for candidate in context.candidates]
    order = sorted(range(len(scores)), key=lambda i: (scores[i] is not None, -(scores[i] or 0)))[:k]
    return tuple(order[i % len(order)] for i in turns(context))
