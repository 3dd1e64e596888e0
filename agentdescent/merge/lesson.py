"""What a gate may teach: the same whether curtailment was on or off, and however wide its waves were."""

from __future__ import annotations

from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.gate import Gate, accepts
from agentdescent.merge.scores import score_at


def teaches(gate: Gate) -> bool:
    """True for a gate that is complete, and that curtailment as early as it can be would have completed.

    The endings that are possible only become fewer, so rejection was certain at some point of the order exactly when
    it was before the last task.
    """
    probe = gate.probe
    if probe.scores.count < probe.scores.size:
        return False
    if not probe.order or gate.status in ("accepted", "won"):
        return True
    last = probe.order[-1]
    value, base = score_at(probe.scores, last), score_at(gate.base, last)
    gain, loss = gate.gain - max(0, value - base), gate.loss - max(0, base - value)
    return accepts(gate, gain + MILLION - base, loss)
