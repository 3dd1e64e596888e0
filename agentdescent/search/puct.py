"""PUCT over a population: the rank of a candidate plus a bonus for what was tried little.

    value = r + c_puct * P * sqrt(sum of visits) / (1 + visits)

r in [0, 1] is the rank of the score, so that the exploration constant means the same whatever scores look like; P is
a prior (Rosin 2011; the form is that of Silver et al. 2016).
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import accumulate

from agentdescent.record import Record
from agentdescent.search.candidate import Candidate, SelectionContext, lineage, parents


class FlatPuct(Record, frozen=True, tag="flat-puct"):
    """`prior_exponent` 0 makes the prior uniform, 1 takes it as it is."""

    c_puct: float = 1.0
    prior_exponent: float = 0.0


class CostEfficient(Record, frozen=True, tag="cost-efficient"):
    """FlatPuct whose bonus, and only the bonus, is multiplied by the remaining share of the budget (`anneal`) and
    divided by (cost / mean known cost) ** `cost_exponent`; an unknown cost counts as the mean. The rank is not
    discounted: a longer artifact is dearer to expand, not worse. Exponent 0 without annealing is FlatPuct, bit for bit.
    """

    cost_exponent: float = 1.0
    anneal: bool = True
    c_puct: float = 1.0
    prior_exponent: float = 0.0


def picks(policy: FlatPuct | CostEfficient, context: SelectionContext) -> tuple[int, ...]:
    """One pick a worker; each counts as a visit on itself and its ancestors. Ties go to the first."""
    candidates = context.candidates
    rank, scale = ranks(candidates), _scale(policy, context)
    visits = [candidate.visits for candidate in candidates]
    total = sum(visits)
    if context.n_workers == 1:
        root = math.sqrt(total)
        values = [r + root * (s / (1 + count)) for r, s, count in zip(rank, scale, visits, strict=True)]
        return (values.index(max(values)),)
    bonus = [weight / (1 + count) for weight, count in zip(scale, visits, strict=True)]
    parent, chosen = parents(candidates), []
    for _ in range(context.n_workers):
        root = math.sqrt(total)
        values = [r + root * extra for r, extra in zip(rank, bonus, strict=True)]
        best = values.index(max(values))
        chosen.append(best)
        for i in lineage(parent, best):
            visits[i] += 1
            total += 1
            bonus[i] = scale[i] / (1 + visits[i])
    return tuple(chosen)


def _scale(policy: FlatPuct | CostEfficient, context: SelectionContext) -> list[float]:
    """What multiplies sqrt(sum of visits) / (1 + visits), one a candidate."""
    c_puct, weights = policy.c_puct, priors(context.candidates, policy.prior_exponent)
    if isinstance(policy, FlatPuct):
        return [c_puct * weight for weight in weights]
    remaining = min(1.0, max(0.0, context.budget_remaining)) if policy.anneal else 1.0
    ratios, power = relative_costs(context.candidates), policy.cost_exponent
    if power != 1.0:
        ratios = [ratio**power for ratio in ratios]
    return [c_puct * weight * remaining / ratio for weight, ratio in zip(weights, ratios, strict=True)]


def ranks(candidates: tuple[Candidate, ...]) -> list[float]:
    """1 for the best score, 0 for the worst, evenly between; equal scores share their mean rank, what was not scored
    stands below what was, and a candidate alone at 1/2."""
    n = len(candidates)
    if n == 1:
        return [0.5]
    scores = [-1 if score is None else score for score in [candidate.score for candidate in candidates]]
    shared, twice = Counter(scores), 2 * (n - 1)
    order = sorted(shared)
    counts = [shared[score] for score in order]
    means = [(2 * last - count - 1) / twice for last, count in zip(accumulate(counts), counts, strict=True)]
    rank = dict(zip(order, means, strict=True))
    return [rank[score] for score in scores]


def priors(candidates: tuple[Candidate, ...], exponent: float) -> list[float]:
    """Normalised prior ** exponent, a missing one being the mean of those that are known; uniform without any."""
    n = len(candidates)
    known = [] if exponent == 0.0 else [c.prior for c in candidates if c.prior is not None]
    if not known:
        return [1.0 / n] * n
    mean = math.fsum(known) / len(known)
    raised = [(mean if c.prior is None else c.prior) ** exponent for c in candidates]
    total = math.fsum(raised)
    return [weight / total for weight in raised] if total > 0.0 else [1.0 / n] * n


def relative_costs(candidates: tuple[Candidate, ...]) -> list[float]:
    """cost / mean known cost, at least one unit each; exactly 1.0 for what is unknown, and for all when costs agree."""
    costs = [candidate.cost for candidate in candidates]
    known = [cost if cost > 0 else 1 for cost in costs if cost is not None]
    total, n = sum(known), len(known)
    # cost * n / total, not cost / (total / n): integers divide to the nearest float, so equal costs give 1.0.
    if n == len(costs):
        return [cost * n / total for cost in known]
    return [1.0 if cost is None else (cost if cost > 0 else 1) * n / total for cost in costs]
