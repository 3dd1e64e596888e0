"""A rollout that is wanted, if its worst case fits."""

from __future__ import annotations

from agentdescent.budget.governor import Purpose, fits, reservation
from agentdescent.budget.usage import NOTHING, Amount, covers, smaller, subtract
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import (
    Decided,
    StopReason,
)
from agentdescent.engine.state import State, Version


def ask_rollout(
    state: State,
    purpose: Purpose,
    version: Version,
    task: int,
    *,
    attempt: int = 0,
    earmark: Amount = NOTHING,
    worker: int = -1,
    subject: int = -1,
    closing: StopReason | None = None,
) -> Decided | None:
    """A rollout, if what the earmark does not cover of its worst case fits."""
    reserve = reservation(state.governor, "solve", version.size + state.setup.tasks[task].size)
    if not covers(earmark, reserve) and not fits(state.governor, subtract(reserve, smaller(earmark, reserve))):
        return None
    ceiling = state.setup.tariff.solve.ceiling
    command = Rollout(state.next_command, purpose, version.artifact, task, ceiling, reserve)
    return Decided(command, state.round, worker, subject, attempt, closing)
