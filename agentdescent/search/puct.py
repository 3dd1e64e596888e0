"""PUCT over a population: the rank of a candidate plus a bonus for what was tried little.

    value = r + c_puct * P * sqrt(sum of visits) / (1 + visits)

r in [0, 1] is the rank of the score, so that the exploration constant means the same whatever scores look like; P is
a prior (Rosin 2011; the form is that of Silver et al. 2016).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

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
    scale, scores = _scale(policy, context), _scores(candidates)
    order = sorted(scores)
    visits = [candidate.visits for candidate in candidates]
    total = sum(visits)
    if context.n_workers == 1:
        root = math.sqrt(total)
        extra = [root * (weight / (1 + count)) for weight, count in zip(scale, visits, strict=True)]
        return (_best(scores, order, extra),)
    bonus = [weight / (1 + count) for weight, count in zip(scale, visits, strict=True)]
    parent, chosen = parents(candidates), list[int]()
    for _ in range(context.n_workers):
        root = math.sqrt(total)
        best = _best(scores, order, [root * extra for extra in bonus])
        chosen.append(best)
        for i in lineage(parent, best):
            visits[i] += 1
            total += 1
            bonus[i] = scale[i] / (1 + visits[i])
    return tuple(chosen)


def _best(scores: list[int], order: list[int], extra: list[float]) -> int:
    """The first index of the largest rank + extra, found without the ranks of those that cannot have it: a sum of
    floats does not fall when a term grows, so it is at most that with the best rank, or with the largest extra.
    `order`: the scores sorted."""
    top, most = order[-1], max(extra)
    best_rank, most_at = _rank(order, top), extra.index(most)
    floor = max(best_rank + extra[scores.index(top)], _rank(order, scores[most_at]) + most)
    low = bisect_left(order, floor, key=lambda score: _rank(order, score) + most)
    least = order[low]
    likely = [
        i
        for i, (score, more) in enumerate(zip(scores, extra, strict=True))
        if score >= least and best_rank + more >= floor
    ]
    values = [rank + extra[i] for rank, i in zip(_ranks_of(order, [scores[i] for i in likely]), likely, strict=True)]
    return likely[values.index(max(values))]


def _scale(policy: FlatPuct | CostEfficient, context: SelectionContext) -> list[float]:
    """What multiplies sqrt(sum of visits) / (1 + visits), one a candidate."""
    weights = priors(context.candidates, policy.prior_exponent)
    if isinstance(policy, FlatPuct):
        return [policy.c_puct * weight for weight in weights]
    remaining = min(1.0, max(0.0, context.budget_remaining)) if policy.anneal else 1.0
    ratios, power = relative_costs(context.candidates), policy.cost_exponent
    if power != 1.0:
        ratios = [ratio**power for ratio in ratios]
    if policy.prior_exponent == 0.0:  # all weights are equal
        each = policy.c_puct * weights[0] * remaining
        return [each / ratio for ratio in ratios]
    return [policy.c_puct * weight * remaining / ratio for weight, ratio in zip(weights, ratios, strict=True)]


def _scores(candidates: tuple[Candidate, ...]) -> list[int]:
    """What was not scored stands below what was."""
    return [-1 if (score := candidate.score) is None else score for candidate in candidates]


def ranks(candidates: tuple[Candidate, ...]) -> list[float]:
    """1 for the best score, 0 for the worst, evenly between; equal scores share their mean rank, what was not scored
    stands below what was, and a candidate alone at 1/2."""
    scores = _scores(candidates)
    return _ranks_of(sorted(scores), scores)


def _rank(order: list[int], score: int) -> float:
    n = len(order)
    return (bisect_left(order, score) + bisect_right(order, score) - 1) / (2 * (n - 1)) if n > 1 else 0.5


def _ranks_of(order: list[int], scores: list[int]) -> list[float]:
    """The ranks of some of the scores, all of which `order` holds sorted."""
    n = len(order)
    if n == 1 or len(scores) < n // 8:
        return [_rank(order, score) for score in scores]
    last = dict(zip(order, range(n), strict=True))
    if len(last) == n:
        return [last[score] / (n - 1) for score in scores]
    first = dict(zip(reversed(order), range(n - 1, -1, -1), strict=True))
    return [(first[score] + last[score]) / (2 * (n - 1)) for score in scores]


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
    known = [cost for cost in costs if cost is not None]
    if known and min(known) < 1:
        known = [max(1, cost) for cost in known]
    total, n = sum(known), len(known)
    # cost * n / total, not cost / (total / n): integers divide to the nearest float, so equal costs give 1.0.
    if n == len(costs):
        return [cost * n / total for cost in known]
    return [1.0 if cost is None else max(1, cost) * n / total for cost in costs]
