"""`decide`: the next fact to record, or why there is none. Pure: equal states decide equally.

Order of precedence: begin; halting (interrupted, overrun, fatal: nothing that costs); the base; workers that have
something to decide; workers that may start; at the barrier the merge; then the end of the run or the next round.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

from agentdescent import vector
from agentdescent.artifact.diff import change
from agentdescent.artifact.strategy import oversized
from agentdescent.budget.governor import Purpose, alone, binding, fits, reservation, spent_share
from agentdescent.budget.usage import NOTHING, Amount, add, smaller, subtract
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.draw import Draw
from agentdescent.engine.event import (
    Committed,
    Decided,
    Decision,
    GateOpened,
    Judged,
    Promoted,
    Skipped,
    Started,
    Stopped,
    StopReason,
)
from agentdescent.engine.merging import Close, Measure, Put, begin, settle
from agentdescent.engine.path import affords_turn, cheapest_path, gate_cost, worker_path
from agentdescent.engine.split import make_split
from agentdescent.engine.state import State, Version, Worker, version_of
from agentdescent.engine.window import oldest
from agentdescent.errors import IllegalEvent
from agentdescent.merge.acceptance import MILLION, bar, verify_weights
from agentdescent.merge.card import Card
from agentdescent.merge.gate import Gate, evidence, fell
from agentdescent.merge.probe import Probe, next_slot
from agentdescent.merge.rejected import contains
from agentdescent.merge.sweep import Sweep, finished, open_cards
from agentdescent.merge.verdict import FailureEvidence, Outcome, VerifyEvidence
from agentdescent.record import Record

PROMOTE_AFTER = 3
BARREN_ROUNDS = 2
BASE: Purpose = "base"
TEST: Purpose = "test"


class Wait(Record, frozen=True):
    """Nothing to decide before an answer arrives. `admissible`: the command ids whose answer may be folded next."""

    admissible: tuple[int, ...]


Step: TypeAlias = Decision | Wait


def decide(state: State, draw: Draw) -> Step:
    """The next decision; Wait only while an effect is open; after the end, the recorded Stopped again."""
    if not state.started:
        return Started(state.spec, state.setup, make_split(state.spec, state.setup, draw))
    if state.stopped is not None:
        return state.stopped
    event = _next(state)
    halt = halting(state)
    if halt is not None and isinstance(event, Decided | GateOpened | Promoted | Stopped):
        event = None
    if event is not None:
        return event
    if state.window.count:
        return _wait(state)
    if halt is None:
        raise IllegalEvent("nothing is open and nothing can be decided: this state was not made by `apply`")
    return _stop(state, halt)


def halting(state: State) -> StopReason | None:
    """Why nothing that costs is decided any more."""
    if state.governor.overrun:
        return "overrun"
    if state.health.fatal:
        return "error"
    return state.interrupted


def _wait(state: State) -> Wait:
    if state.spec.admission == "ordered":
        return Wait((oldest(state.window),))
    return Wait(tuple(decided.command.id for chunk in state.window.chunks for decided in chunk))


def _stop(state: State, reason: StopReason) -> Stopped:
    open_subjects = {card.subject for card in state.cards}
    open_subjects.update(worker.subject for worker in vector.items(state.workers))
    if state.sweep is not None:
        open_subjects.update(card.subject for card in open_cards(state.sweep))
        open_subjects.update(gate.subject for gate in state.sweep.gates)
    error = ""
    if reason == "overrun":
        error = _overrun(state)
    elif reason == "error":
        error = state.health.fatal or _base_failure(state) or state.health.last
    return Stopped(reason, error, tuple(sorted(open_subjects - {-1})))


def _overrun(state: State) -> str:
    spent, cap = state.governor.spent, state.governor.caps
    return (
        f"a call used more than the port declared: spent {spent.tokens} tokens (cap {cap.tokens}), {spent.calls} calls"
        f" (cap {cap.calls}); raise the ceiling, overhead or calls of its tariff"
    )


def _base_failure(state: State) -> str:
    probe = state.base
    return "" if probe is None or probe.failure is None else f"the base cannot be scored: {probe.failure.message}"


def _next(state: State) -> Decision | None:
    window = state.window
    if window.count == 1:
        only = window.chunks[0][0].command
        if alone(state.governor, "solve" if isinstance(only, Rollout) else "propose"):
            return None
    if state.base is not None:
        return _base(state, state.base)
    if state.closing is not None:
        return _close(state, state.closing)
    for index in state.ready:
        event = _advance(state, index)
        if event is not None:
            return event
    if state.sweep is None:
        event = _start(state, state.cursor, state.round)
        if event is not None or window.count:
            return event
    sweep = begin(state)
    if sweep is not None and not finished(sweep):
        event = _merge(state, sweep)
        if event is not None or window.count:
            return event
    return _barrier(state, sweep)


def _ask(
    state: State,
    purpose: Purpose,
    version: Version,
    task: int,
    *,
    attempt: int = 0,
    earmark: Amount = NOTHING,
    worker: int = -1,
    subject: int = -1,
    closing: StopReason | None = None,
) -> Decided | None:
    """A rollout, if what the earmark does not cover of its worst case fits."""
    reserve = reservation(state.governor, "solve", version.size + state.setup.tasks[task].size)
    if not fits(state.governor, subtract(reserve, smaller(earmark, reserve))):
        return None
    ceiling = state.setup.tariff.solve.ceiling
    command = Rollout(state.next_command, purpose, version.artifact, task, ceiling, reserve)
    return Decided(command, state.round, worker, subject, attempt, closing)


def _base(state: State, probe: Probe) -> Decision | None:
    """The head on every held-out task, then on every test task; nothing else is decided before."""
    if probe.failure is not None:
        return None if state.window.count else _stop(state, "error")
    slot, part, purpose = next_slot(probe), state.split.heldout, BASE
    if slot is None and state.testing is not None:
        probe, slot, part, purpose = state.testing, next_slot(state.testing), state.split.test, TEST
    if slot is None or (state.window.count and alone(state.governor, "solve")):
        return None
    earmark = NOTHING if probe.again else state.base_hold
    task = part[slot.position]
    event = _ask(state, purpose, state.head.version, task, attempt=slot.attempt, earmark=earmark)
    if event is None and not state.window.count:
        return _stop(state, _binding(state, task))
    return event


def _binding(state: State, task: int) -> StopReason:
    size = state.head.version.size + state.setup.tasks[task].size
    return binding(state.governor, reservation(state.governor, "solve", size))


def _advance(state: State, index: int) -> Decision | None:
    """What a worker in the middle of its turn does next; None when its next stage does not fit."""
    worker = vector.get(state.workers, index)
    match worker.stage:
        case "reroll":
            version = worker.copy or state.head.version
            return _ask(state, "rollout", version, worker.task, attempt=worker.attempt, worker=index)
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
    if worker.attempt == 0:
        if not card.ops:
            return Judged(card.subject, "declined")
        if oversized(state.spec.strategy, card.ops):
            return Judged(card.subject, "oversized")
        entries = change(version.entries, card.ops)
        if entries == version.entries:
            return Judged(card.subject, "declined")
        if _duplicate(state, card):
            return Judged(card.subject, "duplicate")
    if not state.spec.self_verify:
        return Skipped("verify", card.subject, "off")
    if spent_share(state.governor) >= state.spec.hard_floor:
        return Skipped("verify", card.subject, "clock")
    changed = version_of(state.spec, version.number, change(version.entries, card.ops))
    event = _ask(state, "verify", changed, card.task, attempt=worker.attempt, worker=index, subject=card.subject)
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


def _start(state: State, first: int, number: int) -> Decided | None:
    """The next worker from `first` on whose whole path fits starts its turn in round `number`."""
    for index in range(first, state.spec.n_workers):
        if vector.get(state.workers, index).retired:
            continue
        task, version, reserve, path = worker_path(state, index, number)
        if affords_turn(state, path):
            ceiling = state.setup.tariff.solve.ceiling
            command = Rollout(state.next_command, "rollout", version.artifact, task, ceiling, reserve)
            return Decided(command, number, index)
    return None


def _merge(state: State, sweep: Sweep) -> Decision | None:
    for gate in sweep.gates:
        event = _gate(state, gate)
        if event is not None:
            return event
    _, need = settle(state, sweep)
    match need:
        case None:
            return None
        case Close():
            return Judged(need.card.subject, need.outcome, (), need.evidence)
        case Put():
            return _open(state, need)
        case Measure():
            ceiling = state.setup.tariff.solve.ceiling
            artifact = need.version.artifact
            command = Rollout(state.next_command, need.purpose, artifact, need.task, ceiling, need.reserve)
            return Decided(command, state.round, -1, need.subject, need.attempt)
        case _:
            assert_never(need)


def _open(state: State, put: Put) -> GateOpened:
    gain, loss = verify_weights(tuple(card.delta for card in put.cards if card.delta is not None))
    head = state.head.version
    single = len(put.cards) == 1
    return GateOpened(
        put.cards[0].subject if single else state.next_subject,
        tuple(card.subject for card in put.cards),
        put.version.artifact,
        put.version.size,
        head.artifact,
        head.number,
        gain,
        loss,
        bar(state.spec.acceptance, head.number),
        put.hold,
    )


def _gate(state: State, gate: Gate) -> Decision | None:
    single = len(gate.cards) == 1
    contributors = () if single else tuple(card.subject for card in gate.cards)
    match gate.status:
        case "won":
            return Committed(gate.subject, gate.version, gate.artifact, gate.probe.scores.total)
        case "accepted":
            return Judged(gate.subject, "committed", contributors, evidence(gate))
        case "rejected":
            outcome: Outcome = "regression" if fell(gate) else "below-threshold"
            return Judged(gate.subject, outcome, (), evidence(gate, split=not single))
        case "failed":
            return Judged(gate.subject, "failed", contributors, gate.probe.failure)
        case "stale":
            return None if gate.probe.open else Judged(gate.subject, "cas-conflict")
        case "open":
            return _wave(state, gate, contributors)
        case _:
            assert_never(gate.status)


def _wave(state: State, gate: Gate, contributors: tuple[int, ...]) -> Decision | None:
    slot = next_slot(gate.probe)
    if slot is None:
        return None
    version = Version(gate.version, gate.entries, gate.artifact, gate.size)
    task = state.split.heldout[slot.position]
    earmark = NOTHING if gate.probe.again else gate.hold
    event = _ask(state, "gate", version, task, attempt=slot.attempt, earmark=earmark, subject=gate.subject)
    if event is None and not state.window.count:
        message = f"asking task {state.setup.tasks[task].id} again does not fit the budget"
        return Judged(gate.subject, "failed", contributors, FailureEvidence("budget", message))
    return event


def _barrier(state: State, sweep: Sweep | None) -> Decision:
    """Nothing is open and nothing can be merged: promote, end, or begin the next round."""
    head = state.head.version
    quiet = state.quiet if sweep is None else 0 if sweep.committed else state.quiet + 1
    if quiet >= PROMOTE_AFTER and state.stable.number != head.number:
        return Promoted(head.number)
    reason = _ended(state)
    if reason is None:
        return _start(state, 0, state.round + 1) or _end(state, _spent_out(state))
    return _end(state, reason)


def _ended(state: State) -> StopReason | None:
    spec, scores, health = state.spec, state.head.scores, state.health
    barren = health.barren_rounds + (health.proposals > 0 and health.proposals == health.proposals_failed)
    if barren >= BARREN_ROUNDS or all(worker.retired for worker in vector.items(state.workers)):
        return "error"
    if scores.solved == scores.size and state.head.train.solved == state.head.train.size:
        return "solved"
    if spec.target is not None and scores.total >= round(spec.target * MILLION) * scores.size:
        return "target_reward"
    if spec.patience is not None and state.round - state.improved_round >= spec.patience:
        return "patience"
    limit = state.governor.caps.rounds
    return "rounds" if limit is not None and state.round >= limit else None


def _spent_out(state: State) -> StopReason:
    return binding(state.governor, add(cheapest_path(state), state.expected))


def _end(state: State, reason: StopReason) -> Decision:
    """A clean end: test the head once unless it was, promote it, stop."""
    head = state.head.version
    if reason == "error":
        return _stop(state, reason)
    if state.split.test and state.tested != head.artifact:
        event = _ask(state, "test", head, state.split.test[0], earmark=state.test_hold, closing=reason)
        if event is not None:
            return event
    return _finish(state, reason)


def _close(state: State, reason: StopReason) -> Decision | None:
    probe, head = state.testing, state.head.version
    slot = None if probe is None else next_slot(probe)
    if probe is not None and slot is not None:
        earmark = NOTHING if probe.again else state.test_hold
        task = state.split.test[slot.position]
        event = _ask(state, "test", head, task, attempt=slot.attempt, earmark=earmark, closing=reason)
        if event is not None:
            return event
    return None if state.window.count else _finish(state, reason)


def _finish(state: State, reason: StopReason) -> Decision:
    if state.stable.number != state.head.version.number:
        return Promoted(state.head.version.number)
    return _stop(state, reason)
