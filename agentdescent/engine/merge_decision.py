"""Decisions of a merge: what the sweep needs next, and what its gates say."""

from __future__ import annotations

from typing import assert_never

from agentdescent.allocation.choice import Choice
from agentdescent.budget.governor import fits, spent_share
from agentdescent.budget.usage import NOTHING, add
from agentdescent.engine.allotting import ask, context_of, decides, mean_tokens
from agentdescent.engine.asking import ask_rollout
from agentdescent.engine.audit_decision import accepted
from agentdescent.engine.command import Rollout
from agentdescent.engine.contest import Dissolve, Enter
from agentdescent.engine.draw import Draw
from agentdescent.engine.event import (
    Committed,
    Decided,
    Decision,
    GateOpened,
    Judged,
    Skipped,
)
from agentdescent.engine.finishing import check, gate_context, goes_on, ops_of
from agentdescent.engine.merge_needs import Close, Measure, Put, settle
from agentdescent.engine.oracle import audit_calls
from agentdescent.engine.state import State, Version
from agentdescent.merge.acceptance import MILLION, Unpaired, bar, verify_weights
from agentdescent.merge.gate import Gate, evidence, fell
from agentdescent.merge.probe import next_slot
from agentdescent.merge.sweep import Sweep
from agentdescent.merge.verdict import FailureEvidence, FutilityEvidence, Outcome
from agentdescent.record import replace


def merge_step(state: State, sweep: Sweep, draw: Draw) -> Decision | None:
    for gate in sweep.gates:
        event = _wave(state, gate, draw) if gate.status == "open" else _over(state, gate)
        if event is not None:
            return event
    settled, need = settle(state, sweep)
    match need:
        case None:
            return None
        case Close():
            return Judged(need.card.subject, need.outcome, (), need.evidence)
        case Dissolve():
            return Judged(need.subject, need.outcome, (), need.evidence)
        case Enter():
            return _enter(state, need, draw)
        case Put():
            numbered = settled.candidate
            return _open(state, need, None if numbered is None else numbered.subject, draw)
        case Measure():
            ceiling = state.setup.tariff.solve.ceiling
            artifact = need.version.artifact
            command = Rollout(state.next_command, need.purpose, artifact, need.task, ceiling, need.reserve)
            return Decided(command, state.round, -1, need.subject, need.attempt)
        case _:
            assert_never(need)


def verdict(state: State) -> Decision | None:
    """What the first gate that asks for nothing more has come to."""
    gates = () if state.sweep is None else state.sweep.gates
    events = (_over(state, gate) for gate in gates if gate.status not in ("open", "stale"))
    return next((event for event in events if not isinstance(event, Decided | None)), None)


def _enter(state: State, entering: Enter, draw: Draw) -> Decided | Skipped:
    """A tournament, unless the clock, the allocator or the budget is against it."""
    cards, first = entering.cards, entering.entrants[0]
    clock = spent_share(state.governor) >= state.spec.soft_floor
    choice: Choice | None = None
    if decides(state, "tournament"):
        cost = mean_tokens(state, "tournament") * sum(len(entrant.probe.order) for entrant in entering.entrants)
        context = context_of(state, cards, ops_of(cards))
        choice = ask(state, "tournament", first.subject, context, draw, cost, allowed=not clock)
    if clock:
        return Skipped("tournament", first.subject, "clock", choice)
    if choice is not None and not choice.choice:
        return Skipped("tournament", first.subject, "allocator", choice)
    if not fits(state.governor, add(entering.cost, entering.hold)):
        return Skipped("tournament", first.subject, "unaffordable")
    task = state.split.heldout[first.probe.order[0]]
    version = Version(state.head.version.number, first.entries, first.artifact, first.size)
    event = ask_rollout(state, "tournament", version, task, subject=first.subject)
    if event is None:
        return Skipped("tournament", first.subject, "unaffordable")
    return event if choice is None else replace(event, choice=choice)


def _open(state: State, put: Put, numbered: int | None, draw: Draw) -> GateOpened | Skipped:
    single = len(put.cards) == 1
    subject = put.cards[0].subject if single else state.next_subject if numbered is None else numbered
    choice: Choice | None = None
    # A gate that opens again was asked about before: what was chosen stands.
    if decides(state, "gate") and not (single and any(one.stage == "gate" for one in put.cards[0].choices)):
        cost = mean_tokens(state, "gate") * len(put.order)
        choice = ask(state, "gate", subject, gate_context(state, put.cards), draw, cost)
        if choice is not None and not choice.choice:
            return Skipped("gate", subject, "allocator", choice)
    gain, loss = verify_weights(tuple(card.delta for card in put.cards if card.delta is not None))
    head = state.head.version
    return GateOpened(
        subject,
        tuple(card.subject for card in put.cards),
        put.version.artifact,
        put.version.size,
        head.artifact,
        head.number,
        gain,
        loss,
        bar(state.spec.acceptance, head.number),
        put.hold,
        choice,
        state.prior if isinstance(state.spec.acceptance, Unpaired) else None,
        audit_calls(state, head.artifact),
    )


def _over(state: State, gate: Gate) -> Decision | None:
    """What a gate that asks for nothing more has come to."""
    single = len(gate.cards) == 1
    contributors = () if single else tuple(card.subject for card in gate.cards)
    match gate.status:
        case "open":
            return None
        case "won":
            version = state.population.newest + 1 if state.population.members else 0
            return Committed(gate.subject, gate.version, gate.artifact, gate.probe.scores.total, version)
        case "accepted":
            return accepted(state, gate, contributors)
        case "rejected":
            outcome: Outcome = "regression" if fell(gate) else "below-threshold"
            return Judged(gate.subject, outcome, (), evidence(gate, split=not single))
        case "failed":
            return Judged(gate.subject, "failed", contributors, gate.probe.failure)
        case "stale":
            return None if gate.probe.open else Judged(gate.subject, "cas-conflict")
        case _:
            assert_never(gate.status)


def _wave(state: State, gate: Gate, draw: Draw) -> Decision | None:
    choice: Choice | None = None
    if gate.checking:
        found = check(state, gate, draw)
        choice = found.choice
        if choice is not None and not choice.choice:
            return Judged(gate.subject, "futile", (), _futility(gate, found.acceptance, choice))
        gate = goes_on(gate, choice)
    slot = next_slot(gate.probe)
    if slot is None:
        return None
    version = Version(gate.version, gate.entries, gate.artifact, gate.size)
    task = state.split.heldout[slot.position]
    earmark = NOTHING if gate.probe.again else gate.hold
    event = ask_rollout(state, "gate", version, task, attempt=slot.attempt, earmark=earmark, subject=gate.subject)
    if event is None and not state.window.count:
        message = f"asking task {state.setup.tasks[task].id} again does not fit the budget"
        contributors = () if len(gate.cards) == 1 else tuple(card.subject for card in gate.cards)
        return Judged(gate.subject, "failed", contributors, FailureEvidence("budget", message))
    return event if event is None or choice is None else replace(event, choice=choice)


def _futility(gate: Gate, acceptance: float, choice: Choice) -> FutilityEvidence:
    scores = gate.probe.scores
    chance = round(acceptance * MILLION)
    return FutilityEvidence(gate.gain, gate.loss, chance, scores.count, scores.size, choice, len(gate.cards) > 1)
