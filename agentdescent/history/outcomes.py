"""How every proposal and candidate ended: a projection of the log."""

from __future__ import annotations

from collections.abc import Iterable

from agentdescent.engine.event import Event, Judged, Stopped
from agentdescent.merge.verdict import Outcome


def outcomes(events: Iterable[Event]) -> dict[int, Outcome]:
    """By subject, the one label it has: its verdict, or `unresolved` when it was open as the run ended."""
    labels: dict[int, Outcome] = {}
    for event in events:
        if isinstance(event, Judged):
            labels[event.subject] = event.outcome
            for place, contributor in enumerate(event.contributors):
                labels[contributor] = event.outcome if place == 0 else "co-contributor"
        elif isinstance(event, Stopped):
            for subject in event.unresolved:
                labels[subject] = "unresolved"
    return labels
