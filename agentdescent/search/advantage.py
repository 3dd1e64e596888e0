"""How a rollout compares with others made under like conditions: a z-score within (head version, cluster).

Sums are integers, so a group's mean and deviation are exact and do not depend on the order in which rollouts arrive.
"""

from __future__ import annotations

import math
from collections.abc import Set
from typing import TypeAlias

from agentdescent.record import Record

MIN_MEMBERS = 4


class Group(Record, frozen=True):
    """Rollouts of one head version on one cluster: how many, the sum of their scores in millionths, and of squares."""

    version: int
    cluster: str
    count: int = 0
    total: int = 0
    squares: int = 0


Groups: TypeAlias = tuple[Group, ...]


def observe(groups: Groups, version: int, cluster: str, score: int) -> tuple[Groups, float | None]:
    """With this score (millionths), and its advantage within its group, itself included."""
    for i, group in enumerate(groups):
        if group.version == version and group.cluster == cluster:
            grown = _add(group, score)
            return (*groups[:i], grown, *groups[i + 1 :]), advantage(grown, score)
    grown = _add(Group(version, cluster), score)
    return (*groups, grown), advantage(grown, score)


def advantage(group: Group, score: int) -> float | None:
    """(score - mean) / deviation, with the deviation of the group as a population; at most sqrt(count - 1) either way.

    None for fewer than 4 members, or a variance of at most 1e-12, one square millionth: nothing to compare with.
    """
    n = group.count
    spread = n * group.squares - group.total * group.total  # variance * n ** 2, exact
    if n < MIN_MEMBERS or spread <= n * n:
        return None
    return (n * score - group.total) / math.sqrt(spread)


def retire(groups: Groups, oldest: int) -> Groups:
    """Without the groups of versions before `oldest`, of which no worker holds a copy any more."""
    return tuple(group for group in groups if group.version >= oldest)


def keep(groups: Groups, versions: Set[int]) -> Groups:
    """Without the groups of all other versions."""
    return tuple(group for group in groups if group.version in versions)


def _add(group: Group, score: int) -> Group:
    return Group(group.version, group.cluster, group.count + 1, group.total + score, group.squares + score * score)
