"""What every proposal and candidate cost: a projection of the log."""

from __future__ import annotations

from collections.abc import Iterable

from agentdescent.budget.usage import NOTHING, Amount
from agentdescent.engine.event import Abandoned, Decided, Event, Failed, Proposed, RolledOut
from agentdescent.engine.state import State
from agentdescent.history.fold import folded

_CHARGED = (RolledOut, Proposed, Failed, Abandoned)
NOBODY = -1
"""The subject of what was spent for no proposal: the base, the test, rollouts before a proposal was asked for."""


class BySubject:
    """Folds a log. `spent`: by subject; the values sum to all that was spent."""

    def __init__(self) -> None:
        self.spent: dict[int, Amount] = {}
        self._asked: dict[int, int] = {}

    def fold(self, event: Event, before: State, after: State) -> None:
        if isinstance(event, Decided):
            self._asked[event.command.id] = event.subject
        elif isinstance(event, _CHARGED):
            subject = self._asked.pop(event.id)
            then, now = before.governor.spent, after.governor.spent
            so_far = self.spent.get(subject, NOTHING)
            self.spent[subject] = Amount(
                so_far.tokens + now.tokens - then.tokens,
                so_far.cost + now.cost - then.cost,
                so_far.calls + now.calls - then.calls,
                so_far.rollouts + now.rollouts - then.rollouts,
            )


def by_subject(events: Iterable[Event]) -> dict[int, Amount]:
    """What was spent for each subject; the values sum to all that was spent."""
    subjects = BySubject()
    for event, before, after in folded(events):
        subjects.fold(event, before, after)
    return subjects.spent
