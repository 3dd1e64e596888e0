"""A log as the states it leads through: what every projection of a whole log begins with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentdescent.engine.event import Event, Started
from agentdescent.engine.state import State, initial
from agentdescent.engine.transition import apply
from agentdescent.errors import CorruptLog


def folded(events: Iterable[Event]) -> Iterator[tuple[Event, State, State]]:
    """Every event with the state before and after it. Raises CorruptLog when the log does not begin with Started."""
    state: State | None = None
    for event in events:
        if state is None:
            if not isinstance(event, Started):
                raise CorruptLog("the log does not begin with Started", 1)
            state = initial(event.spec, event.setup)
        before, state = state, apply(state, event)
        yield event, before, state
