"""The world *k-module*: an artifact of 6 slots with 5 values each, of which one is right; fusion crosses over.

A task is a pair of slots, scored by the share of them that hold the right value: 0, 1/2 or 1. The 12 held-out pairs
(i, i+1) and (i, i+2), modulo 6, hold every slot four times, so that their mean is the share of correct slots. Train
tasks are the same pairs many times over; the cluster of a task is the first slot of its pair.

A proposal for a pair changes 1 to 3 slots, each number as likely: one of the pair (with probability 0.8 one that is
wrong, if there is any), the others anywhere. A slot gets one of the four other values: a wrong one becomes right with
probability 1/4, a right one becomes wrong. Self-verify sees the pair alone, not what else was changed. Costs are those
of the world *clusters*. All six slots may be right in the end.
"""

from __future__ import annotations

import re

from agentdescent.artifact.strategy import KeyedRules
from agentdescent.engine.draw import seeded
from agentdescent.ports import Task
from agentdescent_adapters.worlds.calls import MILLION, Latency, WorldAgent, number

SLOTS = 6
VALUES = 5
AT_FAULT = 0.8
HELDOUT = 2 * SLOTS
SLOT_NAMES = tuple(f"slot-{slot}" for slot in range(SLOTS))
STRATEGY = KeyedRules(SLOT_NAMES, title="# Modules")
_SLOT = re.compile(r"^## slot-(\d)\n(\d)$", re.M)


def slot_start(seed: int) -> tuple[tuple[str, str], ...]:
    """The start artifact: a value a slot, right with probability 1/5."""
    draw = seeded(seed)
    return tuple((name, str(int(draw("start", slot) * VALUES))) for slot, name in enumerate(SLOT_NAMES))


def slot_tasks(copies: int = 20) -> list[Task]:
    """The held-out pairs first, then train tasks, `copies` of each pair."""
    pairs = [(slot, (slot + step) % SLOTS) for step in (1, 2) for slot in range(SLOTS)]
    tasks = [_task("held", pair, 0) for pair in pairs]
    return tasks + [_task("train", pair, copy) for copy in range(copies) for pair in pairs]


def _task(part: str, pair: tuple[int, int], copy: int) -> Task:
    a, b = pair
    return Task(f"{part}-{copy}-{a}{b}", f"slots {a} and {b}", {"cluster": str(a)})


def pair_of(task: Task) -> tuple[int, int]:
    return int(task.id[-2]), int(task.id[-1])


class SlotAgent(WorldAgent):
    """Its output is its score in millionths."""

    def __init__(self, seed: int, tasks: list[Task], latency: Latency | None = None) -> None:
        super().__init__(f"k-module {seed}", seed, tasks[:HELDOUT], latency)
        self._right = [int(self._draw("right", slot) * VALUES) for slot in range(SLOTS)]

    def _correct(self, rendered: str) -> list[bool]:
        held = {int(slot): int(value) for slot, value in _SLOT.findall(rendered)}
        return [held.get(slot) == right for slot, right in enumerate(self._right)]

    def true_scores(self, rendered: str) -> tuple[int, ...]:
        correct = self._correct(rendered)
        return tuple(_score(correct, task) for task in self.heldout)

    def output(self, rendered: str, task: Task) -> str:
        return str(_score(self._correct(rendered), task))

    def reply(self, rendered: str, task: Task, sample: int) -> str | None:
        key, draw = number(rendered, task.id, sample), self._draw
        correct, pair = self._correct(rendered), pair_of(task)
        wrong = [slot for slot in pair if not correct[slot]]
        among = wrong if wrong and draw("at-fault", key) < AT_FAULT else pair
        chosen = [among[int(draw("first", key) * len(among))]]
        for turn in range(int(draw("changes", key) * 3)):
            others = [slot for slot in range(SLOTS) if slot not in chosen]
            chosen.append(others[int(draw(f"other-{turn}", key) * len(others))])
        held = {int(slot): int(value) for slot, value in _SLOT.findall(rendered)}
        lines = []
        for slot in chosen:
            step = 1 + int(draw(f"value-{slot}", key) * (VALUES - 1))
            lines.append(f"{SLOT_NAMES[slot]}: {(held.get(slot, 0) + step) % VALUES}")
        return "\n".join(lines)


def _score(correct: list[bool], task: Task) -> int:
    a, b = pair_of(task)
    return (correct[a] + correct[b]) * MILLION // 2
