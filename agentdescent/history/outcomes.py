"""How every proposal and candidate ended: a projection of the log."""

from __future__ import annotations

from collections.abc import Iterable

from agentdescent.allocation.choice import Choice
from agentdescent.engine.event import Event, Judged, Stopped
from agentdescent.merge.verdict import FutilityEvidence, Outcome


def choice_of(event: Event) -> Choice | None:
    """The choice of the allocator that was recorded with an event, of whatever kind."""
    if isinstance(event, Judged) and isinstance(event.evidence, FutilityEvidence):
        return event.evidence.choice
    found = getattr(event, "choice", None)
    return found if isinstance(found, Choice) else None


def labels_of(event: Judged) -> tuple[tuple[int, Outcome], ...]:
    """What a verdict says of each subject that it closes: its first contributor shares the outcome of a union."""
    rest = tuple(one for one in event.contributors if one != event.subject)
    if not rest:
        return ((event.subject, event.outcome),)
    others: Outcome = "co-contributor"
    first = event.contributors[0]
    return (
        (event.subject, event.outcome),
        *((one, event.outcome if one == first else others) for one in rest),
    )


def outcomes(events: Iterable[Event]) -> dict[int, Outcome]:
    """By subject, the one label it has: its verdict, or `unresolved` when it was open as the run ended."""
    labels: dict[int, Outcome] = {}
    for event in events:
        if isinstance(event, Judged):
            labels.update(labels_of(event))
        elif isinstance(event, Stopped):
            for subject in event.unresolved:
                labels[subject] = "unresolved"
    return labels
