"""Judge a candidate by what came of it: Thompson sampling over subtrees.

For each candidate a draw from Beta(t (1 + successes), t (1 + failures)), both summed over the candidate and all its
descendants; the largest draw is picked. The temper t = 1 / remaining budget sharpens the draws as the budget runs out
(Wang et al. 2025, Huxley-Gödel Machine).
"""

from __future__ import annotations

from agentdescent import beta
from agentdescent.record import Record
from agentdescent.search.candidate import MILLION, Draw, SelectionContext, parents, turns

_POPULATION = 1 << 20


class CladeThompson(Record, frozen=True, tag="clade-thompson"):
    """`least_remaining` bounds the temper by its inverse."""

    least_remaining: float = 0.01


def picks(policy: CladeThompson, context: SelectionContext, draw: Draw) -> tuple[int, ...]:
    """One index a worker, each from draws of its own; the first of equal ones."""
    successes, failures = clades(context)
    temper = 1.0 / min(1.0, max(policy.least_remaining, context.budget_remaining))
    shapes = [
        (temper * (1.0 + good / MILLION), temper * (1.0 + bad / MILLION))
        for good, bad in zip(successes, failures, strict=True)
    ]
    chosen = []
    for turn in turns(context):
        draws = [beta.quantile(a, b, draw("select", turn * _POPULATION + i)) for i, (a, b) in enumerate(shapes)]
        chosen.append(draws.index(max(draws)))
    return tuple(chosen)


def clades(context: SelectionContext) -> tuple[list[int], list[int]]:
    """Successes and failures of each subtree in millionths: a task with score s adds s and 1 - s."""
    known = [[score for score in candidate.per_task if score is not None] for candidate in context.candidates]
    successes = [sum(scores) for scores in known]
    failures = [MILLION * len(scores) - sum(scores) for scores in known]
    parent = parents(context.candidates)
    children = [0] * len(parent)
    for above in parent:
        if above >= 0:
            children[above] += 1
    leaves = [i for i, count in enumerate(children) if count == 0]
    while leaves:
        index = leaves.pop()
        above = parent[index]
        if above >= 0:
            successes[above] += successes[index]
            failures[above] += failures[index]
            children[above] -= 1
            if children[above] == 0:
                leaves.append(above)
    return successes, failures
