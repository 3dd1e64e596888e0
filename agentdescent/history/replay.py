"""Replay: every decision of a log is taken again and compared. A difference is a result, not an exception."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
from agentdescent.errors import CorruptLog, IllegalEvent
from agentdescent.record import Record

_FROM_OUTSIDE = RolledOut | Proposed | Failed | Abandoned
_FROM_DRIVER = Interrupted | Amended


class Divergence(Record, frozen=True):
    """The first event (numbered from 0) that this code would not have recorded there, and what it would have."""

    number: int
    recorded: str
    expected: str


class Replay(Record, frozen=True):
    """`state` after the last event that could be folded; `finished`: the log ends with Stopped."""

    state: State
    events: int
    finished: bool
    divergence: Divergence | None = None


def replay(events: Iterable[Event], *, check: bool = True) -> Replay:
    """Fold a log; with `check`, decide everything anew. Raises CorruptLog when it does not begin with Started."""
    stream = iter(events)
    first = next(stream, None)
    if not isinstance(first, Started):
        raise CorruptLog("the log does not begin with Started", 1 if first is not None else 0)
    if first.spec.rules != RULES:
        raise CorruptLog(f"the log was decided by rules {first.spec.rules}; this version knows rules {RULES}", 1)
    state = initial(first.spec, first.setup)
    draw = seeded(first.spec.seed)
    n = 0
    for n, event in enumerate(_chain(first, stream)):
        divergence = None
        if check and not isinstance(event, _FROM_DRIVER):
            step = decide(state, draw)
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
            return Replay(state, n, False, divergence)
    return Replay(state, n + 1, state.stopped is not None)


def _told(step: Step) -> str:
    return f"Wait(admissible={step.admissible})" if isinstance(step, Wait) else repr(step)


def _chain(first: Event, rest: Iterator[Event]) -> Iterator[Event]:
    yield first
    yield from rest
