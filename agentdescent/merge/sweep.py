"""One merge: groups of cards pass staleness and conflicts, are fused, and go before the gate one after another.

A group's cards move from `intake` through `trial` (rebase) and `duel` (conflict) to `kept`; what is kept is put
forward as one candidate. A rejected union comes back as two groups, older first.
"""

from __future__ import annotations

from agentdescent.artifact.diff import Entries
from agentdescent.merge.card import Card
from agentdescent.merge.contest import Candidate
from agentdescent.merge.gate import Gate
from agentdescent.merge.probe import Probe
from agentdescent.merge.verdict import FailureEvidence
from agentdescent.record import Record


class Trial(Record, frozen=True):
    """A rebase of the first card of the intake: the head on its task, then the head with the change.

    `version`, `artifact`, `entries`: the head's; a trial under another head starts again. `before`,
    `after` in millionths, None while unknown; `asked_*`: being asked for; `attempts`: failures so far.
    """

    version: int
    artifact: str
    entries: Entries
    before: int | None = None
    after: int | None = None
    asked_before: bool = False
    asked_after: bool = False
    attempts: int = 0
    failure: FailureEvidence | None = None


class Duel(Record, frozen=True):
    """The first card of the intake against the kept card it contradicts, on the cheap subset. `entries`: the head's."""

    rival: int
    theirs: Probe
    ours: Probe
    entries: Entries


class Sweep(Record, frozen=True):
    """`version`: the head's when the sweep began, against which staleness is judged. `parked`: cards whose next
    stage does not fit the budget; they stay open for the next sweep. `candidate`: what is kept, once it has a number.
    `committed`, `vetoed`: whether anything was."""

    version: int
    groups: tuple[tuple[Card, ...], ...]
    intake: tuple[Card, ...] = ()
    kept: tuple[Card, ...] = ()
    parked: tuple[Card, ...] = ()
    trial: Trial | None = None
    duel: Duel | None = None
    gates: tuple[Gate, ...] = ()
    committed: bool = False
    candidate: Candidate | None = None
    vetoed: bool = False


def finished(sweep: Sweep) -> bool:
    return not (sweep.groups or sweep.intake or sweep.kept or sweep.gates)


def halves(cards: tuple[Card, ...]) -> tuple[tuple[Card, ...], tuple[Card, ...]]:
    """The older and the younger half; the older is the larger one."""
    middle = (len(cards) + 1) // 2
    return cards[:middle], cards[middle:]


def at_work(sweep: Sweep | None) -> int:
    """How many cards the sweep is about: not those that are parked."""
    return 0 if sweep is None else len(open_cards(sweep)) - len(sweep.parked)


def open_cards(sweep: Sweep) -> tuple[Card, ...]:
    """Every card the sweep still holds, in no particular order."""
    grouped = tuple(card for group in sweep.groups for card in group)
    gated = tuple(card for gate in sweep.gates for card in gate.cards)
    return (*grouped, *sweep.intake, *sweep.kept, *sweep.parked, *gated)
