"""What a numbered candidate needs next: its tournament, its gate, or its end. No fact is made here; `settle` asks."""

from __future__ import annotations

from agentdescent.artifact.diff import change
from agentdescent.budget.governor import fits, reservation
from agentdescent.budget.usage import NOTHING, Amount, add
from agentdescent.engine.state import State, Version, version_of
from agentdescent.merge.card import Card
from agentdescent.merge.contest import Candidate, Entrant, being_scored, broken, wanted, winner
from agentdescent.merge.probe import Probe, Slot
from agentdescent.merge.scores import UNKNOWN, Scores, blank, score_at
from agentdescent.merge.sweep import Sweep, halves
from agentdescent.merge.verdict import Evidence, Outcome, SubsetEvidence
from agentdescent.record import Record, replace


class Enter(Record, frozen=True):
    """A tournament, or none, before what is kept is put forward. `cost`: its worst case; `hold`: that of the gate."""

    cards: tuple[Card, ...]
    entrants: tuple[Entrant, ...]
    cost: Amount
    hold: Amount


class Bout(Record, frozen=True):
    """An entrant is to be scored on a cheap task."""

    entrant: Entrant
    slot: Slot
    version: Version
    reserve: Amount


class Lost(Record, frozen=True):
    """A kept card ends before its gate."""

    card: Card
    outcome: Outcome
    evidence: Evidence | None = None


class Dissolve(Record, frozen=True):
    """A union ends without a gate; its cards do not."""

    subject: int
    outcome: Outcome
    evidence: Evidence | None = None


class Ready(Record, frozen=True):
    """The candidate goes before the gate as it is."""


def contest(state: State, sweep: Sweep, candidate: Candidate) -> Sweep | Bout | Lost | Dissolve | Ready | None:
    """The next move of the candidate that `sweep.kept` make up; None when it has to wait."""
    first, entrants = sweep.kept[0], candidate.entrants
    if candidate.subject == first.subject:
        return Lost(first, "not-worth-gating") if candidate.refused else Ready()
    current = candidate.version == state.head.version.number
    asked = wanted(entrants) if current and not candidate.decided else None
    if asked is not None:
        bout = _bout(state, *asked)
        if fits(state.governor, bout.reserve):
            return bout
    if being_scored(entrants):
        return None
    if not current:
        return Dissolve(candidate.subject, "cas-conflict")
    if candidate.refused:
        return Dissolve(candidate.subject, "not-worth-gating")
    if candidate.decided:
        return Ready()
    if asked is not None and (state.window.count or sweep.gates):
        return None
    if asked is not None or broken(entrants):  # a comparison that cannot be had decides nothing
        return replace(sweep, kept=measured(sweep.kept, candidate), candidate=replace(candidate, decided=True))
    best = winner(entrants)
    if best.subject == candidate.subject:
        return replace(sweep, kept=measured(sweep.kept, candidate), candidate=replace(candidate, decided=True))
    won = best.probe.scores.total
    for card, entrant in zip(_entered(sweep.kept, entrants), entrants[1:], strict=True):
        if card is not None and card.subject != best.subject:
            evidence = SubsetEvidence(entrant.probe.scores.total, won, best.subject)
            return Lost(card, "lost-tournament", evidence)
    return Dissolve(
        candidate.subject, "lost-tournament", SubsetEvidence(entrants[0].probe.scores.total, won, best.subject)
    )


def _entered(kept: tuple[Card, ...], entrants: tuple[Entrant, ...]) -> tuple[Card | None, ...]:
    """The card of each single, None where it has lost already."""
    by_subject = {card.subject: card for card in kept}
    return tuple(by_subject.get(entrant.subject) for entrant in entrants[1:])


def _bout(state: State, entrant: Entrant, slot: Slot) -> Bout:
    task = state.split.heldout[slot.position]
    reserve = reservation(state.governor, "solve", entrant.size + state.setup.tasks[task].size)
    version = Version(state.head.version.number, entrant.entries, entrant.artifact, entrant.size)
    return Bout(entrant, slot, version, reserve)


def enter(state: State, cards: tuple[Card, ...], union: Version, hold: Amount) -> Enter:
    """The tournament of these cards and their union; what is known already is not asked for again."""
    head = state.head
    entrants = [Entrant(state.next_subject, union.artifact, union.size, union.entries, cheap_probe(state, None))]
    for card in cards:
        own = version_of(state.spec, head.version.number, change(head.version.entries, card.ops))
        entrants.append(Entrant(card.subject, own.artifact, own.size, own.entries, cheap_probe(state, card)))
    cost = NOTHING
    for entrant in entrants:
        for position in entrant.probe.order:
            size = state.setup.tasks[state.split.heldout[position]].size
            cost = add(cost, reservation(state.governor, "solve", entrant.size + size))
    return Enter(cards, tuple(entrants), cost, hold)


def cheap_probe(state: State, card: Card | None) -> Probe:
    """Of the head with this card's change on the cheap subset, as far as it is not known."""
    known = card.cheap if card is not None and card.cheap_version == state.head.version.number else None
    scores = known or blank(state.head.scores.size)
    order = tuple(position for position in state.split.cheap if score_at(scores, position) == UNKNOWN)
    return Probe(order, len(order), scores)


def measured(cards: tuple[Card, ...], candidate: Candidate) -> tuple[Card, ...]:
    """The cards with what the tournament has measured of each."""
    scores = {entrant.subject: entrant.probe.scores for entrant in candidate.entrants}
    return tuple(
        replace(card, cheap=scores[card.subject], cheap_version=candidate.version) if card.subject in scores else card
        for card in cards
    )


def known_of(state: State, sweep: Sweep) -> Scores | None:
    """Held-out scores of what is kept, as a candidate, that a duel or a tournament has paid for already."""
    number, candidate = state.head.version.number, sweep.candidate
    if len(sweep.kept) == 1:
        card = sweep.kept[0]
        return card.cheap if card.cheap_version == number else None
    if candidate is None or candidate.version != number or not candidate.entrants:
        return None
    return candidate.entrants[0].probe.scores


def dissolved(sweep: Sweep, candidate: Candidate, outcome: Outcome) -> Sweep:
    """The union is no more. Its cards are looked at again when the head moved; else the winner or its halves go on."""
    kept = measured(sweep.kept, candidate)
    if outcome == "cas-conflict":
        return replace(sweep, kept=kept, candidate=None)
    if outcome == "lost-tournament":
        best = kept[0]
        best = replace(best, choices=(*best.choices, *candidate.choices))
        return replace(sweep, kept=(best,), candidate=None)
    return replace(sweep, kept=(), candidate=None, groups=(*halves(kept), *sweep.groups))
