"""The world *clusters* and its relatives: tasks fail in groups, and one useful rule mends most of a group.

Each held-out task is in cluster k of 10 with probability proportional to 1/k and solved at the start with probability
0.3. Train tasks are spread over the clusters by the same law. A train task always fails until a rule made for it is
tried, and a proposal is for the cluster of its train task. With probability `useful` it solves each unsolved task of
that cluster with probability 0.8 and loses each solved task anywhere with probability 0.02; a useless one loses each
with probability 0.05. Self-verify, which tries the rule on the train task it was made for, passes a useful one with
probability 0.8 and a useless one with 0.1.

In which cluster the next train task is, the sampling of the run decides: `Stakes(pending=0.0)`, by which a cluster is
drawn in proportion to its train tasks times its share of held-out tasks that are not solved, is the law of the world,
and what its clairvoyant follows. Round-robin goes on with clusters that have nothing left to mend.

Everything is a function of (seed, artifact, task), and of the sample number for a proposal. A rule reads
`mend 3 for train-7 (123)`, `stir ...` (useless) or `gem ...`; the rendering is executed rule by rule, in order.

Relatives, by the fields of `Clusters`: *noisy* (outcomes flipped with probability `noise`), *jewel* (one proposal in a
hundred is a gem, which mends every cluster), *barren* (`useful` 0), *drift* (the size of a proposal tells its use, the
other way round after `turning` proposals), *heavy* (Pareto costs), *faulty* (calls fail, or hang for ever).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from agentdescent.engine.draw import seeded
from agentdescent.ports import Task
from agentdescent_adapters.worlds.calls import MILLION, Latency, WorldAgent, number

CLUSTERS = 10
SOLVED_AT_START = 0.3
MENDS = 0.8
LOSES = {"mend": 0.02, "gem": 0.02, "stir": 0.05}
PASSES = {"mend": 0.8, "gem": 0.8, "stir": 0.1}
_GOLDEN = 0.6180339887498949
_KEPT = 4_096
_RULE = re.compile(r"- (mend|gem|stir) (\d+) for (\S+) \((\d+)\)")
_TOTAL = sum(1 / k for k in range(1, CLUSTERS + 1))


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


def drawn_cluster(u: float) -> int:
    """The cluster at the quantile `u` of the law 1/k."""
    left, cluster = u * _TOTAL, 0
    while cluster < CLUSTERS - 1 and left >= 1 / (cluster + 1):
        left -= 1 / (cluster + 1)
        cluster += 1
    return cluster


def cluster_tasks(seed: int, heldout: int = 40, train: int = 2_000) -> list[Task]:
    """Held-out tasks first, whose clusters are drawn by the world's law, then train tasks: use shuffle=False and
    heldout_limit=`heldout`. Train tasks follow the law as closely as whole tasks can, and so does every stretch of
    them: their quantiles are multiples of the golden ratio from a drawn start."""
    draw = seeded(seed)
    tasks = []
    for i in range(heldout):
        cluster = drawn_cluster(draw("cluster", i))
        tasks.append(Task(f"held-{i}", f"cluster {cluster}", {"cluster": str(cluster)}))
    start = draw("train-cluster", 0)
    for i in range(train):
        cluster = drawn_cluster((start + i * _GOLDEN) % 1.0)
        tasks.append(Task(f"train-{i}", "a case", {"cluster": str(cluster)}))
    return tasks


class ClusterAgent(WorldAgent):
    """Answers `right` or `wrong`."""

    def __init__(self, world: Clusters, tasks: Sequence[Task], latency: Latency | None = None) -> None:
        heldout = [task for task in tasks if task.id.startswith("held-")]
        super().__init__(
            f"clusters {world}",
            world.seed,
            heldout,
            latency,
            heavy=world.heavy,
            failing=world.failing,
            hanging=world.hanging,
        )
        self.world = world
        self._clusters = [task.cluster for task in heldout]
        self._keys = [number(task.id) for task in heldout]
        self._start = tuple(self._draw("start", key) < SOLVED_AT_START for key in self._keys)
        self._solved: dict[str, tuple[bool, ...]] = {}

    # --- the truth ----------------------------------------------------------------------------------------------------

    def truth(self, rendered: str) -> tuple[bool, ...]:
        """Which held-out tasks an artifact solves, without noise; in the order of the tasks."""
        known, lines = self._solved, []
        rest: str | None = rendered
        found = self._start
        while rest is not None:  # back to the longest beginning that was executed before
            seen = known.get(rest)
            if seen is not None:
                found = seen
                break
            head, newline, last = rest.rpartition("\n")
            lines.append((rest, last))
            rest = head if newline else None
        if len(known) > _KEPT:
            known.clear()
        for text, line in reversed(lines):
            found = known[text] = self._executed(found, line)
        return found

    def _executed(self, solved: tuple[bool, ...], line: str) -> tuple[bool, ...]:
        rule = _RULE.fullmatch(line)
        if rule is None:
            return solved
        kind, cluster, _, rank = rule.groups()
        draw, loses, everywhere = self._draw, LOSES[kind], kind == "gem"
        mends = everywhere or kind == "mend"
        after = []
        for right, own, key in zip(solved, self._clusters, self._keys, strict=True):
            if right:
                after.append(draw(f"lose {rank}", key) >= loses)
            else:
                after.append(mends and (everywhere or own == cluster) and draw(f"mend {rank}", key) < MENDS)
        return tuple(after)

    def true_scores(self, rendered: str) -> tuple[int, ...]:
        return tuple(MILLION * right for right in self.truth(rendered))

    # --- what it says -------------------------------------------------------------------------------------------------

    def output(self, rendered: str, task: Task) -> str:
        position = self._position.get(task.id)
        if position is not None:
            right = self.truth(rendered)[position]
        else:
            right = f" for {task.id} (" in rendered and self._passes(rendered, task)
        noise = self.world.noise
        flipped = noise > 0 and self._draw("noise", number(rendered, task.id)) < noise
        return "right" if right != flipped else "wrong"

    def _passes(self, rendered: str, task: Task) -> bool:
        made = ((kind, rank) for kind, _, name, rank in _RULE.findall(rendered) if name == task.id)
        return any(self._draw("verify", int(rank)) < PASSES[kind] for kind, rank in made)

    def reply(self, rendered: str, task: Task, sample: int) -> str | None:
        world, key = self.world, number(rendered, task.id, sample)
        useful, size = world.useful, 1
        if world.turning is not None:
            size = 1 + int(self._draw("size", key) * 4)
            small = size <= 2
            useful = 0.5 if small == (sample < world.turning) else 0.1
        kind = "mend" if self._draw("useful", key) < useful else "stir"
        if world.jewels and self._draw("jewel", key) < world.jewels:
            kind = "gem"
        rule = f"{kind} {task.cluster} for {task.id} ({key % 10**9})"
        if size == 1:
            return rule
        return "\n".join((f"add: {rule}", *(f"add: note {key % 10**9} {i}" for i in range(size - 1))))


class Right:
    """The scorer: 1 for `right`."""

    name = "right"
    blocking = False
    bills = False

    def __call__(self, task: Task, output: str) -> float:
        return float(output == "right")


right = Right()
