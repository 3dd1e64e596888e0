"""What every proposal and candidate cost: a projection of the log."""

from __future__ import annotations

from collections.abc import Iterable

from agentdescent.budget.usage import NOTHING, Amount, add, subtract
from agentdescent.engine.event import Abandoned, Event, Failed, Proposed, RolledOut, Started
from agentdescent.engine.state import State, initial
from agentdescent.engine.transition import apply
from agentdescent.engine.window import take

NOBODY = -1
"""The subject of what was spent for no proposal: the base, the test, rollouts before a proposal was asked for."""


def by_subject(events: Iterable[Event]) -> dict[int, Amount]:
    """What was spent for each subject; the values sum to all that was spent."""
    state: State | None = None
    spent: dict[int, Amount] = {}
    for event in events:
        if isinstance(event, Started):
            state = initial(event.spec, event.setup)
        if state is None:
            return {}
        after = apply(state, event)
        if after.governor.spent != state.governor.spent:
            subject = NOBODY
            if isinstance(event, RolledOut | Proposed | Failed | Abandoned):
                subject = take(state.window, event.id)[0].subject
            used = subtract(after.governor.spent, state.governor.spent)
            spent[subject] = add(spent.get(subject, NOTHING), used)
        state = after
    return spent
