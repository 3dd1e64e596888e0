"""Everything that ever changes a State: a closed union of facts, one a line of the log, no logic.

Written by `decide`: Started, Decided, Skipped, GateOpened, Judged, Committed, Promoted, Stopped.
Written by ports:    RolledOut, Proposed, Failed.
Written by drivers:  Abandoned, Interrupted, Amended.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent.allocation.choice import Choice
from agentdescent.artifact.diff import Ops
from agentdescent.budget.governor import Caps, Purpose
from agentdescent.budget.usage import Amount, Usage
from agentdescent.engine.command import Command
from agentdescent.engine.spec import Setup, Spec, Split
from agentdescent.merge.unpaired import Prior
from agentdescent.merge.verdict import Evidence
from agentdescent.merge.verdict import Outcome as Label
from agentdescent.record import Record

FailureKind: TypeAlias = Literal[
    "timeout", "rate-limit", "provider", "empty", "truncated", "malformed", "overflow", "scorer", "contract"
]
InterruptReason: TypeAlias = Literal["cancelled", "stop_when", "max_seconds"]
StopReason: TypeAlias = Literal[
    "rounds",
    "target_reward",
    "patience",
    "solved",
    "max_tokens",
    "max_cost",
    "max_calls",
    "max_rollouts",
    "max_seconds",
    "diminishing_returns",
    "stop_when",
    "cancelled",
    "overrun",
    "error",
]
SkipReason: TypeAlias = Literal["off", "clock", "unaffordable", "allocator"]


class Started(Record, frozen=True, tag="started"):
    """The first fact of every log: what was asked, what was given, and how the tasks were split."""

    spec: Spec
    setup: Setup
    split: Split


class Decided(Record, frozen=True, tag="decided"):
    """An effect is wanted; its worst case is reserved. Recorded before the effect starts.

    `worker`: the lane of the turn it is for (of worker `lane % n_workers`), -1 for none. `subject`: the proposal or
    candidate it is for, -1 for none. `attempt` counts the failures of the slot.
    `closing`: set on the test of the final artifact, the reason for which the run is ending. `choice`: the allocator's,
    where it was asked.
    """

    command: Command
    round: int = 0
    worker: int = -1
    subject: int = -1
    attempt: int = 0
    closing: StopReason | None = None
    choice: Choice | None = None


class Skipped(Record, frozen=True, tag="skipped"):
    """An optional spend that was not made. `choice`: the allocator's, where it was asked. A union that is skipped gets
    its number here."""

    purpose: Purpose
    subject: int
    reason: SkipReason
    choice: Choice | None = None


class GateOpened(Record, frozen=True, tag="gate-opened"):
    """A candidate is put before the held-out tasks; everything its verdict depends on is frozen here.

    `weight_gain`, `weight_loss`: evidence of self-verify, in millionths. `bar`: probability in millionths.
    `size`: UTF-8 bytes of the candidate's rendering. `held`: the earmark of its remaining worst case,
    which includes what testing it would cost more than testing the head, and its audit. `choice`: the allocator's,
    where it was asked. `prior`: of the unpaired rule; None: paired. `audit`: oracle calls set aside, 0 when its budget
    does not cover the audit; None: none is wanted.
    """

    subject: int
    contributors: tuple[int, ...]
    artifact: str
    size: int
    base: str
    version: int
    weight_gain: int
    weight_loss: int
    bar: int
    held: Amount
    choice: Choice | None = None
    prior: Prior | None = None
    audit: int | None = None


class Judged(Record, frozen=True, tag="judged"):
    """A proposal or candidate is closed. `contributors` are the proposals closed with it: the first takes
    `outcome`, the others are `co-contributor`. A union that goes on in parts closes none of them."""

    subject: int
    outcome: Label
    contributors: tuple[int, ...] = ()
    evidence: Evidence | None = None


class Committed(Record, frozen=True, tag="committed"):
    """The head moves from version `base` (compare and swap) to `version`, 0 for `base` + 1. `total`: millionths, all
    held-out."""

    subject: int
    base: int
    artifact: str
    total: int
    version: int = 0


class Promoted(Record, frozen=True, tag="promoted"):
    """The head of this version becomes stable."""

    version: int


class Stopped(Record, frozen=True, tag="stopped"):
    """The run ended. `unresolved`: subjects open at that moment, to be taken up again if it is amended."""

    reason: StopReason
    error: str = ""
    unresolved: tuple[int, ...] = ()


class RolledOut(Record, frozen=True, tag="rolled-out"):
    """A task was solved and scored. `score` in millionths of [0, 1]; `size`, `output`: UTF-8 bytes and
    digest of the output, whose text is in the answers journal. Usage None: the port did not say."""

    id: int
    score: int
    size: int
    output: str
    usage: Usage | None = None
    scoring: Usage | None = None


class Proposed(Record, frozen=True, tag="proposed"):
    """A reply was parsed. No ops: the agent declined."""

    id: int
    ops: Ops
    usage: Usage | None = None


class Failed(Record, frozen=True, tag="failed"):
    """An effect ended without an answer. It is charged all the same."""

    id: int
    kind: FailureKind
    message: str
    usage: Usage | None = None


class Abandoned(Record, frozen=True, tag="abandoned"):
    """An effect that will not be answered, decided anew. One of a killed process, found on open, is settled at
    its reservation; one that never `started` costs nothing."""

    id: int
    started: bool = True


class Interrupted(Record, frozen=True, tag="interrupted"):
    """From here on only decisions without effects follow."""

    reason: InterruptReason


class Amended(Record, frozen=True, tag="amended"):
    """The run goes on after it ended or was interrupted, under these caps."""

    caps: Caps


Decision: TypeAlias = Started | Decided | Skipped | GateOpened | Judged | Committed | Promoted | Stopped
Outcome: TypeAlias = RolledOut | Proposed | Failed
Event: TypeAlias = Decision | Outcome | Abandoned | Interrupted | Amended
