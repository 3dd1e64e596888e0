"""Candidates that are best at something, though perhaps not on average.

A candidate dominates another when it scores at least as much on every held-out task, and more on one. What was not
scored counts as less than any score, so that nothing dominates by having been measured on less.
"""

from __future__ import annotations

from itertools import compress
from operator import ge
from typing import Literal, TypeAlias

from agentdescent.record import Record
from agentdescent.search.beam import best
from agentdescent.search.candidate import Candidate, Draw, SelectionContext, turns, weighted

Mode: TypeAlias = Literal["per-instance", "win-frequency", "top-k"]
Rows: TypeAlias = list[tuple[int, ...]]
_UNSCORED = -1
_DIGITS = b"01" + bytes(254)
"""Flags to the digits of a number."""


class ParetoFrontier(Record, frozen=True, tag="pareto"):
    """`per-instance`: the candidates that nothing dominates, in turn. `win-frequency`: one draw a pick, weighted by the
    tasks at which a candidate is best, those that another of the best dominates left out (Agrawal et al. 2025, GEPA,
    algorithm 2). `top-k`: the `k` of the highest mean, in turn."""

    mode: Mode = "per-instance"
    k: int = 5


def rows_of(candidates: tuple[Candidate, ...]) -> Rows:
    """Scores by task, equally long, with -1 for what is not known."""
    width = max(len(candidate.per_task) for candidate in candidates)
    rows: Rows = []
    for candidate in candidates:
        scores = tuple([_UNSCORED if score is None else score for score in candidate.per_task])
        rows.append(scores + (_UNSCORED,) * (width - len(scores)))
    return rows


def frontier(rows: Rows) -> list[int]:
    """Indices of the rows that no row dominates, in order. Equal rows do not dominate each other."""
    distinct = sorted(dict.fromkeys(rows), key=sum, reverse=True)
    kept: Rows = []
    for row in distinct:  # only a row of a larger sum can dominate, and one that is dominated itself need not
        if not any(all(map(ge, other, row)) for other in kept):
            kept.append(row)
    undominated = set(kept)
    return [i for i, row in enumerate(rows) if row in undominated]


def wins(rows: Rows) -> list[int]:
    """For each row the tasks at which nothing scores more, 0 for rows that another winner dominates."""
    distinct = list(dict.fromkeys(rows))
    counts = _wins(distinct)
    if len(distinct) == len(rows):
        return counts
    count = dict(zip(distinct, counts, strict=True))
    return [count[row] for row in rows]


def _wins(rows: Rows) -> list[int]:
    """`wins` of rows that all differ."""
    n = len(rows)
    sums = list(map(sum, rows))
    order = sorted(range(n), key=sums.__getitem__, reverse=True)  # what dominates a row has the larger sum
    columns = zip(*[rows[i] for i in order], strict=True)
    winners = [bytes(map(top.__eq__, column)) for column, top in ((c, max(c)) for c in columns) if top != _UNSCORED]
    winners.sort(key=sum)  # where few win, few rivals are left
    masks = [int(flags.translate(_DIGITS), 2) for flags in winners]  # the first in order has the highest bit
    counts, undominated = [0] * n, 0
    for place, won in enumerate(zip(*winners, strict=True)):
        if not any(won):
            continue
        rivals = undominated
        for mask in compress(masks, won):  # what dominates the row wins wherever it does
            rivals &= mask
            if not rivals:
                break
        row = rows[order[place]]
        while rivals:
            highest = rivals.bit_length()
            if all(map(ge, rows[order[n - highest]], row)):
                break
            rivals ^= 1 << (highest - 1)
        if not rivals:
            counts[order[place]] = sum(won)
            undominated |= 1 << (n - 1 - place)
    return counts


def picks(policy: ParetoFrontier, context: SelectionContext, draw: Draw) -> tuple[int, ...]:
    """One index a worker; by task, the head's for every worker where nothing was scored by task."""
    if policy.mode == "top-k":
        return best(policy.k, context)
    workers = turns(context)
    rows = rows_of(context.candidates)
    if policy.mode == "per-instance":
        scored = any(score != _UNSCORED for row in rows for score in row)
        front = frontier(rows) if scored else [context.head]
        return tuple(front[i % len(front)] for i in workers)
    counts = wins(rows)
    if not any(counts):
        return (context.head,) * context.n_workers
    weights = [float(count) for count in counts]
    return tuple(weighted(weights, draw("select", i)) for i in workers)
