"""What a run costs that knows the outcome of every gate beforehand: the clairvoyant of a world.

It pays for the start, for a rollout and a proposal each time, and for a whole gate only where the change truly scores
more than the head; then it commits. One candidate a gate, no self-verify, no noise, and no call of it ever fails. Its
calls cost what the same calls cost any other run of that world and seed.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from agentdescent.artifact.diff import change
from agentdescent.artifact.strategy import oversized, parse, render
from agentdescent.engine.draw import seeded
from agentdescent.ports import Task
from agentdescent_adapters.worlds.calls import MILLION
from agentdescent_adapters.worlds.suite import Setting

SOLVED = 0.999


class Known(msgspec.Struct, frozen=True):
    """`path`: after the start and after each commit, the tokens spent and the quality. `tokens` in all."""

    path: tuple[tuple[int, float], ...]
    tokens: int
    proposals: int


class Stakeholders:
    """Train tasks by cluster, drawn by the law of the worlds: a cluster in proportion to its train tasks times the
    share of its held-out score that is missing, then a task of it."""

    def __init__(self, setting: Setting) -> None:
        heldout = {task.id for task in setting.agent.heldout}
        self.clusters = [task.cluster for task in setting.agent.heldout]
        self.size = Counter(self.clusters)
        self.train: dict[str, list[Task]] = {}
        for task in setting.tasks:
            if task.id not in heldout and task.cluster in self.size:
                self.train.setdefault(task.cluster, []).append(task)

    def draw(self, scores: tuple[int, ...], u: float, v: float) -> Task | None:
        """None where nothing is missing."""
        missing = dict.fromkeys(self.train, 0)
        for cluster, score in zip(self.clusters, scores, strict=True):
            if cluster in missing:
                missing[cluster] += MILLION - score
        weights = {cluster: len(self.train[cluster]) * lacks / self.size[cluster] for cluster, lacks in missing.items()}
        left, chosen = u * sum(weights.values()), ""
        for cluster, weight in weights.items():
            if weight > 0:
                chosen = cluster
                if left < weight:
                    break
                left -= weight
        return self.train[chosen][int(v * len(self.train[chosen]))] if chosen else None


def clairvoyant(setting: Setting, seed: int, cap: int, until: float = 1.0) -> Known:
    """Up to `cap` tokens, to the quality `until`, or until nothing is missing. `seed`: of its choice of tasks."""
    agent, strategy, draw = setting.agent, setting.strategy, seeded(seed)
    stakes, entries = Stakeholders(setting), setting.start
    rendered = render(strategy, entries)
    scores = agent.true_scores(rendered)
    spent = sum(agent.solve_tokens(rendered, task) for task in agent.heldout)
    path = [(spent, agent.quality(rendered))]
    turn = proposals = 0
    while spent < cap and path[-1][1] < until:
        task = stakes.draw(scores, draw("clairvoyant-cluster", turn), draw("clairvoyant-task", turn))
        if task is None:
            break
        turn += 1
        spent += agent.solve_tokens(rendered, task)
        if setting.scorer(task, agent.output(rendered, task)) >= SOLVED:
            continue
        spent += agent.propose_tokens(rendered, task, turn)
        ops = parse(strategy, entries, agent.reply(rendered, task, turn))
        proposals += 1
        after = change(entries, ops)
        text = render(strategy, after)
        gained = agent.true_scores(text)
        if oversized(strategy, ops) or sum(gained) <= sum(scores):
            continue
        spent += sum(agent.solve_tokens(text, one) for one in agent.heldout)
        entries, rendered, scores = after, text, gained
        path.append((spent, agent.quality(text)))
    return Known(tuple(path), spent, proposals)
