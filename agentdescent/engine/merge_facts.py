"""Facts of a merge: measurements, gates opened and scored, verdicts, commits."""

from __future__ import annotations

from agentdescent import vector
from agentdescent.artifact.diff import identity, union
from agentdescent.budget.governor import hold, release, reserve
from agentdescent.budget.usage import NOTHING, add
from agentdescent.engine.allotting import all_closed, closed
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import (
    Committed,
    Decided,
    GateOpened,
    Judged,
    RolledOut,
)
from agentdescent.engine.merge_needs import Close, Measure, Put, begin, known_scores
from agentdescent.engine.merge_needs import settle as settle_sweep
from agentdescent.engine.scoring import hold_test, pay
from agentdescent.engine.state import Head, State, Version, quiet_merges
from agentdescent.engine.turn import sample_again, turn_over
from agentdescent.engine.width import gate_closed
from agentdescent.errors import IllegalEvent
from agentdescent.merge.gate import Gate, fresh_probe, informative, open_gate, prefix_sums
from agentdescent.merge.probe import Slot, answer, ask, fail
from agentdescent.merge.rejected import remember
from agentdescent.merge.scores import Scores, blank, record
from agentdescent.merge.sweep import Sweep, halves
from agentdescent.merge.verdict import FailureEvidence, Outcome
from agentdescent.record import replace

SAMPLED_AGAIN: tuple[Outcome, ...] = ("oversized", "duplicate", "not-worth-gating")
"""How a proposal ends in its turn that is followed by another from the same rollout."""


def enter(state: State) -> tuple[State, Sweep]:
    """The open sweep, and the state in which it is open: the first fact of a sweep takes the waiting cards."""
    sweep = begin(state, patient=False)
    if sweep is None:
        raise IllegalEvent("no merge is going on")
    if sweep is state.sweep:
        return state, sweep
    cards = tuple(card for card in state.cards if card.verifying)
    return replace(state, sweep=sweep, cards=cards, quiet=quiet_merges(state)), sweep


def current_sweep(state: State) -> Sweep:
    if state.sweep is None:
        raise IllegalEvent("no merge is going on")
    return state.sweep


def gate_at(sweep: Sweep, subject: int) -> tuple[int, Gate]:
    for at, gate in enumerate(sweep.gates):
        if gate.subject == subject:
            return at, gate
    raise IllegalEvent(f"no gate is open for {subject}")


def with_gate(sweep: Sweep, at: int, gate: Gate) -> Sweep:
    return replace(sweep, gates=(*sweep.gates[:at], gate, *sweep.gates[at + 1 :]))


def decided_gate(state: State, event: Decided, command: Rollout) -> State:
    sweep = current_sweep(state)
    at, gate = gate_at(sweep, event.subject)
    governor, left = pay(state.governor, gate.hold, command.reserve, again=bool(gate.probe.again))
    gate = replace(gate, hold=left, probe=ask(gate.probe, event.attempt))
    return replace(state, governor=governor, sweep=with_gate(sweep, at, gate))


def decided_measure(before: State, state: State, event: Decided, command: Rollout) -> State:
    """`before`: the state that the decision was taken in, without the command; the sweep may begin with it."""
    before, begun = enter(before)
    sweep, need = settle_sweep(before, begun)
    state = replace(state, cards=before.cards, quiet=before.quiet)
    if not isinstance(need, Measure) or need.subject != event.subject:
        raise IllegalEvent(f"nothing to measure for {event.subject}")
    if sweep.trial is not None:
        trial = sweep.trial
        if command.artifact == trial.artifact:
            trial = replace(trial, asked_before=True)
        else:
            trial = replace(trial, asked_after=True)
        sweep = replace(sweep, trial=trial)
    elif sweep.duel is not None:
        duel = sweep.duel
        if event.subject == duel.rival:
            duel = replace(duel, theirs=ask(duel.theirs, event.attempt))
        else:
            duel = replace(duel, ours=ask(duel.ours, event.attempt))
        sweep = replace(sweep, duel=duel)
    return replace(state, governor=reserve(state.governor, command.reserve), sweep=sweep)


def measured(state: State, event: RolledOut, decided: Decided, command: Rollout, bar: int) -> State:
    sweep, position = current_sweep(state), state.position[command.task]
    if sweep.trial is not None:
        if command.artifact == state.head.version.artifact:
            train = record(state.head.train, position, event.score, bar)
            state = replace(state, head=replace(state.head, train=train))
        if command.artifact == sweep.trial.artifact:
            trial = replace(sweep.trial, before=event.score, asked_before=False)
        else:
            trial = replace(sweep.trial, after=event.score, asked_after=False)
        return replace(state, sweep=replace(sweep, trial=trial))
    if sweep.duel is None:
        raise IllegalEvent("a measurement that nobody asked for")
    duel = sweep.duel
    if decided.subject == duel.rival:
        duel = replace(duel, theirs=answer(duel.theirs, position, event.score, bar))
    else:
        duel = replace(duel, ours=answer(duel.ours, position, event.score, bar))
    return replace(state, sweep=replace(sweep, duel=duel))


def measure_failed(
    state: State, decided: Decided, command: Rollout, attempt: int, why: FailureEvidence | None
) -> State:
    sweep, limit = current_sweep(state), state.spec.attempts
    if sweep.trial is not None:
        trial = replace(sweep.trial, attempts=attempt)
        if command.artifact == trial.artifact:
            trial = replace(trial, asked_before=False)
        else:
            trial = replace(trial, asked_after=False)
        if why is not None and attempt >= limit:
            trial = replace(trial, failure=why)
        return replace(state, sweep=replace(sweep, trial=trial))
    if sweep.duel is None:
        raise IllegalEvent("a measurement that nobody asked for")
    duel, slot = sweep.duel, Slot(state.position[command.task], attempt)
    if decided.subject == duel.rival:
        duel = replace(duel, theirs=fail(duel.theirs, slot, limit, why))
    else:
        duel = replace(duel, ours=fail(duel.ours, slot, limit, why))
    return replace(state, sweep=replace(sweep, duel=duel))


def gate_opened(state: State, event: GateOpened) -> State:
    state, begun = enter(state)
    sweep, need = settle_sweep(state, begun)
    head = state.head
    if not isinstance(need, Put) or need.version.artifact != event.artifact or event.version != head.version.number:
        raise IllegalEvent(f"candidate {event.subject} is not what is put forward")
    full = len(need.order) == len(head.order)
    gate = Gate(
        subject=event.subject,
        cards=need.cards,
        entries=need.version.entries,
        artifact=event.artifact,
        size=event.size,
        version=event.version,
        base=head.scores,
        probe=fresh_probe(need.order, head.scores.size),
        prefix=head.prefix if full else prefix_sums(head.scores, need.order),
        weight_gain=event.weight_gain,
        weight_loss=event.weight_loss,
        bar=event.bar,
        hold=event.held,
        curtail=state.spec.curtail,
        wave_min=state.spec.wave_min,
    )
    gate = open_gate(gate, known_scores(state, need.cards))
    return replace(
        state,
        governor=hold(state.governor, event.held),
        next_subject=max(state.next_subject, event.subject + 1),
        sweep=replace(sweep, kept=(), gates=(*sweep.gates, gate)),
    )


def judged(state: State, event: Judged) -> State:
    if state.sweep is not None:
        for at, gate in enumerate(state.sweep.gates):
            if gate.subject == event.subject:
                return _gate_judged(state, event, state.sweep, at, gate)
    for index in state.ready:
        worker = vector.get(state.workers, index)
        card = worker.card
        if worker.subject == event.subject or (card is not None and card.subject == event.subject):
            cards = tuple(other for other in state.cards if other.subject != event.subject)
            if card is not None:
                state = closed(state, card, event.outcome)
            state = replace(state, cards=cards)
            if worker.asked < state.spec.samples and event.outcome in SAMPLED_AGAIN:
                return sample_again(state, index, worker)
            return turn_over(state, index, worker)
    state, begun = enter(state)
    sweep, need = settle_sweep(state, begun)
    if not isinstance(need, Close) or need.card.subject != event.subject:
        raise IllegalEvent(f"proposal {event.subject} is not to be judged")
    return replace(closed(state, need.card, event.outcome), sweep=_without(state, sweep, event.subject))


def _without(state: State, sweep: Sweep, subject: int) -> Sweep:
    """The sweep without this card; what a duel measured of the other one stays with it."""
    number = state.head.version.number
    intake, kept = sweep.intake, sweep.kept
    if sweep.duel is not None:
        duel = sweep.duel
        intake = (replace(intake[0], cheap=duel.ours.scores, cheap_version=number), *intake[1:])
        kept = tuple(
            replace(card, cheap=duel.theirs.scores, cheap_version=number) if card.subject == duel.rival else card
            for card in kept
        )
    return replace(
        sweep,
        trial=None,
        duel=None,
        intake=tuple(card for card in intake if card.subject != subject),
        kept=tuple(card for card in kept if card.subject != subject),
    )


def _gate_judged(state: State, event: Judged, sweep: Sweep, at: int, gate: Gate) -> State:
    state = gate_closed(state, gate)
    if event.outcome == "committed":
        return replace(
            all_closed(state, gate.cards, event.outcome), sweep=with_gate(sweep, at, replace(gate, status="won"))
        )
    sweep = replace(sweep, gates=(*sweep.gates[:at], *sweep.gates[at + 1 :]))
    if event.outcome == "cas-conflict":
        return replace(state, sweep=_back(sweep, gate))
    state = replace(state, governor=release(state.governor, gate.hold))
    if event.outcome in ("regression", "below-threshold"):
        refused = identity(union(tuple(card.ops for card in gate.cards)))
        if gate.version == state.head.version.number:
            state = replace(state, head=replace(state.head, rejected=remember(state.head.rejected, refused)))
        if len(gate.cards) > 1:  # provisional: the halves go on
            return replace(state, sweep=replace(sweep, groups=(*halves(gate.cards), *sweep.groups)))
    return replace(all_closed(state, gate.cards, event.outcome), sweep=sweep)


def _back(sweep: Sweep, gate: Gate) -> Sweep:
    """The cards of a gate under which the head moved go through the merge again."""
    cards = tuple(replace(card, reopened=card.reopened + 1) for card in gate.cards)
    return replace(sweep, groups=(cards, *sweep.groups))


def requeue_stale(state: State) -> State:
    """A single card whose gate is stale and has nothing open goes back; a stale union is judged first."""
    sweep = state.sweep
    if sweep is None:
        return state
    for at, gate in enumerate(sweep.gates):
        if gate.status == "stale" and gate.probe.open == 0 and len(gate.cards) == 1:
            rest = replace(sweep, gates=(*sweep.gates[:at], *sweep.gates[at + 1 :]))
            return requeue_stale(replace(state, sweep=_back(rest, gate)))
    return state


def committed(state: State, event: Committed) -> State:
    sweep = current_sweep(state)
    at, gate = gate_at(sweep, event.subject)
    head = state.head
    if gate.status != "won" or event.base != head.version.number or event.artifact != gate.artifact:
        raise IllegalEvent(f"candidate {event.subject} cannot follow version {head.version.number}")
    scores: Scores = gate.probe.scores
    order = informative(scores) if state.spec.gate_order == "informative" else head.order
    freed, others = gate.hold, list[Gate]()
    for other in (*sweep.gates[:at], *sweep.gates[at + 1 :]):
        freed = add(freed, other.hold)
        others.append(replace(other, status="stale", hold=NOTHING))
    state = replace(
        state,
        governor=release(state.governor, freed),
        head=Head(
            Version(event.base + 1, gate.entries, gate.artifact, gate.size),
            scores,
            blank(head.train.size),
            order,
            prefix_sums(scores, order),
        ),
        testing=None,
        improved_round=state.round if scores.total > head.scores.total else state.improved_round,
        sweep=replace(sweep, gates=tuple(others), committed=True),
    )
    return requeue_stale(hold_test(state, gate.size))
