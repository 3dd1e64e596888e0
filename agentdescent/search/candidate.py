"""What a selection policy may look at: the artifacts a worker could start from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from agentdescent.record import Record

MILLION = 1_000_000
Draw: TypeAlias = Callable[[str, int], float]
"""A uniform in [0, 1) for (purpose, key); equal arguments give equal numbers."""


class Candidate(Record, frozen=True):
    """One artifact of the population. What is unknown is None, never 0.

    `artifact`, `parent`: digests of the rendering, of this one and of what it was made from. `score`: mean over the
    held-out tasks, in millionths. `per_task`: scores by held-out position in millionths, () where none is known.
    `visits`: how often work started from it or from a descendant. `prior`: a weight of at least 0, in any unit.
    `cost`: of one expansion, in any unit of which there is a whole number, such as bytes of the rendering.
    """

    artifact: str
    version: int = 0
    score: int | None = None
    per_task: tuple[int | None, ...] = ()
    visits: int = 0
    parent: str | None = None
    prior: float | None = None
    cost: int | None = None


class SelectionContext(Record, frozen=True):
    """`head`: index of the dev head in `candidates`, of which there is at least one, with distinct artifacts.
    `budget_remaining`: share of the token cap not spent, 1 without a cap."""

    candidates: tuple[Candidate, ...]
    head: int = 0
    round: int = 0
    n_workers: int = 1
    budget_remaining: float = 1.0


def turns(context: SelectionContext) -> range:
    """A number for every pick of this round, going on where the last round ended."""
    return range(context.round * context.n_workers, (context.round + 1) * context.n_workers)


def parents(candidates: tuple[Candidate, ...]) -> list[int]:
    """The index of each candidate's parent, -1 where it has none or the parent has left the population."""
    index = {candidate.artifact: i for i, candidate in enumerate(candidates)}
    found = [-1 if candidate.parent is None else index.get(candidate.parent, -1) for candidate in candidates]
    return [-1 if parent == i else parent for i, parent in enumerate(found)]


def lineage(parent: list[int], index: int) -> list[int]:
    """A candidate and its ancestors, nearest first; each once, even where an edit led back to an earlier text."""
    seen: list[int] = []
    while index >= 0 and index not in seen:
        seen.append(index)
        index = parent[index]
    return seen


def weighted(weights: list[float], u: float) -> int:
    """The index at which the running sum of `weights` (at least 0, not all 0) passes u times their sum."""
    target, last = u * math.fsum(weights), 0  # `sum` of floats is not the same in every version of Python
    for i, weight in enumerate(weights):
        if weight > 0.0:
            last = i
            if target < weight:
                return i
            target -= weight
    return last
