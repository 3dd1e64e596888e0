"""Facts of a worker's turn: a rollout on a train task, a proposal, its self-verify. What comes of it is a card."""

from __future__ import annotations

from agentdescent import vector
from agentdescent.artifact.diff import identity
from agentdescent.budget.governor import reserve
from agentdescent.budget.usage import NOTHING, add, subtract
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import (
    Decided,
    Proposed,
    RolledOut,
    Skipped,
)
from agentdescent.engine.path import propose_estimate
from agentdescent.engine.state import State, Worker
from agentdescent.errors import IllegalEvent
from agentdescent.merge.card import Card
from agentdescent.merge.scores import record
from agentdescent.merge.sweep import open_cards
from agentdescent.merge.verdict import FailureEvidence
from agentdescent.record import replace


def put_worker(state: State, index: int, worker: Worker) -> vector.Vector[Worker]:
    return vector.put(state.workers, index, worker)


def _not_ready(state: State, index: int) -> tuple[int, ...]:
    ready = state.ready
    if ready and ready[0] == index:
        return ready[1:]
    return tuple(other for other in ready if other != index)


def decided_turn(state: State, event: Decided, command: Rollout) -> State:
    index = event.worker
    worker = vector.get(state.workers, index)
    governor = reserve(state.governor, command.reserve)
    if event.attempt or (worker.stage == "reroll" and event.round == state.round):
        again = replace(worker, stage="rolling", attempt=event.attempt)
        return replace(
            state, governor=governor, workers=put_worker(state, index, again), ready=_not_ready(state, index)
        )
    head = state.head.version
    if command.artifact == head.artifact:
        copy = head
    elif worker.copy is not None and worker.copy.artifact == command.artifact:
        copy = worker.copy
    else:
        raise IllegalEvent(f"worker {index} has no artifact {command.artifact}")
    if event.round != state.round:
        state = _new_round(state, event.round)
    path = propose_estimate(state, copy, command.task)
    turn = Worker(
        stage="rolling",
        turns=worker.turns + 1,
        copy=copy,
        task=command.task,
        path=path,
    )
    return replace(
        state,
        governor=governor,
        workers=put_worker(state, index, turn),
        ready=_not_ready(state, index) if state.ready else (),
        cursor=index + 1,
        expected=add(subtract(state.expected, worker.path), path),
    )


def _new_round(state: State, number: int) -> State:
    sweep, health = state.sweep, state.health
    barren = health.barren_rounds
    if health.proposals:
        barren = barren + 1 if health.proposals == health.proposals_failed else 0
    state = replace(
        state,
        round=number,
        health=replace(health, proposals=0, proposals_failed=0, barren_rounds=barren),
    )
    if sweep is None:
        return state
    quiet = 0 if sweep.committed else state.quiet + 1
    return replace(state, sweep=None, cards=(*open_cards(sweep), *state.cards), quiet=quiet)


def decided_propose(state: State, event: Decided, command: Propose) -> State:
    index = event.worker
    worker = vector.get(state.workers, index)
    asking = replace(
        worker, stage="proposing", subject=command.subject, attempt=event.attempt, path=NOTHING, failure=None
    )
    health = state.health
    return replace(
        state,
        governor=reserve(state.governor, command.reserve),
        workers=put_worker(state, index, asking),
        ready=_not_ready(state, index),
        expected=subtract(state.expected, worker.path),
        next_subject=max(state.next_subject, command.subject + 1),
        health=replace(health, proposals=health.proposals + 1),
    )


def decided_verify(state: State, event: Decided, command: Rollout) -> State:
    index = event.worker
    worker = vector.get(state.workers, index)
    state = replace(
        state,
        governor=reserve(state.governor, command.reserve),
        workers=put_worker(state, index, replace(worker, stage="verifying", subject=-1, attempt=event.attempt)),
        ready=_not_ready(state, index),
    )
    return _with_card(state, worker.card)


def _with_card(state: State, card: Card | None) -> State:
    if card is None:
        raise IllegalEvent("no proposal is waiting here")
    if any(other.subject == card.subject for other in state.cards):
        return state
    return replace(state, cards=(*state.cards, card))


def skipped(state: State, event: Skipped) -> State:
    index, worker = _worker_of(state, event.subject)
    state = replace(
        state,
        workers=put_worker(state, index, replace(worker, stage="idle", subject=-1, card=None)),
        ready=_not_ready(state, index),
    )
    return _with_card(state, worker.card)


def _worker_of(state: State, subject: int) -> tuple[int, Worker]:
    """The worker that is ready with this proposal."""
    for index in state.ready:
        worker = vector.get(state.workers, index)
        if worker.subject == subject or (worker.card is not None and worker.card.subject == subject):
            return index, worker
    raise IllegalEvent(f"no worker has proposal {subject}")


def propose_failed(state: State, index: int, attempt: int, why: FailureEvidence | None, *, counted: bool) -> State:
    worker = vector.get(state.workers, index)
    again = replace(worker, stage="rolled", attempt=attempt, failure=why)
    health = state.health
    if counted:
        health = replace(health, proposals_failed=health.proposals_failed + 1)
    return replace(state, workers=put_worker(state, index, again), ready=(*state.ready, index), health=health)


def turn_over(state: State, index: int, worker: Worker) -> State:
    """The worker is done with its turn; what it proposed, if anything, is a card or closed."""
    expected = state.expected if worker.path == NOTHING else subtract(state.expected, worker.path)
    idle_worker = replace(worker, stage="idle", path=NOTHING, subject=-1, card=None, failure=None)
    return replace(
        state, workers=put_worker(state, index, idle_worker), ready=_not_ready(state, index), expected=expected
    )


def proposed(state: State, event: Proposed, index: int) -> State:
    worker = vector.get(state.workers, index)
    version = worker.copy or state.head.version
    card = Card(
        worker.subject, index, worker.task, worker.rollout, version.number, event.ops, identity(event.ops), worker.score
    )
    ready = replace(worker, stage="proposed", attempt=0, card=card)
    return replace(state, workers=put_worker(state, index, ready), ready=(*state.ready, index))


def turn_scored(state: State, event: RolledOut, index: int, command: Rollout, bar: int) -> State:
    worker = vector.get(state.workers, index)
    head = state.head
    if command.artifact == head.version.artifact:
        train = record(head.train, state.position[command.task], event.score, bar)
        state = replace(state, head=replace(head, train=train))
    if event.score >= bar:
        return turn_over(state, index, worker)
    rolled = replace(worker, stage="rolled", rollout=event.id, score=event.score, size=event.size, attempt=0)
    return replace(state, workers=put_worker(state, index, rolled), ready=(*state.ready, index))


def verified(state: State, event: RolledOut, index: int) -> State:
    worker = vector.get(state.workers, index)
    card = worker.card
    if card is None:
        raise IllegalEvent(f"worker {index} verified nothing")
    card = replace(card, delta=event.score - card.before)
    cards = tuple(card if other.subject == card.subject else other for other in state.cards)
    state = replace(state, cards=cards)
    if not state.spec.screen or event.score > card.before:
        return turn_over(state, index, worker)
    screened = replace(worker, stage="verified", card=card)
    return replace(state, workers=put_worker(state, index, screened), ready=(*state.ready, index))
