"""Advantage within a group, and which task comes next."""

from __future__ import annotations

import math
import statistics
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.engine.draw import seeded
from agentdescent.search import DifficultyWeighted, RoundRobin
from agentdescent.search.advantage import Group, Groups, advantage, observe, retire
from agentdescent.search.candidate import MILLION
from agentdescent.search.sampling import Sampling, Tally, Within, next_task, shard
from tests.search.populations import always, no_draw

SCORES = st.lists(st.one_of(st.sampled_from([0, MILLION]), st.integers(0, MILLION)), min_size=1, max_size=40)


def fold(scores: list[int]) -> tuple[Groups, list[float | None]]:
    groups: Groups = ()
    seen = []
    for score in scores:
        groups, z = observe(groups, 3, "c", score)
        seen.append(z)
    return groups, seen


def test_four_scores_by_hand() -> None:
    """Of 0, 0, 1, 1 the mean is 1/2 and the deviation 1/2."""
    groups, seen = fold([0, MILLION, 0, MILLION])
    assert seen == [None, None, None, 1.0]
    assert groups == (Group(3, "c", 4, 2 * MILLION, 2 * MILLION**2),)
    assert advantage(groups[0], 0) == -1.0
    assert advantage(groups[0], MILLION // 2) == 0.0


@given(SCORES)
def test_it_is_the_z_score_including_itself(scores: list[int]) -> None:
    _, seen = fold(scores)
    for n, z in enumerate(seen, 1):
        deviation = statistics.pstdev(scores[:n])
        if n < 4 or deviation**2 <= 1.0:
            assert z is None
        else:
            assert z is not None
            assert z == pytest.approx((scores[n - 1] - statistics.fmean(scores[:n])) / deviation, abs=1e-9)
            assert abs(z) <= math.sqrt(n - 1) + 1e-9


@given(SCORES)
def test_a_group_does_not_depend_on_the_order(scores: list[int]) -> None:
    assert fold(scores)[0] == fold(sorted(scores))[0] == fold(scores[::-1])[0]


def test_no_variance_no_advantage() -> None:
    assert fold([7] * 6)[1] == [None] * 6
    assert fold([0, 2, 0, 2])[1][3] is None  # variance 1 square millionth, which is 1e-12
    assert fold([0, 3, 0, 3])[1][3] == 1.0


def test_groups_are_apart_and_retire() -> None:
    groups: Groups = ()
    for version, cluster in ((0, "a"), (0, "b"), (1, "a"), (2, "a"), (0, "a")):
        groups, _ = observe(groups, version, cluster, MILLION)
    assert [(g.version, g.cluster, g.count) for g in groups] == [(0, "a", 2), (0, "b", 1), (1, "a", 1), (2, "a", 1)]
    assert [(g.version, g.cluster) for g in retire(groups, 1)] == [(1, "a"), (2, "a")]
    assert msgspec.json.decode(msgspec.json.encode(groups), type=Groups) == groups


# --- sampling ---------------------------------------------------------------------------------------------------------


@given(st.integers(0, 30), st.integers(1, 8))
def test_shards_hold_every_task_once(size: int, n_workers: int) -> None:
    assert sorted(i for worker in range(n_workers) for i in shard(size, worker, n_workers)) == list(range(size))
    assert list(shard(7, 1, 3)) == [1, 4]


def test_round_robin() -> None:
    tallies = (Tally(),) * 3
    assert [next_task(RoundRobin(), tallies, turn, turn, no_draw) for turn in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_difficulty_prefers_what_is_sometimes_solved() -> None:
    """Weights (s + 1)(n - s + 1) / (n + 2)^2: 11/144, 36/144, 11/144, and 1/4 for a task not tried yet."""
    tallies = (Tally(10, 0), Tally(10, 5), Tally(10, 10), Tally())
    total = (11 + 36 + 11 + 36) / 144
    edges = [11 / 144 / total, 47 / 144 / total, 58 / 144 / total]
    for i, edge in enumerate(edges):
        assert next_task(DifficultyWeighted(), tallies, 0, 0, always(edge - 1e-9)) == i
        assert next_task(DifficultyWeighted(), tallies, 0, 0, always(edge + 1e-9)) == i + 1
    drawn = Counter(next_task(DifficultyWeighted(), tallies, 0, key, seeded(0)) for key in range(2_000))
    assert [drawn[i] / 2_000 for i in range(4)] == pytest.approx([11 / 94, 36 / 94, 11 / 94, 36 / 94], abs=0.03)


@given(st.sampled_from([RoundRobin(), DifficultyWeighted()]), st.integers(1, 9), st.integers(0, 99))
def test_a_task_of_the_shard_and_the_same_again(policy: Within, size: int, turn: int) -> None:
    tallies = tuple(Tally(i + 3, i % 3) for i in range(size))
    chosen = next_task(policy, tallies, turn, turn, seeded(5))
    assert 0 <= chosen < size
    assert next_task(policy, tallies, turn, turn, seeded(5)) == chosen
    assert msgspec.json.decode(msgspec.json.encode(policy), type=Sampling) == policy
    assert msgspec.json.decode(msgspec.json.encode(tallies), type=tuple[Tally, ...]) == tallies
