"""The state of a run from its log, and the refusal of a log that is of another job."""

from __future__ import annotations

from collections.abc import Callable

from agentdescent import vector
from agentdescent.budget.governor import Caps, fits
from agentdescent.budget.usage import NOTHING
from agentdescent.engine.event import Amended, Event, Interrupted, Started
from agentdescent.engine.spec import Setup, Spec
from agentdescent.engine.state import State, initial
from agentdescent.engine.transition import apply
from agentdescent.errors import UsageError
from agentdescent.ports import Log
from agentdescent.record import replace

Observer = Callable[[Event, State], None]
"""Told of every event after it was appended and folded; must not change anything."""
Recall = Callable[[State, Event], None]


def recover(
    spec: Spec, setup: Setup, log: Log, observer: Observer | None = None, recall: Recall | None = None
) -> State:
    """The state after everything in the log; of a run that has not begun when it is empty. The observer is told, and
    `recall`, of every event with the state before it.

    Raises UsageError that names what differs when the log is of another job, CorruptLog when it was damaged.
    """
    state = initial(spec, setup)
    for event in log.events():
        if isinstance(event, Started):
            _same_job(event, spec, setup)
            state = initial(event.spec, event.setup)
        if recall is not None:
            recall(state, event)
        state = apply(state, event)
        if observer is not None:
            observer(event, state)
    return state


def _same_job(recorded: Started, spec: Spec, setup: Setup) -> None:
    theirs, ours = recorded.setup, setup
    changed = [
        name
        for name, a, b in (
            ("the start artifact", theirs.artifact, ours.artifact),
            ("the tasks", theirs.tasks, ours.tasks),
            ("the agent", theirs.agent, ours.agent),
            ("the scorer", theirs.scorer, ours.scorer),
            ("the oracle", theirs.oracle, ours.oracle),
            ("the tariff", theirs.tariff, ours.tariff),
        )
        if a != b
    ]
    for name in Spec.__struct_fields__:
        if name != "caps" and getattr(recorded.spec, name) != getattr(spec, name):
            changed.append(f"{name} ({getattr(recorded.spec, name)!r} there, {getattr(spec, name)!r} here)")
    if changed:
        raise UsageError(
            f"the log is of another job: {', '.join(changed)} differ; resume with what it was started with, "
            "or start a new run"
        )


def readers(state: State) -> dict[int, int]:
    """Rollouts whose output a proposal may still read, with the lane that asks for it: also one that has led to a
    proposal, while it may lead to another."""
    before, between = ("rolled", "proposing"), ("proposed", "verifying", "verified")
    return {
        worker.rollout: lane
        for lane, worker in enumerate(vector.items(state.workers))
        if worker.stage in before or (worker.stage in between and worker.asked < state.spec.samples)
    }


RESUMABLE: tuple[str, ...] = ("cancelled", "stop_when", "max_seconds", "error", "overrun")
"""Reasons after which a run goes on although no cap was raised."""


def to_go_on(state: State, caps: Caps) -> tuple[Event, ...]:
    """What has to be recorded before a run that was left in this state goes on under these caps; nothing after a
    crash, or where it ended and nothing was raised. Raises UsageError when the caps cannot hold what was spent."""
    changed = caps != state.governor.caps
    if changed and not fits(replace(state.governor, caps=caps), NOTHING):
        spent = state.governor.spent
        raise UsageError(
            f"the caps are below what the run has spent or reserved already ({spent.tokens} tokens, "
            f"{spent.calls} calls spent): a cap can only be raised"
        )
    if state.stopped is not None:
        return (Amended(caps),) if changed or state.stopped.reason in RESUMABLE else ()
    if state.interrupted is not None:
        return (Amended(caps),)
    return (Interrupted("cancelled"), Amended(caps)) if changed else ()
