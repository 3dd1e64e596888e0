"""Decisions in a worker's turn: propose, close what is not worth a rollout, verify or skip, start the next turn."""

from __future__ import annotations

from typing import assert_never

from agentdescent import vector
from agentdescent.artifact.diff import change
from agentdescent.artifact.strategy import oversized
from agentdescent.budget.governor import alone, fits, reservation, spent_share
from agentdescent.budget.usage import NOTHING, add
from agentdescent.engine.asking import ask_rollout
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import (
    Decided,
    Decision,
    Judged,
    Skipped,
)
from agentdescent.engine.path import affords_turn, gate_cost, worker_path
from agentdescent.engine.state import State, Worker, version_of
from agentdescent.errors import IllegalEvent
from agentdescent.merge.card import Card
from agentdescent.merge.rejected import contains
from agentdescent.merge.verdict import FailureEvidence, VerifyEvidence


def advance(state: State, index: int) -> Decision | None:
    """What a worker in the middle of its turn does next; None when its next stage does not fit."""
    worker = vector.get(state.workers, index)
    match worker.stage:
        case "reroll":
            version = worker.copy or state.head.version
            return ask_rollout(state, "rollout", version, worker.task, attempt=worker.attempt, worker=index)
        case "rolled":
            return _propose(state, index, worker)
        case "proposed":
            return _verify(state, index, worker)
        case "verified":
            return _screen(worker)
        case "idle" | "rolling" | "proposing" | "verifying":
            return None
        case _:
            assert_never(worker.stage)


def _propose(state: State, index: int, worker: Worker) -> Decision | None:
    if worker.failure is not None:
        return Judged(worker.subject, "failed", (), worker.failure)
    if state.window.count and alone(state.governor, "propose"):
        return None
    tariff, version = state.setup.tariff, worker.copy or state.head.version
    size = version.size + state.setup.tasks[worker.task].size + min(worker.size, tariff.output_limit)
    reserve = reservation(state.governor, "propose", size)
    if not fits(state.governor, reserve):
        if worker.subject < 0 or state.window.count:
            return None
        return Judged(worker.subject, "failed", (), FailureEvidence("budget", "asking again does not fit the budget"))
    subject = state.next_subject if worker.subject < 0 else worker.subject
    command = Propose(
        state.next_command,
        version.artifact,
        worker.rollout,
        worker.task,
        subject,
        worker.score,
        tariff.propose.ceiling,
        reserve,
    )
    return Decided(command, state.round, index, subject, worker.attempt)


def _verify(state: State, index: int, worker: Worker) -> Decision | None:
    """Close what is not worth a rollout, else verify it or say why not."""
    card, version = worker.card, worker.copy or state.head.version
    if card is None:
        raise IllegalEvent(f"worker {index} has no proposal to verify")
    if worker.subject >= 0:  # not yet a card
        if not card.ops:
            return Judged(card.subject, "declined")
        if oversized(state.spec.strategy, card.ops):
            return Judged(card.subject, "oversized")
        if version_of(state.spec, version.number, change(version.entries, card.ops)).artifact == version.artifact:
            return Judged(card.subject, "declined")
        if _duplicate(state, card):
            return Judged(card.subject, "duplicate")
    if not state.spec.self_verify:
        return Skipped("verify", card.subject, "off")
    if spent_share(state.governor) >= state.spec.hard_floor:
        return Skipped("verify", card.subject, "clock")
    changed = version_of(state.spec, version.number, change(version.entries, card.ops))
    event = ask_rollout(state, "verify", changed, card.task, attempt=worker.attempt, worker=index, subject=card.subject)
    if event is None:
        return Skipped("verify", card.subject, "unaffordable")
    needed = add(event.command.reserve, gate_cost(state, state.head.version.size))
    return event if affords_turn(state, needed) else Skipped("verify", card.subject, "unaffordable")


def _duplicate(state: State, card: Card) -> bool:
    """Equal to an open card, already in the head, or already rejected against it."""
    head = state.head
    return (
        any(card.identity == other.identity for other in state.cards)
        or contains(head.rejected, card.identity)
        or (card.version != head.version.number and change(head.version.entries, card.ops) == head.version.entries)
    )


def _screen(worker: Worker) -> Decision | None:
    card = worker.card
    if card is None or card.delta is None:
        return None
    return Judged(card.subject, "not-worth-gating", (), VerifyEvidence(card.delta))


def start_turn(state: State, first: int, number: int) -> Decided | None:
    """The next worker from `first` on whose whole path fits starts its turn in round `number`: one that is idle, or
    whose turn cannot go on, because its proposal (never asked for) or, in an earlier round, its rollout does not fit.
    """
    # With nothing open, what was expected of turns that cannot go on will not come.
    expected = state.expected if state.window.count else NOTHING
    for index in range(first, state.spec.n_workers):
        worker = vector.get(state.workers, index)
        stuck = (worker.stage == "rolled" and worker.subject < 0) or (
            worker.stage == "reroll" and number != state.round
        )
        if not (worker.stage == "idle" or stuck):
            continue
        task, version, reserve, path = worker_path(state, index, number)
        if fits(state.governor, add(path, expected)):
            ceiling = state.setup.tariff.solve.ceiling
            command = Rollout(state.next_command, "rollout", version.artifact, task, ceiling, reserve)
            return Decided(command, number, index)
    return None
