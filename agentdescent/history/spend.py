"""What every proposal and candidate cost: a projection of the log."""

from __future__ import annotations

from collections.abc import Iterable

from agentdescent.budget.usage import NOTHING, Amount, add, subtract
from agentdescent.engine.event import Abandoned, Event, Failed, Proposed, RolledOut
from agentdescent.engine.state import State
from agentdescent.engine.window import find
from agentdescent.history.fold import folded

NOBODY = -1
"""The subject of what was spent for no proposal: the base, the test, rollouts before a proposal was asked for."""


class BySubject:
    """Folds a log. `spent`: by subject; the values sum to all that was spent."""

    def __init__(self) -> None:
        self.spent: dict[int, Amount] = {}

    def fold(self, event: Event, before: State, after: State) -> None:
        if isinstance(event, RolledOut | Proposed | Failed | Abandoned):  # nothing else is charged
            subject = find(before.window, event.id).subject
            used = subtract(after.governor.spent, before.governor.spent)
            self.spent[subject] = add(self.spent.get(subject, NOTHING), used)


def by_subject(events: Iterable[Event]) -> dict[int, Amount]:
    """What was spent for each subject; the values sum to all that was spent."""
    subjects = BySubject()
    for event, before, after in folded(events):
        subjects.fold(event, before, after)
    return subjects.spent
