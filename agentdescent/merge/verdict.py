"""How a proposal or candidate can end, and the evidence for it."""

from __future__ import annotations

from typing import TypeAlias

from agentdescent.allocation.choice import Choice
from agentdescent.allocation.outcomes import Outcome
from agentdescent.record import Record


class GateEvidence(Record, frozen=True, tag="gate"):
    """`gain`, `loss`: sums against the frozen base over `answered` of `total` tasks, in millionths.
    `p`: Pr(better), `bar`: what it had to exceed, in millionths. `split`: its halves go on."""

    gain: int
    loss: int
    p: int
    bar: int
    answered: int
    total: int
    split: bool = False


class FutilityEvidence(Record, frozen=True, tag="futility"):
    """A gate stopped by prediction. Sums as of a gate; `acceptance`: predicted probability, in millionths. `choice`: to
    stop, with its propensity."""

    gain: int
    loss: int
    acceptance: int
    answered: int
    total: int
    choice: Choice
    split: bool = False


class SubsetEvidence(Record, frozen=True, tag="subset"):
    """Sums over the cheap subset, in millionths: this proposal's and that of its rival `against`."""

    own: int
    rival: int
    against: int


class StaleEvidence(Record, frozen=True, tag="stale"):
    """`behind` versions; on the card's own task the head scored `before`, with the change `after`."""

    behind: int
    before: int | None = None
    after: int | None = None


class VerifyEvidence(Record, frozen=True, tag="verify"):
    """after - before on the task that prompted the proposal, in millionths."""

    delta: int


class OracleEvidence(Record, frozen=True, tag="oracle"):
    """Sums of the oracle's scores over `total` tasks, in millionths: the candidate's and the head's."""

    own: int
    base: int
    total: int


class FailureEvidence(Record, frozen=True, tag="failure"):
    """The last failure of the slot that could not be filled."""

    kind: str
    message: str


Evidence: TypeAlias = (
    GateEvidence | FutilityEvidence | SubsetEvidence | StaleEvidence | VerifyEvidence | OracleEvidence | FailureEvidence
)

__all__ = [
    "Evidence",
    "FailureEvidence",
    "FutilityEvidence",
    "GateEvidence",
    "OracleEvidence",
    "Outcome",
    "StaleEvidence",
    "SubsetEvidence",
    "VerifyEvidence",
]
