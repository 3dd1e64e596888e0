"""The worlds by name, each as what a run of it takes: an agent, tasks, a scorer, and where it starts."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import AppendRules, Strategy
from agentdescent.job import Options
from agentdescent.merge.acceptance import Acceptance, Paired
from agentdescent.ports import Task
from agentdescent_adapters.worlds import circles, slots
from agentdescent_adapters.worlds.calls import Latency, WorldAgent, stated
from agentdescent_adapters.worlds.circles import CircleAgent, circle_start, circle_tasks
from agentdescent_adapters.worlds.clusters import WORLDS, ClusterAgent, cluster_tasks, right
from agentdescent_adapters.worlds.slots import SlotAgent, slot_start, slot_tasks

NAMES = (*WORLDS, "k-module", "circles")
NEVER_TIGHTER = 1e9
"""A half-life of the risk by which the bar stays at 1/2: for outcomes without noise."""


class Setting(msgspec.Struct, frozen=True):
    """One world at one seed. The agent is new: it has counted nothing."""

    agent: WorldAgent
    tasks: list[Task]
    scorer: Callable[[Task, str], float]
    start: Entries
    strategy: Strategy
    acceptance: Acceptance

    @property
    def options(self) -> Options:
        """For `evolve`, beside the agent: what the world is, and nothing of how to go about it."""
        return {
            "strategy": self.strategy,
            "artifact": self.start,
            "acceptance": self.acceptance,
            "heldout_limit": len(self.agent.heldout),
            "shuffle": False,
        }


def setting(name: str, seed: int, latency: Latency | None = None) -> Setting:
    """The world `name`, one of NAMES. Equal seeds give equal worlds."""
    if name == "k-module":
        tasks = slot_tasks()
        agent = SlotAgent(seed, tasks, latency)
        return Setting(agent, tasks, stated, slot_start(seed), slots.STRATEGY, Paired())
    if name == "circles":
        tasks = circle_tasks()
        never = Paired(half_life=NEVER_TIGHTER)
        return Setting(CircleAgent(seed, tasks, latency), tasks, stated, circle_start(seed), circles.STRATEGY, never)
    world = msgspec.structs.replace(WORLDS[name], seed=seed)
    tasks = cluster_tasks(seed)
    return Setting(ClusterAgent(world, tasks, latency), tasks, right, (), AppendRules(), Paired())
