"""A proposal waiting for merge, and how stale it may be."""

from __future__ import annotations

from typing import Literal

from agentdescent.allocation.choice import Choice
from agentdescent.artifact.diff import Ops
from agentdescent.merge.scores import Scores
from agentdescent.record import Record

FAST_BLAST_RADIUS = 0.30


class Card(Record, frozen=True):
    """`subject` numbers the proposal, `task` indexes the run's tasks, `version` is that of the head it was made for.

    `before`: what that head scored on `task`; `delta`: gain of self-verify or of the last rebase, None where
    neither was made. Both in millionths. `cheap`: held-out scores of the head with this change alone, valid for
    head version `cheap_version`. `reopened`: how often the head moved under its gate. `verifying`: its self-verify
    is not answered yet, and it does not wait for merge. `advantage`: of the rollout that prompted it. `choices`: what
    the allocator chose about it. `tokens`: used for it, from its rollout on.
    """

    subject: int
    worker: int
    task: int
    rollout: int
    version: int
    ops: Ops
    identity: str
    before: int
    delta: int | None = None
    cheap: Scores | None = None
    cheap_version: int = -1
    reopened: int = 0
    verifying: bool = False
    advantage: float | None = None
    choices: tuple[Choice, ...] = ()
    tokens: int = 0


def tolerance(blast_radius: float) -> int:
    """Versions that a card may be behind: 1 for a fast artifact, 5 for a slow one."""
    return 1 if blast_radius <= FAST_BLAST_RADIUS else 5


def staleness(
    policy: Literal["guarded", "full", "reflective"], behind: int, allowed: int
) -> Literal["accept", "rebase", "discard"]:
    """What becomes of a card `behind` versions old. *full* accepts all, *reflective* rebases all, *guarded*
    rebases up to `allowed` and discards beyond."""
    if behind == 0 or policy == "full":
        return "accept"
    if policy == "guarded" and behind > allowed:
        return "discard"
    return "rebase"
