"""Decisions about a candidate that was accepted: commit, or ask the oracle first and do what it says."""

from __future__ import annotations

from agentdescent.budget.usage import NOTHING
from agentdescent.engine.asking import ask_rollout
from agentdescent.engine.auditing import begin_audit
from agentdescent.engine.event import Decision, Judged, Skipped
from agentdescent.engine.oracle import calls_left
from agentdescent.engine.state import State, Version
from agentdescent.merge.audit import begun
from agentdescent.merge.gate import Gate, evidence
from agentdescent.merge.probe import Probe, Slot, next_slot
from agentdescent.merge.verdict import FailureEvidence, OracleEvidence


def accepted(state: State, gate: Gate, contributors: tuple[int, ...]) -> Decision | None:
    """None while the oracle is being asked, about this candidate or another: the head does not move under an audit."""
    audit = gate.audit
    if not begun(audit) and state.sweep is not None and any(begun(other.audit) for other in state.sweep.gates):
        return None
    if audit is None:
        return Judged(gate.subject, "committed", contributors, evidence(gate))
    if not begun(audit) and audit.calls == 0:
        return Skipped("audit", gate.subject, "unaffordable")
    audit, base, own = begin_audit(state, audit)
    failure = base.failure or own.failure
    if failure is None:
        candidate = Version(gate.version, gate.entries, gate.artifact, gate.size)
        for probe, version in ((base, state.head.version), (own, candidate)):
            slot = next_slot(probe)
            if slot is not None:
                return _ask(state, gate, contributors, probe, slot, version)
    if base.open or own.open:
        return None
    if failure is not None:
        return Judged(gate.subject, "failed", contributors, failure)
    if own.scores.total > base.scores.total:
        return Judged(gate.subject, "committed", contributors, evidence(gate))
    found = OracleEvidence(own.scores.total, base.scores.total, own.scores.count)
    return Judged(gate.subject, "oracle-rejected", contributors, found)


def _ask(
    state: State, gate: Gate, contributors: tuple[int, ...], probe: Probe, slot: Slot, version: Version
) -> Decision | None:
    """The next call: one of those set aside, or again out of what is left of the money and of the oracle's budget."""
    task, again = state.split.heldout[slot.position], bool(probe.again)
    event = None
    if not again or calls_left(state) > 0:
        earmark = NOTHING if again else gate.hold
        event = ask_rollout(state, "audit", version, task, attempt=slot.attempt, earmark=earmark, subject=gate.subject)
    if event is None and not state.window.count:
        message = f"asking the oracle about task {state.setup.tasks[task].id} does not fit the budget"
        return Judged(gate.subject, "failed", contributors, FailureEvidence("budget", message))
    return event
