"""Effects the core asks for. Plain data: a command can be sent to another machine."""

from __future__ import annotations

from typing import TypeAlias

from agentdescent.budget.governor import Purpose
from agentdescent.budget.usage import Amount
from agentdescent.record import Record


class Rollout(Record, frozen=True, tag="rollout"):
    """Solve one task with one artifact and score the output. `task` indexes `Setup.tasks`."""

    id: int
    purpose: Purpose
    artifact: str
    task: int
    ceiling: int
    reserve: Amount


class Propose(Record, frozen=True, tag="propose"):
    """Ask for a change to `artifact`, given what it did in `rollout` (a command id).

    `subject` numbers the proposal and does not depend on how many effects ran before it: an agent that
    samples may key its randomness on it.
    """

    id: int
    artifact: str
    rollout: int
    task: int
    subject: int
    score: int
    ceiling: int
    reserve: Amount


Command: TypeAlias = Rollout | Propose
