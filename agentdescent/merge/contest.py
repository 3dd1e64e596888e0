"""What is kept, as one candidate: from the first fact about it as one until its gate opens or it is dissolved.

    numbered -> compared (a tournament) -> put forward | dissolved: a single won, the head moved, its gate does not fit
             -> refused: its gate is not worth it

In a tournament the union of what is kept and each single are scored on the cheap subset. The first maximum wins,
singles before the union; the union is asked for first, so that its number is taken when it appears.
"""

from __future__ import annotations

from agentdescent.allocation.choice import Choice
from agentdescent.artifact.diff import Entries
from agentdescent.merge.probe import Probe, Slot, next_slot
from agentdescent.record import Record, replace


class Entrant(Record, frozen=True):
    """A union or a single card in a tournament: the head with its change, and its cheap scores."""

    subject: int
    artifact: str
    size: int
    entries: Entries
    probe: Probe


class Candidate(Record, frozen=True):
    """`subject`: of the only card, or a number of the union's own; `version`: the head's. `choices`: about the union,
    and `tokens` used for it. `entrants`: the union first, then the kept cards; none where there is no tournament.
    `decided`: the tournament is over, or skipped. `refused`: its gate was skipped."""

    subject: int
    version: int
    choices: tuple[Choice, ...] = ()
    tokens: int = 0
    entrants: tuple[Entrant, ...] = ()
    decided: bool = False
    refused: bool = False


def wanted(entrants: tuple[Entrant, ...]) -> tuple[Entrant, Slot] | None:
    """Who is to be scored next, and where; nobody once a slot has failed for good."""
    if broken(entrants):
        return None
    for entrant in entrants:
        slot = next_slot(entrant.probe)
        if slot is not None:
            return entrant, slot
    return None


def broken(entrants: tuple[Entrant, ...]) -> bool:
    return any(entrant.probe.failure is not None for entrant in entrants)


def being_scored(entrants: tuple[Entrant, ...]) -> int:
    return sum(entrant.probe.open for entrant in entrants)


def winner(entrants: tuple[Entrant, ...]) -> Entrant:
    """The first maximum, singles before the union. All are scored."""
    union, *singles = entrants
    best = singles[0]
    for entrant in (*singles[1:], union):
        if entrant.probe.scores.total > best.probe.scores.total:
            best = entrant
    return best


def entrant_of(candidate: Candidate, subject: int) -> Entrant | None:
    return next((entrant for entrant in candidate.entrants if entrant.subject == subject), None)


def with_probe(candidate: Candidate, subject: int, probe: Probe) -> Candidate:
    entrants = tuple(replace(one, probe=probe) if one.subject == subject else one for one in candidate.entrants)
    return replace(candidate, entrants=entrants)
