"""Replay: every decision of a log is taken again and compared. A difference is a result, not an exception."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from agentdescent.allocation.own import Injected, Own, Recorded, Stated
from agentdescent.allocation.policies import AllocatorPolicy
from agentdescent.engine.decision import Step, Wait, decide
from agentdescent.engine.draw import seeded
from agentdescent.engine.event import (
    Abandoned,
    Amended,
    Event,
    Failed,
    Interrupted,
    Proposed,
    RolledOut,
    Started,
)
from agentdescent.engine.spec import RULES
from agentdescent.engine.state import State, initial
from agentdescent.engine.transition import apply
from agentdescent.errors import CorruptLog, IllegalEvent, UsageError
from agentdescent.history.outcomes import choice_of
from agentdescent.record import Record

_FROM_OUTSIDE = RolledOut | Proposed | Failed | Abandoned
_FROM_DRIVER = Interrupted | Amended


class Divergence(Record, frozen=True):
    """The first event (numbered from 0) that this code would not have recorded there, and what it would have."""

    number: int
    recorded: str
    expected: str


class Replay(Record, frozen=True):
    """`state` after the last event that could be folded; `finished`: the log ends with Stopped. `unasked`: the
    allocator whose answers were taken from the log, because it cannot be asked again; "" for none."""

    state: State
    events: int
    finished: bool
    divergence: Divergence | None = None
    unasked: str = ""


def nowhere(own: Own) -> AllocatorPolicy | None:
    return None


def replay(
    events: Iterable[Event], *, check: bool = True, find: Callable[[Own], AllocatorPolicy | None] = nowhere
) -> Replay:
    """Fold a log; with `check`, decide everything anew. `find` gives the policy of one's own that a run names, None
    where it cannot be had. Raises CorruptLog when it does not begin with Started."""
    stream = iter(events)
    first = next(stream, None)
    if not isinstance(first, Started):
        raise CorruptLog("the log does not begin with Started", 1 if first is not None else 0)
    if first.spec.rules != RULES:
        raise CorruptLog(f"the log was decided by rules {first.spec.rules}; this version knows rules {RULES}", 1)
    state = initial(first.spec, first.setup)
    draw = seeded(first.spec.seed)
    own = first.spec.allocator if check and isinstance(first.spec.allocator, Own) else None
    policy: Injected | None = None if own is None or own.kind == "older" else find(own)
    unasked = own.name if own is not None and policy is None else ""
    n = 0
    for n, event in enumerate(_chain(first, stream)):
        divergence = None
        if check and not isinstance(event, _FROM_DRIVER):
            try:
                step = decide(state, draw, _as_recorded(own, event) if unasked and own is not None else policy)
            except UsageError as error:
                return Replay(state, n, False, Divergence(n, repr(event), str(error)), unasked)
            if isinstance(event, _FROM_OUTSIDE):
                if not isinstance(step, Wait) or event.id not in step.admissible:
                    divergence = Divergence(n, repr(event), _told(step))
            elif step != event:
                divergence = Divergence(n, repr(event), _told(step))
        if divergence is None:
            try:
                state = apply(state, event)
            except IllegalEvent as error:
                divergence = Divergence(n, repr(event), f"not this: {error}")
        if divergence is not None:
            return Replay(state, n, False, divergence, unasked)
    return Replay(state, n + 1, state.stopped is not None, None, unasked)


def _as_recorded(own: Own, event: Event) -> Injected:
    """An allocator that answers what this event says it did."""
    choice = choice_of(event)
    return Recorded(own, choice) if own.kind == "older" else Stated(choice)


def _told(step: Step) -> str:
    return f"Wait(admissible={step.admissible})" if isinstance(step, Wait) else repr(step)


def _chain(first: Event, rest: Iterator[Event]) -> Iterator[Event]:
    yield first
    yield from rest
