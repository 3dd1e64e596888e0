"""Decisions in a worker's turn: propose, close what is not worth a rollout, verify or skip, start the next turn."""

from __future__ import annotations

from typing import assert_never

from agentdescent import vector
from agentdescent.allocation.choice import Choice
from agentdescent.artifact.diff import change
from agentdescent.artifact.strategy import oversized
from agentdescent.budget.governor import alone, fits, spent_share
from agentdescent.budget.usage import NOTHING, add, scale
from agentdescent.engine.allotting import consult
from agentdescent.engine.asking import ask_rollout
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.draw import Draw
from agentdescent.engine.event import (
    Decided,
    Decision,
    Judged,
    Skipped,
)
from agentdescent.engine.flow import in_progress, next_round, within_bound
from agentdescent.engine.path import affords_turn, proposal_terms, verdict_cost, worker_path
from agentdescent.engine.population import held, live, pick, shortest
from agentdescent.engine.state import State, Version, Worker, version_of
from agentdescent.engine.tasking import turn_task
from agentdescent.errors import IllegalEvent
from agentdescent.merge.card import Card
from agentdescent.merge.rejected import contains
from agentdescent.merge.sweep import at_work, open_cards
from agentdescent.merge.verdict import FailureEvidence, VerifyEvidence
from agentdescent.record import replace
from agentdescent.search.sampling import RoundRobin


def advance(state: State, index: int, draw: Draw) -> Decision | None:
    """What a worker in the middle of its turn does next; None when its next stage does not fit."""
    worker = vector.get(state.workers, index)
    match worker.stage:
        case "reroll":
            version = worker.copy or state.head.version
            return ask_rollout(state, "rollout", version, worker.task, attempt=worker.attempt, worker=index)
        case "rolled":
            return _propose(state, index, worker)
        case "proposed":
            return _verify(state, index, worker, draw)
        case "verified":
            return _screen(worker)
        case "idle" | "rolling" | "proposing" | "verifying" | "retired":
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
    ceiling, reserve = proposal_terms(state, worker, size)
    if worker.asked and worker.subject < 0:  # nothing is earmarked for another proposal of this rollout
        if not affords_turn(state, add(reserve, verdict_cost(state, live(state, version.number).version))):
            return None
    elif not fits(state.governor, reserve):
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
        ceiling,
        reserve,
    )
    return Decided(command, state.round, index, subject, worker.attempt)


def _verify(state: State, index: int, worker: Worker, draw: Draw) -> Decision | None:
    """Close what is not worth a rollout, else verify it or say why not."""
    card, version = worker.card, worker.copy or state.head.version
    if card is None:
        raise IllegalEvent(f"worker {index} has no proposal to verify")
    if worker.subject >= 0:  # not yet a card
        if not card.ops:
            return Judged(card.subject, "declined")
        if oversized(state.spec.strategy, card.ops):
            return Judged(card.subject, "oversized")
        changed = version_of(state.spec, version.number, change(version.entries, card.ops))
        if changed.artifact == version.artifact:
            return Judged(card.subject, "declined")
        if _duplicate(state, card, changed):
            return Judged(card.subject, "duplicate")
    if not state.spec.self_verify:
        return Skipped("verify", card.subject, "off")
    if worker.subject < 0:  # it was asked before, and failed: what was chosen stands
        return _ask_verify(state, index, worker, card, version, None)
    clock = spent_share(state.governor) >= state.spec.hard_floor
    choice = consult(state, "verify", card, draw, allowed=not clock, rollouts=1)
    if clock:
        return Skipped("verify", card.subject, "clock", choice)
    if choice is not None and not choice.choice:
        return Skipped("verify", card.subject, "allocator", choice)
    return _ask_verify(state, index, worker, card, version, choice)


def _ask_verify(
    state: State, index: int, worker: Worker, card: Card, version: Version, choice: Choice | None
) -> Decision:
    changed = version_of(state.spec, version.number, change(version.entries, card.ops))
    event = ask_rollout(state, "verify", changed, card.task, attempt=worker.attempt, worker=index, subject=card.subject)
    if event is None:
        return Skipped("verify", card.subject, "unaffordable")
    needed = add(event.command.reserve, verdict_cost(state, live(state, version.number).version))
    if not affords_turn(state, needed):
        return Skipped("verify", card.subject, "unaffordable")
    return event if choice is None else replace(event, choice=choice)


def _duplicate(state: State, card: Card, changed: Version) -> bool:
    """Equal to an open card of its head, already in that head, or already rejected against it; or it leads to an
    artifact of the population."""
    head = live(state, card.version)
    merging = () if state.sweep is None else open_cards(state.sweep)
    number = head.version.number
    return (
        any(
            card.identity == other.identity and live(state, other.version).version.number == number
            for other in (*state.cards, *merging)
        )
        or contains(head.rejected, card.identity)
        or (card.version == head.version.number and held(state, changed.artifact))
        or (card.version != head.version.number and change(head.version.entries, card.ops) == head.version.entries)
    )


def _screen(worker: Worker) -> Decision | None:
    card = worker.card
    if card is None or card.delta is None:
        return None
    return Judged(card.subject, "not-worth-gating", (), VerifyEvidence(card.delta))


def start_turn(state: State, first: int, number: int, draw: Draw) -> Decided | None:
    """The next worker from `first` on whose whole path fits starts its turn in round `number`: one that is idle, or
    whose turn cannot go on, because its proposal (never asked for) or, in an earlier round, its rollout does not fit.
    """
    for index in range(first, state.spec.n_workers):
        worker = vector.get(state.workers, index)
        if worker.stage == "idle" or _stuck(worker) or (worker.stage == "reroll" and number != state.round):
            event = _turn(state, index, number, draw)
            if event is not None:
                return event
    return None


def _stuck(worker: Worker) -> bool:
    return worker.stage == "rolled" and worker.subject < 0


def start_lane(state: State, draw: Draw) -> Decided | None:
    """Continuous: a turn in the next idle lane, if the workers are not too far ahead and its whole path fits. With
    nothing open, in whichever lane it fits, also in one whose turn cannot go on."""
    spec, flow, window = state.spec, state.flow, state.window.count
    number = next_round(flow, spec)
    if window:
        if not flow.idle or (spec.admission == "ordered" and window >= spec.n_workers * spec.window):
            return None
        unmerged = len(state.cards) + at_work(state.sweep)
        return _turn(state, flow.idle[0], number, draw) if within_bound(flow, spec, unmerged) else None
    limit = state.governor.caps.rounds
    for index in flow.idle:
        event = _turn(state, index, number, draw)
        if event is not None:
            return event
    for index, worker in enumerate(vector.items(state.workers)):
        # In a lane that waits to ask for its rollout again only another round tells a new turn from that.
        new = max(number, state.round + 1) if worker.stage == "reroll" else number
        if (_stuck(worker) or worker.stage == "reroll") and (limit is None or new <= limit):
            event = _turn(state, index, new, draw)
            if event is not None:
                return event
    return None


def _turn(state: State, index: int, number: int, draw: Draw) -> Decided | None:
    """On the task that the sampler chooses, from the head or from what is picked of a population. Where that does not
    fit, on the next task of the shard; and with nothing open, from the shortest of the population."""
    task = turn_task(state, index, draw)
    start = pick(state, _turns(state, index, number), draw) if state.population.members else None
    event = _turn_from(state, index, number, task, start)
    if event is None and not isinstance(state.spec.sampling, RoundRobin):
        event = _turn_from(state, index, number, None, start)
    if event is not None or start is None or state.window.count:
        return event
    return _turn_from(state, index, number, None, shortest(state))


def _turns(state: State, index: int, number: int) -> int:
    """The number of this turn, which no other has."""
    if state.spec.schedule == "rounds":
        return number * state.spec.n_workers + index
    return state.flow.ended + in_progress(state.flow, state.spec)


def _turn_from(state: State, index: int, number: int, task: int | None, start: Version | None) -> Decided | None:
    task, version, reserve, path = worker_path(state, index, number, task, start)
    # With nothing open, what was expected of turns that cannot go on will not come.
    expected = state.expected if state.window.count else NOTHING
    if state.spec.schedule == "continuous" and state.window.count:  # proposals that wait may have to be rebased
        expected = add(expected, scale(reserve, 2 * (len(state.cards) + at_work(state.sweep))))
    if not fits(state.governor, add(path, expected)):
        return None
    ceiling = state.setup.tariff.solve.ceiling
    command = Rollout(state.next_command, "rollout", version.artifact, task, ceiling, reserve)
    return Decided(command, number, index)
