"""Where effects are performed is not in the log: threads, processes and a Dask cluster give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentdescent import EvolutionResult, Task, evolve
from agentdescent.history.log import GENESIS, encode
from agentdescent.ports import Executor
from agentdescent_adapters.executors import Dask, Processes
from tests.adapters.clusters import cluster
from tests.adapters.distant import Solver, right

TASKS = [Task(f"t{n}", f"北京 task {n} 🌍\r\n\x00", {"cluster": f"c{n % 3}"}) for n in range(24)]
SCHEDULES: dict[str, dict[str, Any]] = {
    "rounds": {"rounds": 4},
    "continuous": {"asynchronous": True, "admission": "ordered", "max_tokens": 12_000},
}


class Inline(Solver):
    """Returns at once: without an executor it is called in the loop, with one it is sent there."""

    blocking = False


def run(schedule: str, agent: Solver, executor: Executor | None = None, concurrency: int = 8) -> EvolutionResult:
    return evolve(
        TASKS,
        right,
        agent=agent,
        executor=executor,
        max_concurrency=concurrency,
        n_workers=4,
        seed=7,
        test_share=0.2,
        **SCHEDULES[schedule],
    )


def written(result: EvolutionResult) -> bytes:
    """The lines of the log."""
    lines, after = list[bytes](), GENESIS
    for n, event in enumerate(result.log.events()):
        line, after = encode(n, after, event)
        lines.append(line)
    return b"\n".join(lines)


@pytest.fixture(scope="module")
def logs() -> dict[str, bytes]:
    found = {schedule: run(schedule, Solver(), concurrency=1) for schedule in SCHEDULES}
    assert all(result.version > 0 for result in found.values())
    assert all(b"no route for" in written(result) for result in found.values())
    return {schedule: written(result) for schedule, result in found.items()}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with cluster() as made:
        yield made.scheduler_address


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("concurrency", [1, 8, 64])
@pytest.mark.parametrize("agent", [Solver, Inline])
def test_threads(schedule: str, concurrency: int, agent: Callable[[], Solver], logs: dict[str, bytes]) -> None:
    assert written(run(schedule, agent(), concurrency=concurrency)) == logs[schedule]


@pytest.mark.parametrize(("schedule", "agent"), [("rounds", Inline), ("continuous", Solver)])
def test_processes(schedule: str, agent: Callable[[], Solver], logs: dict[str, bytes]) -> None:
    assert written(run(schedule, agent(), Processes(2))) == logs[schedule]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_dask(schedule: str, logs: dict[str, bytes], address: str) -> None:
    assert written(run(schedule, Solver(), Dask(address), 64)) == logs[schedule]


class Here(Solver):
    """Counts its calls in the process in which it was made."""

    blocking = False

    def __init__(self) -> None:
        self.calls = 0

    def solve(self, rendered: str, task: Task) -> Any:
        self.calls += 1
        return super().solve(rendered, task)


def test_an_agent_that_returns_at_once_is_called_by_an_executor_that_was_given() -> None:
    agent = Here()
    assert run("rounds", agent, Processes(1)).version > 0
    assert agent.calls == 0
