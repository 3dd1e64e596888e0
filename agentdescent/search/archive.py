"""A draw from everything ever kept, the better the likelier, the often tried the rarer."""

from __future__ import annotations

import math

from agentdescent.record import Record
from agentdescent.search.candidate import MILLION, Draw, SelectionContext, turns, weighted


class Archive(Record, frozen=True, tag="archive"):
    """Weight exp(score / temperature), scores in [0, 1]; with `novelty` divided by 1 + visits (the performance and
    novelty terms of Zhang et al. 2025, Darwin Gödel Machine). At temperature 1 the best is at most e times as likely as
    the worst."""

    temperature: float = 1.0
    novelty: bool = True


def picks(policy: Archive, context: SelectionContext, draw: Draw) -> tuple[int, ...]:
    """One draw a worker; with `novelty` each counts as a visit. What was not scored has the mean of what was."""
    known = [candidate.score for candidate in context.candidates if candidate.score is not None]
    mean = sum(known) / len(known) if known else 0.0
    scores = [mean if candidate.score is None else candidate.score for candidate in context.candidates]
    top = max(scores)
    base = [math.exp((score - top) / (MILLION * policy.temperature)) for score in scores]
    visits = [candidate.visits if policy.novelty else 0 for candidate in context.candidates]
    chosen = []
    for turn in turns(context):
        weights = [weight / (1 + count) for weight, count in zip(base, visits, strict=True)]
        chosen.append(weighted(weights, draw("select", turn)))
        visits[chosen[-1]] += policy.novelty
    return tuple(chosen)
