"""The world *clusters* and its relatives: tasks fail in groups, and one useful rule mends most of a group.

Each held-out task is in cluster k of 10 with probability proportional to 1/k and solved at the start with probability
0.3. A train task always fails until a rule made for it is tried. A proposal is made for a cluster drawn with
probability proportional to 1/k times the share of its held-out tasks that the artifact leaves unsolved. With
probability `useful` it solves each unsolved task of that cluster with probability 0.8 and loses each solved task
anywhere with probability 0.02; a useless one loses each with probability 0.05. Self-verify, which tries the rule on the
train task it was made for, passes a useful one with probability 0.8 and a useless one with 0.1. A call costs
lognormal(ln 1800, 0.4) tokens, at most 10,000, a proposal 1.4 times that.

Everything is a function of (seed, artifact, task), and of the sample number for a proposal. A rule reads
`mend 3 for train-7 (123)`, `stir ...` (useless) or `gem ...`; the rendering is executed rule by rule, in order.

Relatives, by the fields of `Clusters`: *noisy* (outcomes flipped with probability `noise`), *jewel* (one proposal in a
hundred is a gem, which mends every cluster), *barren* (`useful` 0), *drift* (the size of a proposal tells its use, the
other way round after `turning` proposals), *heavy* (Pareto costs), *faulty* (calls fail, or hang for ever).
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from agentdescent.artifact.diff import digest
from agentdescent.budget.tariff import Rate, Tariff
from agentdescent.budget.usage import Usage
from agentdescent.engine.draw import seeded
from agentdescent.ports import Answer, CallFailed, Repeat, Task

CLUSTERS = 10
SOLVED_AT_START = 0.3
MENDS = 0.8
LOSES = {"mend": 0.02, "gem": 0.02, "stir": 0.05}
PASSES = {"mend": 0.8, "gem": 0.8, "stir": 0.1}
MEDIAN_TOKENS = 1800
SIGMA_TOKENS = 0.4
PARETO_TOKENS, PARETO_SHAPE = 700, 1.5
MOST_TOKENS = 10_000
PROPOSAL_COSTS = 1.4
_RULE = re.compile(r"^- (mend|gem|stir) (\d+) for (\S+) \((\d+)\)$", re.M)
_TOTAL = sum(1 / k for k in range(1, CLUSTERS + 1))

Kind: TypeAlias = Literal["mend", "gem", "stir"]


class Rule(msgspec.Struct, frozen=True):
    kind: str
    cluster: int
    made_for: str
    number: int


class Clusters(msgspec.Struct, frozen=True):
    """Shares are in [0, 1]. `turning`: proposals after which the size of a proposal tells the opposite; None: its size
    tells nothing, and is 1."""

    seed: int = 0
    useful: float = 0.3
    noise: float = 0.0
    jewels: float = 0.0
    turning: int | None = None
    heavy: bool = False
    failing: float = 0.0
    hanging: float = 0.0


WORLDS: dict[str, Clusters] = {
    "clusters": Clusters(),
    "noisy": Clusters(noise=0.1),
    "drift": Clusters(turning=60),
    "jewel": Clusters(jewels=0.01),
    "barren": Clusters(useful=0.0),
    "heavy": Clusters(heavy=True),
    "faulty": Clusters(failing=0.1, hanging=0.02),
}


def number(*parts: object) -> int:
    """A key for draws that is a function of its parts."""
    return int(digest("/".join(map(str, parts)).encode())[:15], 16)


def drawn_cluster(u: float) -> int:
    """The cluster at the quantile `u` of the law 1/k."""
    left, cluster = u * _TOTAL, 0
    while cluster < CLUSTERS - 1 and left >= 1 / (cluster + 1):
        left -= 1 / (cluster + 1)
        cluster += 1
    return cluster


def cluster_tasks(seed: int, heldout: int = 40, train: int = 2_000) -> list[Task]:
    """Held-out tasks first, whose clusters are drawn by the world's law, then train tasks: use shuffle=False and
    heldout_limit=`heldout`."""
    draw = seeded(seed)
    tasks = []
    for i in range(heldout):
        cluster = drawn_cluster(draw("cluster", i))
        tasks.append(Task(f"held-{i}", f"cluster {cluster}", {"cluster": str(cluster)}))
    return tasks + [Task(f"train-{i}", "a case") for i in range(train)]


class ClusterAgent:
    """Answers `right` or `wrong`; with `latency(purpose, key) -> seconds` it takes that long on the running loop."""

    repeat: Repeat = "free"
    tariff = Tariff(
        Rate(strict=True, bytes_per_token=64, ceiling=MOST_TOKENS),
        Rate(strict=True, bytes_per_token=64, ceiling=round(MOST_TOKENS * PROPOSAL_COSTS)),
    )

    def __init__(
        self, world: Clusters, tasks: Sequence[Task], latency: Callable[[str, int], float] | None = None
    ) -> None:
        self.name = f"clusters {world}"
        self.world = world
        self._draw = seeded(world.seed)
        self._latency = latency
        self._heldout = [task for task in tasks if task.cluster]
        self._position = {task.id: position for position, task in enumerate(self._heldout)}
        self._solved: dict[str, tuple[bool, ...]] = {}
        self._attempts: dict[int, int] = {}

    # --- the truth ----------------------------------------------------------------------------------------------------

    def truth(self, rendered: str) -> tuple[bool, ...]:
        """Which held-out tasks an artifact solves, without noise; in the order of the tasks."""
        found = self._solved.get(rendered)
        if found is None:
            rules = [Rule(kind, int(k), task, int(n)) for kind, k, task, n in _RULE.findall(rendered)]
            found = tuple(self._executed(rules, task) for task in self._heldout)
            if len(self._solved) > 2_048:
                self._solved.clear()
            self._solved[rendered] = found
        return found

    def _executed(self, rules: Sequence[Rule], task: Task) -> bool:
        right = self._draw("start", number(task.id)) < SOLVED_AT_START
        for rule in rules:
            if not right:
                mends = rule.kind == "gem" or (rule.kind == "mend" and rule.cluster == int(task.cluster))
                right = mends and self._draw("mend", number(rule.number, task.id)) < MENDS
            else:
                right = self._draw("lose", number(rule.number, task.id)) >= LOSES[rule.kind]
        return right

    def _outcome(self, rendered: str, task: Task) -> bool:
        if task.cluster:
            right = self.truth(rendered)[self._position[task.id]]
        else:
            made = [Rule(kind, int(k), name, int(n)) for kind, k, name, n in _RULE.findall(rendered) if name == task.id]
            right = any(self._draw("verify", rule.number) < PASSES[rule.kind] for rule in made)
        flipped = self.world.noise > 0 and self._draw("noise", number(rendered, task.id)) < self.world.noise
        return right != flipped

    def _proposal(self, rendered: str, task: Task, sample: int) -> str | None:
        world, key = self.world, number(rendered, task.id, sample)
        solved = self.truth(rendered)
        weights = [0.0] * CLUSTERS
        for k in range(CLUSTERS):
            members = [right for right, one in zip(solved, self._heldout, strict=True) if int(one.cluster) == k]
            if members:
                weights[k] = (1 - sum(members) / len(members)) / (k + 1)
        left = self._draw("which", key) * sum(weights)
        if sum(weights) == 0:
            return None
        cluster = 0
        while cluster < CLUSTERS - 1 and left >= weights[cluster]:
            left -= weights[cluster]
            cluster += 1
        useful, size = world.useful, 1
        if world.turning is not None:
            size = 1 + int(self._draw("size", key) * 4)
            small = size <= 2
            useful = 0.5 if small == (sample < world.turning) else 0.1
        kind: Kind = "mend" if self._draw("useful", key) < useful else "stir"
        if self._draw("jewel", key) < world.jewels:
            kind = "gem"
        rule = f"{kind} {cluster} for {task.id} ({key % 10**9})"
        if size == 1:
            return rule
        return "\n".join((f"add: {rule}", *(f"add: note {key % 10**9} {i}" for i in range(size - 1))))

    # --- the ports ----------------------------------------------------------------------------------------------------

    def tokens(self, purpose: str, key: int) -> int:
        """What a call costs; at most 10,000."""
        u = max(self._draw(f"{purpose}-u", key), 2.0**-53)
        if self.world.heavy:
            return round(min(float(MOST_TOKENS), PARETO_TOKENS * math.pow(u, -1 / PARETO_SHAPE)))
        normal = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * self._draw(f"{purpose}-v", key))
        return min(MOST_TOKENS, round(MEDIAN_TOKENS * math.exp(SIGMA_TOKENS * normal)))

    async def solve(self, rendered: str, task: Task) -> Answer:
        key = number(rendered, task.id)
        usage = Usage(prompt=self.tokens("solve", key))
        await self._take_time("solve", key, usage)
        return Answer("right" if self._outcome(rendered, task) else "wrong", usage)

    async def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        key = number(rendered, task.id, sample)
        usage = Usage(prompt=round(self.tokens("propose", key) * PROPOSAL_COSTS))
        await self._take_time("propose", key, usage)
        return Answer(self._proposal(rendered, task, sample), usage)

    async def _take_time(self, purpose: str, key: int, usage: Usage) -> None:
        """Latency; and on a faulty world a failure or a hang, another draw for each time the same is asked."""
        if self._latency is not None:
            await asyncio.sleep(self._latency(purpose, key))
        if not (self.world.failing or self.world.hanging):
            return
        attempt = self._attempts[key] = self._attempts.get(key, 0) + 1
        u = self._draw("fault", number(key, attempt))
        if u < self.world.hanging:
            await asyncio.Event().wait()
        if u < self.world.hanging + self.world.failing:
            raise CallFailed("provider", "scripted", usage)


class Right:
    """The scorer: 1 for `right`."""

    name = "right"
    blocking = False
    bills = False

    def __call__(self, task: Task, output: str) -> float:
        return float(output == "right")


right = Right()
