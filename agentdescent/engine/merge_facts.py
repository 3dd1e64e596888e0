"""Facts of a merge: gates opened and scored, verdicts, commits."""

from __future__ import annotations

from agentdescent import vector
from agentdescent.artifact.diff import identity, union
from agentdescent.budget.governor import hold, release
from agentdescent.budget.usage import NOTHING, add
from agentdescent.engine.allotting import closed, gate_closed, labelled, recorded
from agentdescent.engine.command import Rollout
from agentdescent.engine.contest import Dissolve, dissolved
from agentdescent.engine.economy import merge_begins
from agentdescent.engine.event import (
    Committed,
    Decided,
    GateOpened,
    Judged,
)
from agentdescent.engine.finishing import checks, chose, goes_on, learned_from
from agentdescent.engine.lesson import taught
from agentdescent.engine.merge_needs import Close, Put, begin
from agentdescent.engine.merge_needs import settle as settle_sweep
from agentdescent.engine.population import dev_head, facing, followed
from agentdescent.engine.scoring import hold_test, pay
from agentdescent.engine.state import Head, State, Version, quiet_merges
from agentdescent.engine.turn import sample_again, turn_over
from agentdescent.engine.width import gate_measured
from agentdescent.errors import IllegalEvent
from agentdescent.merge.audit import Auditing, of_candidate
from agentdescent.merge.gate import Gate, fresh_probe, informative, open_gate, prefix_sums
from agentdescent.merge.probe import ask
from agentdescent.merge.rejected import remember
from agentdescent.merge.scores import Scores, blank
from agentdescent.merge.sweep import Sweep, halves, open_cards
from agentdescent.merge.verdict import FutilityEvidence, Outcome
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
    taken = {card.subject for card in open_cards(sweep)}
    cards = tuple(card for card in state.cards if card.subject not in taken)
    state = merge_begins(state)
    return replace(facing(state, sweep), sweep=sweep, cards=cards, quiet=quiet_merges(state)), sweep


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
    if gate.checking:
        gate, state = goes_on(gate, event.choice), recorded(state, event.choice)
    governor, left = pay(state.governor, gate.hold, command.reserve, again=bool(gate.probe.again))
    gate = replace(gate, hold=left, probe=ask(gate.probe, event.attempt))
    return replace(state, governor=governor, sweep=with_gate(sweep, at, gate))


def gate_opened(state: State, event: GateOpened) -> State:
    state, begun = enter(state)
    sweep, need = settle_sweep(state, begun)
    head = state.head
    if not isinstance(need, Put) or need.version.artifact != event.artifact or event.version != head.version.number:
        raise IllegalEvent(f"candidate {event.subject} is not what is put forward")
    union = None if len(need.cards) == 1 else sweep.candidate
    gate = Gate(
        subject=event.subject,
        cards=need.cards,
        entries=need.version.entries,
        artifact=event.artifact,
        size=event.size,
        version=event.version,
        base=head.scores,
        probe=fresh_probe(need.order, head.scores.size),
        prefix=head.prefix if need.order == head.order else prefix_sums(head.scores, need.order),
        weight_gain=event.weight_gain,
        weight_loss=event.weight_loss,
        bar=event.bar,
        hold=event.held,
        curtail=state.spec.curtail,
        wave_min=state.spec.wave_min,
        choices=() if union is None else union.choices,
        tokens=0 if union is None else union.tokens,
        own=need.own,
        prior=event.prior,
        audit=None if event.audit is None else Auditing(event.audit),
    )
    gate = chose(open_gate(gate, need.known, checks=checks(state)), event.choice)
    return replace(
        recorded(state, event.choice),
        governor=hold(state.governor, event.held),
        next_subject=max(state.next_subject, event.subject + 1),
        sweep=replace(sweep, kept=(), candidate=None, gates=(*sweep.gates, gate)),
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
            state = (
                labelled(state, (), event.outcome, 0.0, worker.tokens)
                if card is None
                else closed(state, card, event.outcome)
            )
            state = replace(state, cards=cards)
            if worker.asked < state.spec.samples and event.outcome in SAMPLED_AGAIN:
                return sample_again(state, index, worker)
            return turn_over(state, index, worker)
    state, begun = enter(state)
    sweep, need = settle_sweep(state, begun)
    if isinstance(need, Dissolve) and sweep.candidate is not None and need.subject == event.subject:
        own = sweep.candidate
        choices = () if event.outcome == "lost-tournament" else own.choices  # the winner has them now
        state = labelled(state, choices, event.outcome, 0.0, own.tokens)
        return replace(state, sweep=dissolved(sweep, own, event.outcome))
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
        candidate=None if sweep.candidate is not None and sweep.candidate.subject == subject else sweep.candidate,
    )


def _gate_judged(state: State, event: Judged, sweep: Sweep, at: int, gate: Gate) -> State:
    state = gate_measured(state, gate)
    state = taught(state, gate, event.outcome)
    if event.outcome == "committed":
        state = learned_from(gate_closed(state, gate, event.outcome), gate)
        return replace(state, sweep=with_gate(sweep, at, replace(gate, status="won")))
    sweep = replace(sweep, gates=(*sweep.gates[:at], *sweep.gates[at + 1 :]))
    if event.outcome == "cas-conflict":
        return replace(labelled(state, gate.choices, event.outcome, 0.0, gate.tokens), sweep=_back(sweep, gate))
    state = replace(state, governor=release(state.governor, gate.hold))
    if isinstance(event.evidence, FutilityEvidence):
        gate, state = chose(gate, event.evidence.choice), recorded(state, event.evidence.choice)
    if event.outcome in ("regression", "below-threshold", "futile", "oracle-rejected"):
        state = learned_from(state, gate)
        refused = identity(union(tuple(card.ops for card in gate.cards)))
        if gate.version == state.head.version.number:
            state = replace(state, head=replace(state.head, rejected=remember(state.head.rejected, refused)))
        if event.outcome == "oracle-rejected":
            sweep = replace(sweep, vetoed=True)
        elif len(gate.cards) > 1:  # provisional: the halves go on
            state = labelled(state, gate.choices, event.outcome, 0.0, gate.tokens)
            return replace(state, sweep=replace(sweep, groups=(*halves(gate.cards), *sweep.groups)))
    return replace(gate_closed(state, gate, event.outcome), sweep=sweep)


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
            card = gate.cards[0]
            gate = replace(gate, cards=(replace(card, tokens=card.tokens + gate.tokens),))
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
    best = dev_head(state).scores.total
    state = replace(
        state,
        governor=release(state.governor, freed),
        audited=of_candidate(gate.audit, gate.artifact),
        improved_round=state.round if scores.total > best else state.improved_round,
        sweep=replace(sweep, gates=tuple(others), committed=True),
    )
    version = Version(event.version or event.base + 1, gate.entries, gate.artifact, gate.size)
    state = followed(state, Head(version, scores, blank(head.train.size), order, prefix_sums(scores, order)))
    dev = dev_head(state).version
    if dev.number == version.number:
        state = replace(state, testing=None)
    return requeue_stale(hold_test(state, dev.size))
