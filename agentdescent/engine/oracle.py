"""What an audit takes of the oracle's budget, and what there is of that."""

from __future__ import annotations

from agentdescent.engine.state import State
from agentdescent.merge.audit import missing, open_calls, wanted
from agentdescent.merge.scores import Scores


def known_of(state: State, artifact: str) -> Scores | None:
    """What the oracle said of this head, as far as that is still known."""
    audited = state.audited
    return audited.scores if audited.artifact == artifact else None


def calls_left(state: State) -> int:
    """Calls of the oracle that were neither made nor set aside."""
    used = next((line.used.rollouts for line in state.governor.ledger if line.purpose == "audit"), 0)
    for gate in () if state.sweep is None else state.sweep.gates:
        if gate.audit is not None:
            used += open_calls(gate.audit)
            used += gate.audit.calls if gate.status in ("open", "accepted") else 0
    return state.spec.oracle_budget - used


def audit_calls(state: State, artifact: str) -> int | None:
    """What a gate that opens now on the head `artifact` sets aside: calls of the oracle, 0 when its budget does not
    cover the audit, None when none is wanted."""
    spec = state.spec
    if not spec.oracle_budget or not wanted(spec.audit, spec.strategy.blast_radius, state.trust):
        return None
    calls = len(state.split.cheap) + len(missing(known_of(state, artifact), state.split.cheap))
    return calls if calls <= calls_left(state) else 0
