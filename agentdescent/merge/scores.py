"""Scores by position, in millionths; a task that was not scored has none."""

from __future__ import annotations

from agentdescent import vector
from agentdescent.record import Record

UNKNOWN = -1


class Scores(Record, frozen=True):
    """`size` positions, of which `count` are known; `total` is their sum, `solved` how many reach the threshold."""

    values: vector.Vector[int]
    size: int
    count: int = 0
    total: int = 0
    solved: int = 0


def blank(size: int) -> Scores:
    return Scores(vector.pack([UNKNOWN] * size), size)


def score_at(scores: Scores, position: int) -> int:
    """The score in millionths, or UNKNOWN."""
    return vector.get(scores.values, position)


def record(scores: Scores, position: int, score: int, threshold: int) -> Scores:
    """With this score in place of what was known. `threshold` in millionths: at or above it a task is solved."""
    before = vector.get(scores.values, position)
    known = before != UNKNOWN
    return Scores(
        vector.put(scores.values, position, score),
        scores.size,
        scores.count + (not known),
        scores.total + score - (before if known else 0),
        scores.solved + (score >= threshold) - (known and before >= threshold),
    )
