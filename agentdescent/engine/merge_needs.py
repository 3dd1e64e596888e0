"""What the open sweep needs next. `settle` makes every move that needs no fact; decide and apply both start from it,
so neither can see a sweep that the other does not."""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent.artifact.diff import Ops, change, contradict, identity, union
from agentdescent.budget.governor import fits, reservation
from agentdescent.budget.usage import NOTHING, Amount, add
from agentdescent.engine.contest import Bout, Dissolve, Enter, Lost, Ready, cheap_probe, contest, enter, known_of
from agentdescent.engine.finishing import gate_order
from agentdescent.engine.flow import in_progress
from agentdescent.engine.path import audit_hold, gate_hold
from agentdescent.engine.population import behind, facing, held, live
from agentdescent.engine.state import State, Version, version_of
from agentdescent.engine.width import chunks, wide_enough
from agentdescent.merge.card import Card, staleness, tolerance
from agentdescent.merge.contest import Candidate
from agentdescent.merge.probe import next_slot
from agentdescent.merge.rejected import contains
from agentdescent.merge.scores import UNKNOWN, Scores, score_at
from agentdescent.merge.sweep import Duel, Sweep, Trial, finished, halves
from agentdescent.merge.verdict import Evidence, FailureEvidence, Outcome, StaleEvidence, SubsetEvidence
from agentdescent.record import Record, replace

MAX_REOPENED = 3


class Close(Record, frozen=True):
    """A card ends without a gate."""

    card: Card
    outcome: Outcome
    evidence: Evidence | None = None


class Put(Record, frozen=True):
    """What is kept goes before the gate as one candidate; `hold` is what opening it earmarks. `known`: scores that were
    paid for already; `own`: failing tasks of the clusters that prompted it."""

    cards: tuple[Card, ...]
    ops: Ops
    version: Version
    order: tuple[int, ...]
    hold: Amount
    known: Scores | None = None
    own: tuple[int, ...] = ()


class Measure(Record, frozen=True):
    """An effect the trial, duel or tournament in progress wants: `task` indexes the run's tasks."""

    purpose: Literal["rebase", "conflict", "tournament"]
    subject: int
    version: Version
    task: int
    attempt: int
    reserve: Amount


Need: TypeAlias = Close | Dissolve | Enter | Put | Measure | None


def going_on(state: State) -> Sweep | None:
    """The sweep that has something left to do; also what is left may not fit the budget, and then it is over."""
    last = state.sweep
    if last is None or finished(last):
        return None
    if state.window.count or last.gates:
        return last
    settled, need = settle(state, last)
    return None if need is None and finished(settled) else last


def begin(state: State, *, patient: bool = True) -> Sweep | None:
    """The open sweep, or the one that would begin now with all waiting cards, oldest first; else the last one, which
    is over, or None. On the rounds schedule a sweep begins at the barrier and is open until the next round; with
    several heads only until it is over: the next one is about another head. `patient`: not before enough cards wait."""
    last = state.sweep
    one_a_round = state.spec.schedule == "rounds" and not state.population.members
    if last is not None and (one_a_round or going_on(state) is not None):
        return last
    waiting = tuple(card for card in state.cards if not card.verifying)
    if not waiting or (patient and not _enough(state, waiting)):
        return last
    parked = () if last is None else settle(state, last)[0].parked
    if state.population.members:
        return _begin_among(state, waiting, parked) or last
    return Sweep(state.head.version.number, chunks(state, _in_order((*parked, *waiting))))


def _in_order(cards: tuple[Card, ...]) -> tuple[Card, ...]:
    return tuple(sorted(cards, key=lambda card: (card.version, card.worker, card.subject)))


def _begin_among(state: State, waiting: tuple[Card, ...], parked: tuple[Card, ...]) -> Sweep | None:
    """The sweep of the head of the oldest waiting card that has anything to do. Cards parked for others stay parked."""
    numbers = {card.subject: live(state, card.version).version.number for card in (*waiting, *parked)}
    for number in dict.fromkeys(numbers[subject] for subject in sorted(card.subject for card in waiting)):
        own = tuple(card for card in (*parked, *waiting) if numbers[card.subject] == number)
        others = tuple(card for card in parked if numbers[card.subject] != number)
        sweep = Sweep(number, (_in_order(own),), parked=others)
        if settle(facing(state, sweep), sweep)[1] is not None:
            return sweep
    return None


def _enough(state: State, cards: tuple[Card, ...]) -> bool:
    """Whether a merge of these cards waits for no more: `merge_size` as long as turns are in progress, which may bring
    more, and the width of a fusion."""
    spec = state.spec
    if len(cards) < spec.merge_size and state.window.count and in_progress(state.flow, spec):
        return False
    return wide_enough(state, cards)


def settle(state: State, sweep: Sweep) -> tuple[Sweep, Need]:
    """The sweep after every move that needs no fact, and what it needs then; nothing when it has to wait or is over."""
    number = state.head.version.number
    while True:
        if sweep.trial is not None:
            moved: Sweep | Need = _after_trial(state, sweep, sweep.trial)
        elif sweep.duel is not None:
            moved = _after_duel(state, sweep, sweep.duel)
        elif sweep.candidate is not None:
            moved = _candidate(state, sweep, sweep.candidate)
        elif sweep.kept and sweep.kept[0].version != number:
            moved = replace(sweep, kept=(), intake=(*sweep.kept, *sweep.intake))
        elif sweep.intake:
            moved = _admit(state, sweep)
        elif len(sweep.gates) >= state.spec.open_gates:
            return sweep, None
        elif sweep.kept:
            moved = _put(state, sweep)
        elif sweep.groups:
            moved = replace(sweep, intake=sweep.groups[0], groups=sweep.groups[1:])
        else:
            return sweep, None
        if not isinstance(moved, Sweep):
            return sweep, moved
        sweep = moved


def _admit(state: State, sweep: Sweep) -> Sweep | Close:
    """Staleness and conflict of the first card of the intake."""
    card, head = sweep.intake[0], state.head
    number = head.version.number
    if card.version != number:
        if card.reopened > MAX_REOPENED:
            return Close(card, "cas-conflict")
        if _with_change(state, card).artifact == head.version.artifact:
            return Close(card, "duplicate")
        allowed = tolerance(state.spec.strategy.blast_radius)
        at_start = staleness(state.spec.staleness, behind(state, sweep.version, card.version), allowed)
        if at_start == "discard":
            return Close(card, "all-stale", StaleEvidence(behind(state, number, card.version)))
        if state.spec.staleness != "full":
            return replace(sweep, trial=_trial(state, card))
        card = replace(card, version=number)
    if contains(head.rejected, card.identity):
        return Close(card, "duplicate")
    rival = next((kept for kept in sweep.kept if contradict(kept.ops, card.ops)), None)
    if rival is not None:
        intake = (card, *sweep.intake[1:])
        theirs, ours = cheap_probe(state, rival), cheap_probe(state, card)
        return replace(sweep, intake=intake, duel=Duel(rival.subject, theirs, ours, head.version.entries))
    return replace(sweep, intake=sweep.intake[1:], kept=(*sweep.kept, card))


def _trial(state: State, card: Card) -> Trial:
    known, head = score_at(state.head.train, state.position[card.task]), state.head.version
    return Trial(head.number, head.artifact, head.entries, before=None if known == UNKNOWN else known)


def _after_trial(state: State, sweep: Sweep, trial: Trial) -> Sweep | Close | Measure | None:
    card, head = sweep.intake[0], state.head.version
    if trial.failure is None and trial.version == head.number:
        if trial.before is None and not trial.asked_before:
            return _measure(state, sweep, Measure("rebase", card.subject, head, card.task, trial.attempts, NOTHING))
        if trial.after is None and not trial.asked_after:
            version = _with_change(state, card)
            return _measure(state, sweep, Measure("rebase", card.subject, version, card.task, trial.attempts, NOTHING))
    if trial.asked_before or trial.asked_after:
        return None
    if trial.version != head.number:
        return replace(sweep, trial=None)
    if trial.failure is not None or trial.before is None or trial.after is None:
        return Close(card, "failed", trial.failure)
    if trial.after < trial.before:
        late = behind(state, head.number, card.version)
        return Close(card, "all-stale", StaleEvidence(late, trial.before, trial.after))
    card = replace(card, version=head.number, before=trial.before, delta=trial.after - trial.before)
    return replace(sweep, trial=None, intake=(card, *sweep.intake[1:]))


def _after_duel(state: State, sweep: Sweep, duel: Duel) -> Sweep | Close | Measure | None:
    card = sweep.intake[0]
    rival = next(kept for kept in sweep.kept if kept.subject == duel.rival)
    current = card.version == state.head.version.number
    if current and duel.ours.failure is None and duel.theirs.failure is None:
        for probe, who in ((duel.theirs, rival), (duel.ours, card)):
            slot = next_slot(probe)
            if slot is not None:
                task = state.split.heldout[slot.position]
                version = _with_change(state, who)
                return _measure(state, sweep, Measure("conflict", who.subject, version, task, slot.attempt, NOTHING))
    if duel.ours.open or duel.theirs.open:
        return None
    if not current:
        return replace(sweep, duel=None)
    if duel.ours.failure is not None:
        return Close(card, "failed", duel.ours.failure)
    if duel.theirs.failure is not None:
        return Close(rival, "failed", duel.theirs.failure)
    own, other = duel.ours.scores.total, duel.theirs.scores.total
    if own > other:
        return Close(rival, "lost-conflict", SubsetEvidence(other, own, card.subject))
    return Close(card, "lost-conflict", SubsetEvidence(own, other, rival.subject))


def _measure(state: State, sweep: Sweep, wanted: Measure) -> Sweep | Measure | None:
    """The effect with its reservation when it fits. When it never will in this sweep: a card to be rebased is
    parked, one that would be compared goes on in a group of its own instead."""
    size = state.setup.tasks[wanted.task].size
    reserve = reservation(state.governor, "solve", wanted.version.size + size)
    if fits(state.governor, reserve):
        return replace(wanted, reserve=reserve)
    if state.window.count or sweep.gates:
        return None
    card, rest = sweep.intake[0], sweep.intake[1:]
    if wanted.purpose == "rebase":
        return replace(sweep, trial=None, intake=rest, parked=(*sweep.parked, card))
    return replace(sweep, duel=None, intake=rest, groups=(*sweep.groups, (card,)))


def _with_change(state: State, card: Card) -> Version:
    """The head with this card's change alone."""
    head = state.head.version
    return version_of(state.spec, head.number, change(head.entries, card.ops))


def _put(state: State, sweep: Sweep) -> Sweep | Need:
    cards, head = sweep.kept, state.head
    if len(cards) > 1 and state.spec.fusion == "none":
        return replace(sweep, kept=(), groups=(*((card,) for card in cards), *sweep.groups))
    ops = cards[0].ops if len(cards) == 1 else union(tuple(card.ops for card in cards))
    if len(cards) > 1:
        fused = identity(ops)
        if contains(head.rejected, fused):
            return replace(sweep, kept=(), groups=(*halves(cards), *sweep.groups))
        whole = next((card for card in cards if card.identity == fused), None)
        if whole is not None:  # it holds what the others propose: it goes first, and alone
            others = tuple(card for card in cards if card is not whole)
            return replace(sweep, kept=(), groups=((whole,), others, *sweep.groups))
    return _forward(state, sweep, ops)


def _candidate(state: State, sweep: Sweep, candidate: Candidate) -> Sweep | Need:
    move = contest(state, sweep, candidate)
    match move:
        case Bout():
            task, attempt = state.split.heldout[move.slot.position], move.slot.attempt
            return Measure("tournament", move.entrant.subject, move.version, task, attempt, move.reserve)
        case Lost():
            return Close(move.card, move.outcome, move.evidence)
        case Ready():
            return _forward(state, sweep, union(tuple(card.ops for card in sweep.kept)))
        case _:
            return move


def _forward(state: State, sweep: Sweep, ops: Ops) -> Sweep | Need:
    """What is kept goes before the gate, if that fits; a union with a tournament before it."""
    cards, head, candidate = sweep.kept, state.head, sweep.candidate
    version = version_of(state.spec, head.version.number, change(head.version.entries, ops))
    if candidate is None and held(state, version.artifact):
        if len(cards) > 1:
            return replace(sweep, kept=(), groups=(*halves(cards), *sweep.groups))
        return Close(cards[0], "duplicate")
    known = known_of(state, sweep)
    order, own = gate_order(state, cards)
    if known is not None:
        order = tuple(p for p in order if score_at(known, p) == UNKNOWN)
    hold = add(gate_hold(state, version.size, len(order)), audit_hold(state, head.version, version.size))
    if fits(state.governor, hold):
        if len(cards) > 1 and state.spec.tournament and candidate is None:
            return enter(state, cards, version, hold)
        return Put(cards, ops, version, order, hold, known, own)
    if sweep.gates or state.window.count:
        return None
    if candidate is not None:
        return Dissolve(candidate.subject, "failed", FailureEvidence("budget", "its gate does not fit the budget"))
    if len(cards) > 1:
        return replace(sweep, kept=(), groups=(*halves(cards), *sweep.groups))
    return replace(sweep, kept=(), parked=(*sweep.parked, *cards))
