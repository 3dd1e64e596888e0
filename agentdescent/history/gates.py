"""What gates did not have to ask, and how sure their commits are."""

from __future__ import annotations

from agentdescent.engine.event import Judged
from agentdescent.engine.state import State
from agentdescent.merge.verdict import GateEvidence
from agentdescent.record import Record


class Savings(Record, frozen=True):
    """`gates` stopped early; `calls` not made; `tokens`: an estimate, calls times the mean gate call so far."""

    gates: int = 0
    calls: int = 0
    tokens: int = 0


def doubt(event: Judged) -> float:
    """1 - P of a commit: the probability that it is no improvement, by the evidence that it was kept on. Summed over
    a run, the expected number of junk commits. 0.0 for any other verdict."""
    if event.outcome == "committed" and isinstance(event.evidence, GateEvidence):
        return 1.0 - event.evidence.p / 1_000_000
    return 0.0


def observe(savings: Savings, event: Judged, state: State) -> Savings:
    """Fold a verdict; `state` is the one after it."""
    if not isinstance(event.evidence, GateEvidence):
        return savings
    spared = event.evidence.total - event.evidence.answered
    if spared == 0:
        return savings
    used = next((line.used for line in state.governor.ledger if line.purpose == "gate"), None)
    mean = used.tokens / used.rollouts if used is not None and used.rollouts else 0.0
    return Savings(savings.gates + 1, savings.calls + spared, savings.tokens + round(spared * mean))
