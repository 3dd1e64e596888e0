"""What latencies do to effects of which few depend on one another, and to the bytes of an ordered log: nothing."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable

from agentdescent import Answer, Rate, Tariff, Task, Usage, async_evolve
from agentdescent.engine.spec import Admission
from agentdescent.ports import Repeat
from agentdescent.simulation import clock, lognormal, simulate
from agentdescent_adapters.worlds.clusters import ClusterAgent, Clusters, cluster_tasks, right
from bench.agents import Right, chance

WORKERS = 64
ASSIGNMENTS = 50
STRICT = Tariff(Rate(strict=True, ceiling=10), Rate(strict=True, ceiling=10))


class Independent:
    """Solves four tasks of five whatever the artifact, and declines to propose."""

    name = "independent"
    repeat: Repeat = "free"
    tariff = STRICT

    def __init__(self, latency_seed: int) -> None:
        self._latency = lognormal(latency_seed, 1.0, 1.0)
        self._calls = 0
        self.seconds: list[float] = []

    async def _call(self) -> None:
        self._calls += 1
        seconds = self._latency("call", self._calls)
        self.seconds.append(seconds)
        await asyncio.sleep(seconds)

    async def solve(self, rendered: str, task: Task) -> Answer:
        await self._call()
        return Answer("right" if chance(task.id) < 0.8 else "wrong", Usage(prompt=1, completion=1))

    async def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        await self._call()
        return Answer(None, Usage(prompt=1, completion=1))


def work_conserving(seconds: Iterable[float], servers: int) -> float:
    """The time that servers need which take the next call whenever they are free."""
    free = [0.0] * servers
    for one in seconds:
        heapq.heapreplace(free, free[0] + one)
    return max(free)


def over_bound(admission: Admission, window: int, effects: int) -> float:
    """Wall time over that of a work-conserving schedule."""
    agent = Independent(1)
    base = 40

    async def main() -> float:
        await async_evolve(
            [Task(f"t{i}", f"task {i}") for i in range(400)],
            Right(),
            agent=agent,
            asynchronous=True,
            n_workers=WORKERS,
            admission=admission,
            window=window,
            max_calls=effects,
            heldout_limit=base,
            deadline=1e9,
        )
        return clock()

    wall, _ = simulate(main())
    seconds = agent.seconds
    return wall / (work_conserving(seconds[:base], WORKERS) + work_conserving(seconds[base:], WORKERS))


def ordered_digests(assignments: int) -> set[str]:
    """Of one job on each schedule under many assignments of latencies, prefixed with the schedule."""
    digests = set()
    for continuous in (False, True):
        for latencies in range(assignments):
            tasks = cluster_tasks(3)
            agent = ClusterAgent(Clusters(3), tasks, lognormal(1_000 + latencies, 1.0, 1.5))

            async def main(
                agent: ClusterAgent = agent, tasks: list[Task] = tasks, continuous: bool = continuous
            ) -> str:
                result = await async_evolve(
                    tasks,
                    right,
                    agent=agent,
                    asynchronous=continuous,
                    n_workers=8,
                    max_tokens=900_000,
                    heldout_limit=40,
                    shuffle=False,
                    rounds=None,
                    deadline=1e9,
                )
                return result.digest

            digest, _ = simulate(main())
            digests.add(f"{continuous} {digest}")
    return digests
