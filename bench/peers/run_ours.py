"""This package in a peer's place: `evolve` with what it does unless told otherwise; "thrifty": with `thrifty=True`;
"blind": so too, with tasks that do not say which cluster they are of.

The cap is `max_tokens`. The run is in a directory, and goes on in it. Calls are declared free to repeat, since the
world answers the same question the same; whoever repeats one pays again all the same.
"""

from __future__ import annotations

import os

from agentdescent import AppendRules, Rate, State, Tariff, Task, Usage, evolve
from agentdescent.artifact.strategy import render
from agentdescent.engine.event import Event
from agentdescent.engine.population import dev_head
from agentdescent.job import Options
from agentdescent.ports import Answer, Repeat
from agentdescent_adapters.disk import DiskLog
from agentdescent_adapters.disk.layout import EVENTS, has_bytes
from agentdescent_adapters.worlds.clusters import right
from bench.peers.driving import Plan, drive
from bench.peers.world import HELDOUT, MOST_PROPOSE, MOST_SOLVE, World

STRATEGY = AppendRules()


class Solver:
    """The world as an agent."""

    name = "clusters"
    blocking = False
    repeat: Repeat = "free"
    tariff = Tariff(
        Rate(strict=True, bytes_per_token=64, ceiling=MOST_SOLVE),
        Rate(strict=True, bytes_per_token=64, ceiling=MOST_PROPOSE),
    )

    def __init__(self, world: World) -> None:
        self._world = world

    def solve(self, rendered: str, task: Task) -> Answer:
        reply = self._world.solve(rendered, task.id)
        return Answer(reply.text, Usage(prompt=reply.tokens))

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        reply = self._world.propose(rendered, task.id, sample)
        return Answer(reply.text, Usage(prompt=reply.tokens))


def options(plan: Plan, world: World) -> Options:
    return {
        "agent": Solver(world),
        "strategy": STRATEGY,
        "heldout_limit": HELDOUT,
        "shuffle": False,
        "seed": plan.seed,
        "max_tokens": plan.cap,
        "rounds": None,
        "thrifty": plan.variant in ("thrifty", "blind"),
    }


def tasks(plan: Plan, world: World) -> list[Task]:
    every = (*world.heldout, *world.train)
    if plan.variant == "blind":
        return [Task(case.id, "a case") for case in every]
    return [Task(case.id, case.prompt, {"cluster": str(case.cluster)}) for case in every]


def search(plan: Plan, world: World) -> str:
    def watch(event: Event, state: State) -> None:
        if state.base is None and state.started:
            world.show(render(STRATEGY, dev_head(state).version.entries))

    opened = DiskLog.open if has_bytes(os.path.join(plan.directory, EVENTS)) else DiskLog.create
    with opened(plan.directory, fsync="interval") as log:
        given: Options = {**options(plan, world), "log": log, "observers": (watch,)}
        return evolve(tasks(plan, world), right, **given).rendered


if __name__ == "__main__":
    drive(search, "agentdescent", "msgspec")
