"""Which train task the next turn takes: in turn, by difficulty, or where most is to be won."""

from __future__ import annotations

from typing import assert_never

from agentdescent import vector
from agentdescent.engine.clusters import unsolved
from agentdescent.engine.draw import Draw
from agentdescent.engine.flow import lanes
from agentdescent.engine.path import next_task
from agentdescent.engine.state import State
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.scores import score_at
from agentdescent.merge.sweep import open_cards
from agentdescent.record import replace
from agentdescent.search import sampling
from agentdescent.search.candidate import weighted
from agentdescent.search.sampling import DifficultyWeighted, RoundRobin, Stakes, Tally


def turn_task(state: State, lane: int, draw: Draw) -> int:
    """The index of the task that the next turn in this lane takes."""
    worker, policy, n = vector.get(state.workers, lane), state.spec.sampling, lanes(state.spec)
    key = worker.turns * n + lane
    match policy:
        case RoundRobin():
            return next_task(state, lane, worker)
        case DifficultyWeighted():
            train = state.split.train
            shard = sampling.shard(len(train), lane, n) if lane < len(train) else range(len(train))
            tallies = tuple([vector.get(state.tallies, position) for position in shard])
            return train[shard[sampling.next_task(policy, tallies, worker.turns, key, draw)]]
        case Stakes():
            weights = cluster_weights(state)
            if not any(weights):
                return next_task(state, lane, worker)
            return _in_turn(state, weighted(weights, draw("task", key)))
        case _:
            assert_never(policy)


def cluster_weights(state: State) -> list[float]:
    """In proportion to which clusters the next turn is for: by stakes, with that sampler; else by what is unsolved."""
    clusters, policy = state.clusters, state.spec.sampling
    left = unsolved(clusters, state.head.scores)
    shares = [mass / (MILLION * max(1, len(part))) for mass, part in zip(left, clusters.heldout, strict=True)]
    train = [len(part) for part in clusters.train]
    pending = policy.pending if isinstance(policy, Stakes) else 0.0
    return sampling.stakes(pending, train, shares, waiting(state) if pending else [0] * len(train))


def waiting(state: State) -> list[int]:
    """Proposals that wait for merge or are in it, by cluster."""
    counts = [0] * len(state.clusters.train)
    merging = () if state.sweep is None else open_cards(state.sweep)
    for card in (*state.cards, *merging):
        if not card.verifying:
            counts[state.clusters.of[card.task]] += 1
    return counts


def _in_turn(state: State, cluster: int) -> int:
    """The next task of a cluster that the head is not known to solve; the next one when it solves them all."""
    tasks, taken = state.clusters.train[cluster], state.taken[cluster]
    for n in range(len(tasks)):
        task = tasks[(taken + n) % len(tasks)]
        if score_at(state.head.train, state.position[task]) < state.solved_at:
            return task
    return tasks[taken % len(tasks)]


def task_taken(state: State, task: int) -> State:
    """A turn on this task begins."""
    if not isinstance(state.spec.sampling, Stakes):
        return state
    cluster = state.clusters.of[task]
    after = state.clusters.train[cluster].index(task) + 1
    return replace(state, taken=(*state.taken[:cluster], after, *state.taken[cluster + 1 :]))


def task_tried(state: State, task: int, score: int) -> State:
    """A worker's rollout on this task is scored."""
    if not isinstance(state.spec.sampling, DifficultyWeighted):
        return state
    position = state.position[task]
    tally = vector.get(state.tallies, position)
    tally = Tally(tally.seen + 1, tally.solved + (score >= state.solved_at))
    return replace(state, tallies=vector.put(state.tallies, position, tally))
