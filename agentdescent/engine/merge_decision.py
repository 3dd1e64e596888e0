"""Decisions of a merge: what the sweep needs next, and what its gates say."""

from __future__ import annotations

from typing import assert_never

from agentdescent.budget.usage import NOTHING
from agentdescent.engine.asking import ask_rollout
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import (
    Committed,
    Decided,
    Decision,
    GateOpened,
    Judged,
)
from agentdescent.engine.merge_needs import Close, Measure, Put, settle
from agentdescent.engine.state import State, Version
from agentdescent.merge.acceptance import bar, verify_weights
from agentdescent.merge.gate import Gate, evidence, fell
from agentdescent.merge.probe import next_slot
from agentdescent.merge.sweep import Sweep
from agentdescent.merge.verdict import FailureEvidence, Outcome


def merge_step(state: State, sweep: Sweep) -> Decision | None:
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


def verdict(state: State) -> Decision | None:
    """What the first gate that asks for nothing more has come to."""
    gates = () if state.sweep is None else state.sweep.gates
    return next((_gate(state, gate) for gate in gates if gate.status not in ("open", "stale")), None)


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
    contributors = () if single or gate.status == "open" else tuple(card.subject for card in gate.cards)
    match gate.status:
        case "open":
            return _wave(state, gate)
        case "won":
            version = state.population.newest + 1 if state.population.members else 0
            return Committed(gate.subject, gate.version, gate.artifact, gate.probe.scores.total, version)
        case "accepted":
            return Judged(gate.subject, "committed", contributors, evidence(gate))
        case "rejected":
            outcome: Outcome = "regression" if fell(gate) else "below-threshold"
            return Judged(gate.subject, outcome, (), evidence(gate, split=not single))
        case "failed":
            return Judged(gate.subject, "failed", contributors, gate.probe.failure)
        case "stale":
            return None if gate.probe.open else Judged(gate.subject, "cas-conflict")
        case _:
            assert_never(gate.status)


def _wave(state: State, gate: Gate) -> Decision | None:
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
    return event
