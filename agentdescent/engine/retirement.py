"""Workers that give up: one for which no rollout has ever worked starts no more after RETIRE_AFTER in vain."""

from __future__ import annotations

from agentdescent import vector
from agentdescent.engine.state import State, Worker
from agentdescent.record import replace


def put_worker(state: State, index: int, worker: Worker) -> vector.Vector[Worker]:
    return vector.put(state.workers, index, worker)


def in_vain(state: State, index: int) -> int:
    """Of the worker whose lane this is: kept in its first lane."""
    return vector.get(state.workers, index % state.spec.n_workers).in_vain


def tried(state: State, index: int, in_vain: int) -> State:
    home = index % state.spec.n_workers
    worker = vector.get(state.workers, home)
    return (
        state
        if worker.in_vain == in_vain
        else replace(state, workers=put_worker(state, home, replace(worker, in_vain=in_vain)))
    )


def retire(state: State, home: int) -> State:
    """The lanes that are idle now; the others follow when their turns are over."""
    n, flow, workers = state.spec.n_workers, state.flow, state.workers
    gone = tuple(lane for lane in flow.idle if lane % n == home)
    for lane in gone:
        workers = vector.put(workers, lane, replace(vector.get(workers, lane), stage="retired"))
    left = tuple(lane for lane in flow.idle if lane % n != home)
    return replace(
        state,
        workers=workers,
        flow=replace(flow, idle=left, retired=flow.retired + len(gone)),
        health=replace(state.health, retired=state.health.retired + 1),
    )


def revived(state: State) -> State:
    """Workers that gave up may try again."""
    workers, flow = tuple(vector.items(state.workers)), state.flow
    back = tuple(index for index, worker in enumerate(workers) if worker.stage == "retired")
    if flow.retired:
        flow = replace(flow, idle=(*flow.idle, *back), retired=0)
    return replace(
        state,
        health=replace(state.health, retired=0),
        flow=flow,
        workers=vector.pack(
            replace(w, stage="idle" if w.stage == "retired" else w.stage, in_vain=min(w.in_vain, 0)) for w in workers
        ),
    )
