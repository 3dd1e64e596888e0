"""Facts of a worker's turn: a rollout on a train task, a proposal, its self-verify. What comes of it is a card."""

from __future__ import annotations

from agentdescent import vector
from agentdescent.allocation.choice import Choice
from agentdescent.artifact.diff import identity
from agentdescent.budget.governor import reserve
from agentdescent.budget.usage import NOTHING, add, subtract
from agentdescent.engine.allotting import recorded
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.economy import round_ended
from agentdescent.engine.event import (
    Decided,
    Proposed,
    RolledOut,
    Skipped,
)
from agentdescent.engine.flow import turn_began, turn_ended
from agentdescent.engine.path import propose_estimate
from agentdescent.engine.population import picked, train_scored
from agentdescent.engine.retirement import in_vain, put_worker, retire, tried
from agentdescent.engine.state import RETIRE_AFTER, Stage, State, Worker, quiet_merges
from agentdescent.engine.tasking import task_taken, task_tried
from agentdescent.engine.width import card_waits
from agentdescent.errors import IllegalEvent
from agentdescent.merge.card import Card
from agentdescent.merge.sweep import open_cards
from agentdescent.merge.verdict import FailureEvidence
from agentdescent.record import replace
from agentdescent.search.advantage import observe as compare


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
    if state.population.members:
        state, copy = picked(state, command.artifact)
    elif command.artifact == head.artifact:
        copy = head
    elif worker.copy is not None and worker.copy.artifact == command.artifact:
        copy = worker.copy
    else:
        raise IllegalEvent(f"worker {index} has no artifact {command.artifact}")
    if event.round != state.round:
        state = _new_round(round_ended(state), event.round)
    flow = state.flow
    if state.spec.schedule == "continuous":
        flow = turn_began(flow, index)
    path = propose_estimate(state, copy, command.task)
    turn = Worker(
        stage="rolling",
        turns=worker.turns + 1,
        copy=copy,
        task=command.task,
        path=path,
        in_vain=worker.in_vain,
    )
    state = replace(
        state,
        governor=governor,
        workers=put_worker(state, index, turn),
        ready=_not_ready(state, index) if state.ready else (),
        cursor=index + 1,
        flow=flow,
        expected=add(subtract(state.expected, worker.path), path),
    )
    return task_taken(state, command.task)


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
    if sweep is None or state.spec.schedule == "continuous":
        return state
    return replace(state, sweep=None, cards=(*open_cards(sweep), *state.cards), quiet=quiet_merges(state))


def decided_propose(state: State, event: Decided, command: Propose) -> State:
    index = event.worker
    worker = vector.get(state.workers, index)
    asking = replace(
        worker,
        stage="proposing",
        subject=command.subject,
        attempt=event.attempt,
        path=NOTHING,
        failure=None,
        asked=worker.asked + (worker.subject < 0),
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
    worker = _chose(vector.get(state.workers, index), event.choice)
    state = recorded(state, event.choice)
    state = replace(
        state,
        governor=reserve(state.governor, command.reserve),
        workers=put_worker(state, index, replace(worker, stage="verifying", subject=-1, attempt=event.attempt)),
        ready=_not_ready(state, index),
    )
    return _with_card(state, worker.card, verifying=True)


def _with_card(state: State, card: Card | None, *, verifying: bool) -> State:
    """The proposal is a card from here on, or was one and is asked about again."""
    if card is None:
        raise IllegalEvent("no proposal is waiting here")
    card = replace(card, verifying=verifying)
    if any(other.subject == card.subject for other in state.cards):
        return _replace_card(state, card)
    return replace(state, cards=(*state.cards, card))


def _replace_card(state: State, card: Card) -> State:
    return replace(state, cards=tuple(card if other.subject == card.subject else other for other in state.cards))


def _chose(worker: Worker, choice: Choice | None) -> Worker:
    if choice is None or worker.card is None:
        return worker
    return replace(worker, card=replace(worker.card, choices=(*worker.card.choices, choice)))


def skipped(state: State, event: Skipped) -> State:
    index, worker = _worker_of(state, event.subject)
    worker = _chose(worker, event.choice)
    state = recorded(state, event.choice)
    state = replace(
        state,
        workers=put_worker(state, index, replace(worker, stage="idle", subject=-1, card=None)),
        ready=_not_ready(state, index),
    )
    return _with_card(_lane_free(state, index, brought=worker.card), worker.card, verifying=False)


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
        health = replace(health, proposals_failed=health.proposals_failed + 1, refused=health.refused + 1)
    return replace(state, workers=put_worker(state, index, again), ready=(*state.ready, index), health=health)


def turn_over(state: State, index: int, worker: Worker, *, brought: bool = False) -> State:
    """The turn in this lane is done; what it proposed, if anything, is a card (`brought`) or closed."""
    expected = state.expected if worker.path == NOTHING else subtract(state.expected, worker.path)
    stage: Stage = "idle" if in_vain(state, index) < RETIRE_AFTER else "retired"
    rested = replace(worker, stage=stage, path=NOTHING, subject=-1, card=None, failure=None)
    state = replace(state, workers=put_worker(state, index, rested), ready=_not_ready(state, index), expected=expected)
    return _lane_free(state, index, brought=worker.card if brought else None)


def sample_again(state: State, index: int, worker: Worker) -> State:
    """The proposal in this lane is closed, and its rollout leads to another one."""
    again = replace(worker, stage="rolled", subject=-1, attempt=0, card=None, failure=None, tokens=0)
    return replace(state, workers=put_worker(state, index, again))


def _lane_free(state: State, index: int, *, brought: Card | None) -> State:
    if brought is not None:
        state = card_waits(state, brought)
    if state.spec.schedule == "rounds":
        return state
    retired = vector.get(state.workers, index).stage == "retired"
    return replace(state, flow=turn_ended(state.flow, index, brought=brought is not None, retired=retired))


def rollout_given_up(state: State, index: int) -> State:
    """The turn ends without a rollout; a worker for which none has ever worked gives up in the end, in all lanes."""
    before = in_vain(state, index)
    if before >= 0:
        state = tried(state, index, before + 1)
    if before + 1 == RETIRE_AFTER:
        state = retire(state, index % state.spec.n_workers)
    return turn_over(state, index, vector.get(state.workers, index))


def verify_given_up(state: State, index: int, worker: Worker) -> State:
    """The self-verify cannot be had: the card goes on without it."""
    if worker.card is not None:
        state = _replace_card(state, replace(worker.card, verifying=False))
    return turn_over(state, index, worker, brought=True)


def proposed(state: State, event: Proposed, index: int) -> State:
    worker = vector.get(state.workers, index)
    version = worker.copy or state.head.version
    card = Card(
        worker.subject, index, worker.task, worker.rollout, version.number, event.ops, identity(event.ops), worker.score
    )
    if worker.advantage is not None or worker.tokens:
        card = replace(card, advantage=worker.advantage, tokens=worker.tokens)
    ready = replace(worker, stage="proposed", attempt=0, card=card)
    if state.health.refused:
        state = replace(state, health=replace(state.health, refused=0))
    return replace(state, workers=put_worker(state, index, ready), ready=(*state.ready, index))


def turn_scored(state: State, event: RolledOut, index: int, command: Rollout, bar: int) -> State:
    worker = vector.get(state.workers, index)
    state = train_scored(state, worker.copy or state.head.version, state.position[command.task], event.score)
    if in_vain(state, index) >= 0:
        state = tried(state, index, -1)
        worker = vector.get(state.workers, index)
    state = task_tried(state, command.task, event.score)
    compared: float | None = None
    if state.spec.allocator is not None:
        version = state.head.version.number if worker.copy is None else worker.copy.number
        groups, compared = compare(state.groups, version, state.setup.tasks[command.task].cluster, event.score)
        state = replace(state, groups=groups)
    if event.score >= bar:
        return turn_over(state, index, worker)
    rolled = replace(
        worker,
        stage="rolled",
        rollout=event.id,
        score=event.score,
        size=event.size,
        attempt=0,
        advantage=compared,
    )
    return replace(state, workers=put_worker(state, index, rolled), ready=(*state.ready, index))


def verified(state: State, event: RolledOut, index: int) -> State:
    worker = vector.get(state.workers, index)
    card = worker.card
    if card is None:
        raise IllegalEvent(f"worker {index} verified nothing")
    card = replace(card, delta=event.score - card.before, verifying=False)
    if not state.spec.screen or event.score > card.before:
        return turn_over(_replace_card(state, card), index, worker, brought=True)
    screened = replace(worker, stage="verified", card=card)
    return replace(state, workers=put_worker(state, index, screened), ready=(*state.ready, index))
