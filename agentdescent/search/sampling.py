"""Which of its train tasks a worker takes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, assert_never

from agentdescent.record import Record
from agentdescent.search.candidate import Draw, weighted


class RoundRobin(Record, frozen=True, tag="round-robin"):
    """One after the other, over and over."""


class DifficultyWeighted(Record, frozen=True, tag="difficulty-weighted"):
    """Tasks that are neither always nor never solved, by s (1 - s), where s is the share of attempts that solved it:
    only these can tell a better artifact from a worse one. The share is (solved + 1) / (seen + 2), so that a task not
    tried yet is as good as any, and one that always or never was solved is asked ever less, not never again."""


class Stakes(Record, frozen=True, tag="stakes"):
    """Tasks of the clusters in which most is to be won: by the train tasks of a cluster, the share of its held-out
    tasks that the head does not solve, and (1 - `pending`) for each of its proposals that waits for merge. 0: as
    failing train tasks would be met. Tasks without a cluster are one; one without
    held-out tasks, where nothing could be measured, is passed over."""

    pending: float = 0.9


Within: TypeAlias = RoundRobin | DifficultyWeighted
"""Policies that choose within a worker's shard."""
Sampling: TypeAlias = Within | Stakes


def stakes(pending: float, train: Sequence[int], unsolved: Sequence[float], waiting: Sequence[int]) -> list[float]:
    """The weight of each cluster: `train` tasks in it, `unsolved` share in [0, 1], `waiting` proposals."""
    left = 1.0 - pending
    return [
        count * share * left**held if held else count * share
        for count, share, held in zip(train, unsolved, waiting, strict=True)
    ]


class Tally(Record, frozen=True):
    """How often a task was tried, and how often it was solved."""

    seen: int = 0
    solved: int = 0


def shard(size: int, worker: int, n_workers: int) -> range:
    """Positions of the train part that belong to a worker: those with i mod n_workers = worker."""
    return range(worker, size, n_workers)


def next_task(policy: Within, tallies: tuple[Tally, ...], turn: int, key: int, draw: Draw) -> int:
    """The position, among the tasks of the worker's shard, of the one to take. `tallies`: one a task, at least one.
    `turn` counts the worker's turns from 0; `key` numbers the draw, and no other turn of the run has it."""
    match policy:
        case RoundRobin():
            return turn % len(tallies)
        case DifficultyWeighted():
            weights = [(t.solved + 1) * (t.seen - t.solved + 1) / (t.seen + 2) ** 2 for t in tallies]
            return weighted(weights, draw("task", key))
        case _:
            assert_never(policy)
