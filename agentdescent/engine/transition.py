"""`apply`: fold one fact into the state. Owns every transition; total over Event. It never chooses: what a decision
implies was computed by `decide`. IllegalEvent is raised where the fold would be at odds with itself (an answer to
nothing, a command out of turn, a commit to another head); that `decide` would have taken a decision, replay checks.

To add an event: its record in event.py, its case here, what `decide` does about it, and a golden log.
"""

from __future__ import annotations

from typing import assert_never

from agentdescent import vector
from agentdescent.budget.governor import fits, hold
from agentdescent.budget.usage import NOTHING, add
from agentdescent.engine.answer import answered
from agentdescent.engine.auditing import audit_skipped, decided_audit
from agentdescent.engine.clusters import Clusters, clusters_of
from agentdescent.engine.command import Propose
from agentdescent.engine.event import (
    Abandoned,
    Amended,
    Committed,
    Decided,
    Event,
    Failed,
    GateOpened,
    Interrupted,
    Judged,
    Promoted,
    Proposed,
    RolledOut,
    Skipped,
    Started,
    Stopped,
)
from agentdescent.engine.measuring import decided_measure
from agentdescent.engine.merge_facts import committed, decided_gate, gate_opened, judged
from agentdescent.engine.path import gate_cost, sizes_of, test_cost
from agentdescent.engine.population import dev_head
from agentdescent.engine.scoring import asked_anew, decided_score, hold_test, test_probe
from agentdescent.engine.spend_facts import decided_bout, merge_skipped
from agentdescent.engine.state import Head, State
from agentdescent.engine.turn import decided_propose, decided_turn, decided_verify, revived, skipped
from agentdescent.engine.window import put
from agentdescent.errors import IllegalEvent
from agentdescent.merge.probe import Probe
from agentdescent.merge.scores import blank
from agentdescent.record import replace
from agentdescent.search.sampling import DifficultyWeighted, Stakes, Tally


def apply(state: State, event: Event) -> State:
    """The state after this fact. Raises IllegalEvent when it cannot follow."""
    if isinstance(event, Started):
        if state.started:
            raise IllegalEvent("a second Started")
    elif not state.started:
        raise IllegalEvent(f"{type(event).__name__} before Started")
    elif state.stopped is not None and not isinstance(event, Amended):
        raise IllegalEvent(f"{type(event).__name__} after Stopped")
    match event:
        case Decided():
            after = _decided(state, event)
        case RolledOut() | Proposed() | Failed() | Abandoned():
            after = answered(state, event)
        case Started():
            after = _started(state, event)
        case Skipped():
            after = _skipped(state, event)
        case GateOpened():
            after = gate_opened(state, event)
        case Judged():
            after = judged(state, event)
        case Committed():
            after = committed(state, event)
        case Promoted():
            after = replace(state, stable=dev_head(state).version)
        case Stopped():
            if state.window.count:
                raise IllegalEvent("Stopped while effects are open")
            after = replace(state, stopped=event)
        case Interrupted():
            after = replace(state, interrupted=event.reason)
        case Amended():
            after = _amended(state, event)
        case _:
            assert_never(event)
    return replace(after, seq=state.seq + 1)


def _skipped(state: State, event: Skipped) -> State:
    match event.purpose:
        case "verify":
            return skipped(state, event)
        case "audit":
            return audit_skipped(state, event)
        case _:
            return merge_skipped(state, event)


def _started(state: State, event: Started) -> State:
    split, setup = event.split, event.setup
    position = [0] * len(setup.tasks)
    for part in (split.train, split.heldout, split.test):
        for where, index in enumerate(part):
            position[index] = where
    head = Head(state.head.version, blank(len(split.heldout)), blank(len(split.train)))
    spec, clusters = state.spec, Clusters()
    if isinstance(spec.sampling, Stakes) or spec.fusion_width == "adaptive":
        clusters = clusters_of(setup, split)
    tried = len(split.train) if isinstance(spec.sampling, DifficultyWeighted) else 0
    order = tuple(range(len(split.heldout)))
    state = replace(
        state,
        started=True,
        split=split,
        position=tuple(position),
        head=head,
        heldout=sizes_of(setup, split.heldout),
        test=sizes_of(setup, split.test),
        cheap=sizes_of(setup, tuple(split.heldout[position] for position in split.cheap)),
        base=Probe(order, len(order), head.scores),
        testing=test_probe(len(split.test)),
        clusters=clusters,
        taken=(0,) * len(clusters.train),
        tallies=vector.pack([Tally()] * tried),
    )
    test = test_cost(state, head.version.size)
    base = add(gate_cost(state, head.version.size), test)
    if not fits(state.governor, add(base, test)):
        return state
    return replace(state, base_hold=base, test_hold=test, governor=hold(state.governor, add(base, test)))


def _amended(state: State, event: Amended) -> State:
    if state.stopped is None and state.interrupted is None:
        raise IllegalEvent("Amended while the run is going on")
    spent_only = replace(state.governor, caps=event.caps, due=NOTHING, held=NOTHING)
    state = replace(
        state,
        governor=replace(state.governor, caps=event.caps, overrun=not fits(spent_only, NOTHING)),
        health=replace(state.health, fatal="", in_a_row=0, barren_rounds=0, refused=0),
        stopped=None,
        interrupted=None,
    )
    if state.health.retired:
        state = revived(state)
    if state.base is not None and not state.window.count:
        state = replace(state, base=asked_anew(state.base))
    elif not state.window.count:
        # The end may be further away now; the scores of an unfinished test are good while the head stays what it is.
        # With test effects open the end is not further away: they are folded, and the run ends again.
        state = replace(state, closing=None, testing=None if state.testing is None else asked_anew(state.testing))
    sweep = state.sweep
    if sweep is not None and sweep.parked:
        if state.population.members:  # they may be about other heads
            state = replace(state, sweep=replace(sweep, parked=()), cards=(*sweep.parked, *state.cards))
        else:
            state = replace(state, sweep=replace(sweep, groups=(*sweep.groups, sweep.parked), parked=()))
    return hold_test(state, dev_head(state).version.size) if state.base is None else state


def _decided(state: State, event: Decided) -> State:
    command = event.command
    if command.id != state.next_command:
        raise IllegalEvent(f"command {command.id} where {state.next_command} is next")
    before, state = state, replace(state, next_command=command.id + 1, window=put(state.window, event))
    if isinstance(command, Propose):
        return decided_propose(state, event, command)
    match command.purpose:
        case "rollout":
            return decided_turn(state, event, command)
        case "verify":
            return decided_verify(state, event, command)
        case "gate":
            return decided_gate(state, event, command)
        case "base" | "test":
            return decided_score(state, event, command)
        case "rebase" | "conflict":
            return decided_measure(before, state, event, command)
        case "tournament":
            return decided_bout(before, state, event, command)
        case "audit":
            return decided_audit(state, event, command)
        case "propose" | "score":
            raise IllegalEvent(f"a rollout with purpose {command.purpose}")
        case _:
            assert_never(command.purpose)
