"""What the run learns from its gates: the prior of unpaired acceptance, and trust in the cheap subset."""

from __future__ import annotations

from agentdescent.engine.state import State
from agentdescent.merge.audit import cheap_verdict, observe
from agentdescent.merge.gate import Gate
from agentdescent.merge.lesson import teaches
from agentdescent.merge.unpaired import learn
from agentdescent.merge.verdict import Outcome
from agentdescent.record import replace


def taught(state: State, gate: Gate, outcome: Outcome) -> State:
    """After a gate with this outcome. A veto is about trust only: by the held-out tasks it was no rejection."""
    if outcome not in ("committed", "below-threshold", "regression", "oracle-rejected") or not teaches(gate):
        return state
    agree = cheap_verdict(gate.probe.scores, gate.base, state.split.cheap) == (gate.status == "accepted")
    state = replace(state, trust=observe(state.spec.audit, state.trust, agree=agree))
    if gate.prior is None or outcome == "oracle-rejected":
        return state
    won = outcome == "committed"
    return replace(state, prior=learn(state.prior, gate.gain, gate.loss, gate.base.size, committed=won))
