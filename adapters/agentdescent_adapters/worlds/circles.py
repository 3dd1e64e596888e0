"""The world *circles*: 26 circles in the unit square, as large as they can be together; sum of radii / 2.635.

The artifact has a line for every centre. The radii follow from the centres: each is first half the distance to the
nearest other centre, or the distance to the wall if that is less; then each in turn grows to what the others leave. A
task is one circle, scored by its radius over 1/2, the largest there is: the mean over the 26 held-out tasks is the sum
of radii / 13. Nothing is noisy, so a bar of 1/2 for ever is right: use acceptance=Paired(half_life=1e9).

A proposal for a circle is one of five scripted mutations: *jitter* (it and its two nearest neighbours move by about
0.02), *move* (it moves by about 0.1), *teleport* (to anywhere), *cosmetic* (a note, which changes nothing) and
*destructive* (six circles to anywhere). Self-verify sees the one circle, and not what the others lost.
"""

from __future__ import annotations

import math
import re
from typing import TypeAlias

from agentdescent.artifact.strategy import KeyedRules
from agentdescent.engine.draw import seeded
from agentdescent.ports import Task
from agentdescent_adapters.worlds.calls import MILLION, Latency, WorldAgent, number

CIRCLES = 26
BEST_KNOWN = 2.635
LARGEST = 0.5
MUTATIONS = (("jitter", 0.4), ("move", 0.25), ("teleport", 0.15), ("cosmetic", 0.1), ("destructive", 0.1))
"""And how likely each is."""

NAMES = tuple(f"c{circle:02}" for circle in range(CIRCLES))
STRATEGY = KeyedRules(NAMES, title="# Centres")
_CENTRE = re.compile(r"^## c(\d\d)\n(\S+) (\S+)$", re.M)
_MARGIN = 0.01
Point: TypeAlias = tuple[float, float]


def circle_start(seed: int) -> tuple[tuple[str, str], ...]:
    """The start artifact: centres anywhere."""
    draw = seeded(seed)
    return tuple((name, _text((draw("x", circle), draw("y", circle)))) for circle, name in enumerate(NAMES))


def circle_tasks(copies: int = 10) -> list[Task]:
    """The held-out circles first, then train tasks, `copies` of each."""
    tasks = [Task(f"held-{name}", f"circle {name}", {"cluster": name}) for name in NAMES]
    return tasks + [
        Task(f"train-{copy}-{name}", f"circle {name}", {"cluster": name}) for copy in range(copies) for name in NAMES
    ]


def radii(centres: list[Point]) -> list[float]:
    """A maximal set of radii for these centres: no circle can grow alone."""
    apart = [[math.dist(a, b) for b in centres] for a in centres]
    wall = [min(x, y, 1.0 - x, 1.0 - y) for x, y in centres]
    size = [min(wall[i], min(d for j, d in enumerate(row) if j != i) / 2) for i, row in enumerate(apart)]
    for i, row in enumerate(apart):
        size[i] = min(wall[i], min(d - size[j] for j, d in enumerate(row) if j != i))
    return size


class CircleAgent(WorldAgent):
    """Its output is its score in millionths."""

    def __init__(self, seed: int, tasks: list[Task], latency: Latency | None = None) -> None:
        super().__init__(f"circles {seed}", seed, tasks[:CIRCLES], latency)
        self._last: tuple[str, tuple[int, ...]] = "", ()

    def quality(self, rendered: str) -> float:
        return sum(self.true_scores(rendered)) / MILLION * LARGEST / BEST_KNOWN

    def true_scores(self, rendered: str) -> tuple[int, ...]:
        if self._last[0] != rendered:
            scores = tuple(max(0, math.floor(r / LARGEST * MILLION)) for r in radii(_centres(rendered)))
            self._last = rendered, scores
        return self._last[1]

    def output(self, rendered: str, task: Task) -> str:
        return str(self.true_scores(rendered)[_circle(task)])

    def reply(self, rendered: str, task: Task, sample: int) -> str | None:
        key, own, centres = number(rendered, task.id, sample), _circle(task), _centres(rendered)
        kind = self._kind(key)
        if kind == "cosmetic":
            return f"note {key % 10**9}"
        moved = {own: centres[own]}
        if kind == "jitter":
            near = sorted(range(CIRCLES), key=lambda i: (math.dist(centres[i], centres[own]), i))
            moved = {i: self._near(centres[i], 0.02, key, i) for i in (own, *[i for i in near if i != own][:2])}
        elif kind == "move":
            moved = {own: self._near(centres[own], 0.1, key, own)}
        else:
            others = [(own + step) % CIRCLES for step in range(6 if kind == "destructive" else 1)]
            moved = {i: (self._draw(f"x-{i}", key), self._draw(f"y-{i}", key)) for i in others}
        return "\n".join(f"{NAMES[i]}: {_text(point)}" for i, point in moved.items())

    def _kind(self, key: int) -> str:
        left = self._draw("mutation", key)
        for kind, share in MUTATIONS:
            if left < share:
                return kind
            left -= share
        return MUTATIONS[-1][0]

    def _near(self, point: Point, distance: float, key: int, circle: int) -> Point:
        u = max(self._draw(f"far-{circle}", key), 2.0**-53)
        far, angle = distance * math.sqrt(-2 * math.log(u)), 2 * math.pi * self._draw(f"angle-{circle}", key)
        return point[0] + far * math.cos(angle), point[1] + far * math.sin(angle)


def _circle(task: Task) -> int:
    return int(task.id[-2:])


def _text(point: Point) -> str:
    x, y = (min(1.0 - _MARGIN, max(_MARGIN, value)) for value in point)
    return f"{x:.4f} {y:.4f}"


def _centres(rendered: str) -> list[Point]:
    return [(float(x), float(y)) for _, x, y in sorted(_CENTRE.findall(rendered))]
