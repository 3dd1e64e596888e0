"""Facts of an audit: it begins with the first call to the oracle, about the head or the candidate, whose answers stay
with the gate; what was said of the head stays for the next audit."""

from __future__ import annotations

from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Decided, RolledOut, Skipped
from agentdescent.engine.merge_facts import current_sweep, gate_at, with_gate
from agentdescent.engine.oracle import known_of
from agentdescent.engine.scoring import pay
from agentdescent.engine.state import State
from agentdescent.errors import IllegalEvent
from agentdescent.merge.audit import Audited, Auditing, begun, probe_of
from agentdescent.merge.gate import Gate
from agentdescent.merge.probe import Probe, Slot, answer, ask, fail
from agentdescent.merge.verdict import FailureEvidence
from agentdescent.record import replace


def begin_audit(state: State, audit: Auditing) -> tuple[Auditing, Probe, Probe]:
    """The audit, begun if it was not, and the probes of the head and the candidate."""
    if audit.base is not None and audit.own is not None:
        return audit, audit.base, audit.own
    head, cheap, size = state.head.version, state.split.cheap, state.head.scores.size
    base, own = probe_of(known_of(state, head.artifact), cheap, size), probe_of(None, cheap, size)
    calls = len(base.order) + len(own.order)  # fewer than were set aside, if the head was asked about since
    return Auditing(calls, head.artifact, base, own), base, own


def decided_audit(state: State, event: Decided, command: Rollout) -> State:
    sweep = current_sweep(state)
    at, gate = gate_at(sweep, event.subject)
    if gate.audit is None or gate.status != "accepted":
        raise IllegalEvent(f"the oracle is not to be asked about {event.subject}")
    audit, base, own = begin_audit(state, gate.audit)
    of_head = command.artifact == audit.artifact
    again = bool(base.again if of_head else own.again)
    audit = replace(audit, calls=audit.calls if again else audit.calls - 1)
    if of_head:
        audit = replace(audit, base=ask(base, event.attempt))
    else:
        audit = replace(audit, own=ask(own, event.attempt))
    governor, left = pay(state.governor, gate.hold, command.reserve, again=again)
    return replace(state, governor=governor, sweep=with_gate(sweep, at, replace(gate, audit=audit, hold=left)))


def audit_skipped(state: State, event: Skipped) -> State:
    """The candidate commits without an audit."""
    sweep = current_sweep(state)
    at, gate = gate_at(sweep, event.subject)
    if gate.audit is None or begun(gate.audit):
        raise IllegalEvent(f"no audit of {event.subject} can be left out")
    return replace(state, sweep=with_gate(sweep, at, replace(gate, audit=None)))


def audit_scored(state: State, event: RolledOut, decided: Decided, command: Rollout) -> State:
    position = state.position[command.task]
    at, gate, audit, of_head, probe = _asked(state, decided, command)
    probe = answer(probe, position, event.score, state.solved_at)
    if of_head:
        state = replace(state, audited=Audited(command.artifact, probe.scores))
    return _with_probe(state, at, gate, audit, probe, of_head=of_head)


def audit_failed(state: State, decided: Decided, command: Rollout, attempt: int, why: FailureEvidence | None) -> State:
    at, gate, audit, of_head, probe = _asked(state, decided, command)
    probe = fail(probe, Slot(state.position[command.task], attempt), state.spec.attempts, why)
    return _with_probe(state, at, gate, audit, probe, of_head=of_head)


def _asked(state: State, decided: Decided, command: Rollout) -> tuple[int, Gate, Auditing, bool, Probe]:
    at, gate = gate_at(current_sweep(state), decided.subject)
    audit = gate.audit
    if audit is None or audit.base is None or audit.own is None:
        raise IllegalEvent(f"the oracle was not asked about {decided.subject}")
    of_head = command.artifact == audit.artifact
    return at, gate, audit, of_head, audit.base if of_head else audit.own


def _with_probe(state: State, at: int, gate: Gate, audit: Auditing, probe: Probe, *, of_head: bool) -> State:
    audit = replace(audit, base=probe) if of_head else replace(audit, own=probe)
    return replace(state, sweep=with_gate(current_sweep(state), at, replace(gate, audit=audit)))
