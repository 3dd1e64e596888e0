"""A population through `evolve`: the options, the result, where the versions came from."""

from __future__ import annotations

import pytest

from agentdescent import MemoryLog, SingleSlot, Task, UsageError, evolve
from agentdescent.history.lineage import ancestry, lineage
from agentdescent.search import Archive, Beam

TASKS = [Task(f"t{i}", str(i)) for i in range(40)]
WAYS = {"start": ("peak", "ridge"), "ridge": ("summit", "summit"), "peak": ("cliff", "cliff")}
LEVELS = {"start": 8, "ridge": 16, "peak": 24, "cliff": 20, "summit": 40}


def run(rendered: str, task: Task) -> str:
    return rendered


def propose(rendered: str, task: Task, output: str, score: float) -> str:
    return WAYS.get(rendered, ("cliff", "cliff"))[int(task.prompt) % 2]


def reward(task: Task, output: str) -> float:
    return float((int(task.prompt) * 7) % 40 < LEVELS[output])


def test_the_result_shows_the_population_and_its_best() -> None:
    log = MemoryLog()
    result = evolve(
        TASKS,
        reward,
        run=run,
        propose=propose,
        artifact="start",
        strategy=SingleSlot(),
        selection=Beam(3),
        rounds=30,
        target_reward=1.0,
        log=log,
    )
    assert (result.rendered, result.final, result.stop_reason) == ("summit", 1.0, "target_reward")
    best = next(candidate for candidate in result.population if candidate.version == result.version)
    assert best.score == max(candidate.score or 0 for candidate in result.population) == 1_000_000
    assert result.history[-1].reward == 1.0
    state, commits = lineage(log.events())
    assert [commit.version for commit in commits] == list(range(1, len(commits) + 1))
    way = ancestry(commits, result.version)
    assert [commit.base for commit in way] == [0, *(commit.version for commit in way[:-1])]
    assert way[-1].reward == 1.0
    assert len(way) < len(commits)
    assert len(state.population.members) == len(commits) + 1


def test_with_one_head_it_is_empty() -> None:
    result = evolve(TASKS, reward, run=run, propose=propose, artifact="start", strategy=SingleSlot(), rounds=3)
    assert result.population == ()


def test_a_copy_that_is_kept_goes_with_one_head_only() -> None:
    with pytest.raises(UsageError, match="refresh_interval is 2, and Archive picks anew"):
        evolve(TASKS, reward, run=run, propose=propose, selection=Archive(), refresh_interval=2)
