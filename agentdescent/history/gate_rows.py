"""Gates as rows of a matrix: what each held-out task said of a candidate, and where the gate stopped."""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent import vector
from agentdescent.engine.event import GateOpened, Judged
from agentdescent.engine.state import State
from agentdescent.merge.gate import Gate
from agentdescent.merge.scores import UNKNOWN
from agentdescent.merge.verdict import FutilityEvidence, GateEvidence, Outcome
from agentdescent.record import Record

Mark: TypeAlias = Literal["+", "-", "=", "0", "."]
"""One candidate on one held-out task against the head: gained, lost, the same and not 0, both 0, not asked."""


class GateRow(Record, frozen=True):
    """A candidate before the held-out tasks. `began`, `ended`: tokens of the run spent by then. `marks`: one Mark for
    each held-out task, in the order of `Report.heldout`. `p` and `bar` in [0, 1], None where the verdict needs none.
    `outcome`: None while the gate is open."""

    subject: int
    contributors: tuple[int, ...]
    version: int
    began: int
    ended: int
    marks: str
    answered: int
    gain: float
    loss: float
    p: float | None
    bar: float | None
    outcome: Outcome | None
    reason: Literal["completed", "curtailed", "futile", "failed", "withdrawn", "open"]


def row(opened: GateOpened, began: int, state: State, ended: int, verdict: Judged | None) -> GateRow:
    """`state`: that in which the verdict was taken, or the last one."""
    gates = () if state.sweep is None else state.sweep.gates
    gate = next((gate for gate in gates if gate.subject == opened.subject), None)
    found = None if verdict is None else verdict.evidence
    sums = found if isinstance(found, GateEvidence | FutilityEvidence) else gate
    judged = found if isinstance(found, GateEvidence) else None
    return GateRow(
        opened.subject,
        opened.contributors,
        opened.version,
        began,
        ended,
        "" if gate is None else _marks(gate),
        0 if gate is None else gate.probe.scores.count,
        0.0 if sums is None else sums.gain / 1_000_000,
        0.0 if sums is None else sums.loss / 1_000_000,
        None if judged is None else judged.p / 1_000_000,
        None if judged is None else judged.bar / 1_000_000,
        None if verdict is None else verdict.outcome,
        _reason(verdict),
    )


def _reason(
    verdict: Judged | None,
) -> Literal["completed", "curtailed", "futile", "failed", "withdrawn", "open"]:
    if verdict is None:
        return "open"
    found = verdict.evidence
    if isinstance(found, GateEvidence):
        return "completed" if found.answered == found.total else "curtailed"
    if isinstance(found, FutilityEvidence):
        return "futile"
    return "failed" if verdict.outcome == "failed" else "withdrawn"


def _marks(gate: Gate) -> str:
    """A Mark for every position."""
    pairs = zip(vector.items(gate.probe.scores.values), vector.items(gate.base.values), strict=True)
    return "".join(
        "." if own == UNKNOWN else "+" if own > base else "-" if own < base else "=" if own else "0"
        for own, base in pairs
    )
