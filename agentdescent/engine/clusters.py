"""The parts of a run by cluster of tasks (`meta["cluster"]`; tasks that name none are one cluster)."""

from __future__ import annotations

from agentdescent.engine.spec import Setup, Split
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.scores import Scores, score_at
from agentdescent.record import Record


class Clusters(Record, frozen=True):
    """`of[i]`: the number of the cluster of task i. By cluster: `train`, indices of its train tasks in order, and
    `heldout`, positions of its held-out tasks."""

    of: tuple[int, ...] = ()
    train: tuple[tuple[int, ...], ...] = ()
    heldout: tuple[tuple[int, ...], ...] = ()


def clusters_of(setup: Setup, split: Split) -> Clusters:
    """Numbered in the order in which they occur among the tasks."""
    numbers: dict[str, int] = {}
    of = tuple([numbers.setdefault(task.cluster, len(numbers)) for task in setup.tasks])
    train: list[list[int]] = [[] for _ in numbers]
    heldout: list[list[int]] = [[] for _ in numbers]
    for task in split.train:
        train[of[task]].append(task)
    for position, task in enumerate(split.heldout):
        heldout[of[task]].append(position)
    return Clusters(of, tuple(map(tuple, train)), tuple(map(tuple, heldout)))


def unsolved(clusters: Clusters, scores: Scores) -> list[int]:
    """What each cluster's held-out tasks could still gain, in millionths. Every score is known."""
    return [sum(MILLION - score_at(scores, position) for position in part) for part in clusters.heldout]
