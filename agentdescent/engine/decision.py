"""`decide`: the next fact to record, or why there is none. Pure: equal states decide equally.

Order of precedence: begin; halting (interrupted, overrun, fatal: nothing that costs); the base; workers that have
something to decide; workers that may start; at the barrier the merge; then the end of the run or the next round.
"""

from __future__ import annotations

from typing import TypeAlias

from agentdescent import vector
from agentdescent.budget.governor import Purpose, alone, binding, reservation
from agentdescent.budget.usage import NOTHING
from agentdescent.engine.asking import ask_rollout
from agentdescent.engine.command import Rollout
from agentdescent.engine.draw import Draw
from agentdescent.engine.event import (
    Decided,
    Decision,
    GateOpened,
    Promoted,
    Started,
    Stopped,
    StopReason,
)
from agentdescent.engine.flow import next_round
from agentdescent.engine.merge_decision import merge_step, verdict
from agentdescent.engine.merge_needs import begin, going_on
from agentdescent.engine.path import cheapest_path
from agentdescent.engine.scoring import test_probe
from agentdescent.engine.split import make_split
from agentdescent.engine.state import State, quiet_merges
from agentdescent.engine.turn_decision import advance, start_lane, start_turn
from agentdescent.engine.window import Window, idents, next_in_order, open_effects
from agentdescent.errors import IllegalEvent
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.probe import Probe, next_slot
from agentdescent.merge.sweep import finished, open_cards
from agentdescent.record import Record

PROMOTE_AFTER = 3
BARREN_ROUNDS = 2
BASE: Purpose = "base"
TEST: Purpose = "test"


class Wait(Record, frozen=True):
    """Nothing to decide before an answer arrives: to any effect of the window, or where they are folded in order, to
    the first of them."""

    window: Window
    ordered: bool

    @property
    def admissible(self) -> tuple[int, ...]:
        """The command ids whose answer may be folded next, oldest first."""
        return (next_in_order(self.window),) if self.ordered else idents(self.window)


Step: TypeAlias = Decision | Wait


def decide(state: State, draw: Draw) -> Step:
    """The next decision; Wait only while an effect is open; after the end, the recorded Stopped again."""
    if not state.started:
        return Started(state.spec, state.setup, make_split(state.spec, state.setup, draw))
    if state.stopped is not None:
        return state.stopped
    event = _next(state, draw)
    halt = halting(state)
    if halt is not None and isinstance(event, Decided | GateOpened | Promoted | Stopped):
        event = verdict(state)
    if event is not None:
        return event
    if state.window.count:
        return Wait(state.window, state.spec.admission == "ordered")
    if halt is None:
        raise IllegalEvent("nothing is open and nothing can be decided: this state was not made by `apply`")
    return _stop(state, halt)


def halting(state: State) -> StopReason | None:
    """Why nothing that costs is decided any more."""
    if state.governor.overrun:
        return "overrun"
    if state.health.fatal:
        return "error"
    return state.interrupted


def _stop(state: State, reason: StopReason) -> Stopped:
    open_subjects = {card.subject for card in state.cards}
    open_subjects.update(worker.subject for worker in vector.items(state.workers))
    if state.sweep is not None:
        open_subjects.update(card.subject for card in open_cards(state.sweep))
        open_subjects.update(gate.subject for gate in state.sweep.gates)
    error = ""
    if reason == "overrun":
        error = _overrun(state)
    elif reason == "error":
        error = state.health.fatal or _base_failure(state) or state.health.last
    return Stopped(reason, error, tuple(sorted(open_subjects - {-1})))


def _overrun(state: State) -> str:
    governor = state.governor
    spent, caps, tariff = governor.spent, governor.caps, governor.tariff
    used = f"spent {spent.tokens} tokens (cap {caps.tokens}), {spent.calls} calls (cap {caps.calls})"
    if tariff.solve.strict and tariff.propose.strict:
        return f"a call used more than its tariff allows: {used}; raise its overhead, ceiling or calls"
    return f"a call of unknown cost crossed the cap: {used}; give the agent a strict tariff, or raise the cap"


def _base_failure(state: State) -> str:
    probe = state.base
    return "" if probe is None or probe.failure is None else f"the base cannot be scored: {probe.failure.message}"


def _next(state: State, draw: Draw) -> Decision | None:
    window = state.window
    if window.count == 1:
        only = open_effects(window)[0].command
        if alone(state.governor, "solve" if isinstance(only, Rollout) else "propose"):
            return None
    if state.base is not None:
        return _base(state, state.base)
    if state.closing is not None:
        return _close(state, state.closing)
    if state.spec.schedule == "continuous":
        return _continuous(state, draw)
    sweep = state.sweep
    if sweep is None:
        for index in state.ready:
            event = advance(state, index, draw)
            if event is not None:
                return event
        event = start_turn(state, state.cursor, state.round, draw)
        if event is not None or window.count:
            return event
        sweep = begin(state)
        if sweep is None and state.cards and _ended(state) is None:  # too few for a gate: another round first
            event = start_turn(state, 0, state.round + 1, draw)
            if event is not None:
                return event
        sweep = sweep or begin(state, patient=False)
    if sweep is not None and not finished(sweep):
        event = merge_step(state, sweep)
        if event is not None or window.count:
            return event
    return _barrier(state, draw)


def _continuous(state: State, draw: Draw) -> Decision | None:
    """No barrier: turns go on beside the merge, whose effects come first, since every worker waits for its commits.

    At the end of `rounds` and of `patience` no turn starts, and what is in progress is merged. Where nothing more is
    wanted (the target, all solved) or to be had, what is open is awaited and what is not merged stays unresolved.
    """
    reason = _ended(state)
    if reason is not None and reason not in ("rounds", "patience"):
        event = verdict(state)
        return event if event is not None or state.window.count else _end(state, reason)
    sweep = begin(state)
    if sweep is not None and (sweep is not state.sweep or going_on(state) is not None):
        event = merge_step(state, sweep)
        if event is not None:
            return event
    elif quiet_merges(state) >= PROMOTE_AFTER and state.stable.number != state.head.version.number:
        return Promoted(state.head.version.number)
    for index in state.ready:
        event = advance(state, index, draw)
        if event is not None:
            return event
    event = start_lane(state, draw) if reason is None else None
    if event is not None or state.window.count:
        return event
    sweep = begin(state, patient=False)  # nothing can begin that would bring more
    event = None if sweep is None or sweep is state.sweep else merge_step(state, sweep)
    if event is not None:
        return event
    return _end(state, reason or _spent_out(state))


def _base(state: State, probe: Probe) -> Decision | None:
    """The head on every held-out task, then on every test task; nothing else is decided before."""
    if probe.failure is not None:
        return None if state.window.count else _stop(state, "error")
    slot, part, purpose = next_slot(probe), state.split.heldout, BASE
    if slot is None and state.testing is not None:
        probe, slot, part, purpose = state.testing, next_slot(state.testing), state.split.test, TEST
    if slot is None or (state.window.count and alone(state.governor, "solve")):
        return None
    earmark = NOTHING if probe.again else state.base_hold
    task = part[slot.position]
    event = ask_rollout(state, purpose, state.head.version, task, attempt=slot.attempt, earmark=earmark)
    if event is None and not state.window.count:
        return _stop(state, _binding(state, task))
    return event


def _binding(state: State, task: int) -> StopReason:
    size = state.head.version.size + state.setup.tasks[task].size
    return binding(state.governor, reservation(state.governor, "solve", size))


def _barrier(state: State, draw: Draw) -> Decision:
    """Nothing is open and nothing can be merged: promote, end, or begin the next round."""
    head = state.head.version
    if quiet_merges(state) >= PROMOTE_AFTER and state.stable.number != head.number:
        return Promoted(head.number)
    reason = _ended(state)
    if reason is None:
        return start_turn(state, 0, state.round + 1, draw) or _end(state, _spent_out(state))
    return _end(state, reason)


def _ended(state: State) -> StopReason | None:
    spec, scores, health = state.spec, state.head.scores, state.health
    if spec.schedule == "continuous":
        barren = health.refused >= 2 * spec.n_workers
    else:
        all_failed = health.proposals > 0 and health.proposals == health.proposals_failed
        barren = health.barren_rounds + all_failed >= BARREN_ROUNDS
    if barren or health.retired == spec.n_workers:
        return "error"
    if scores.solved == scores.size and state.head.train.solved == state.head.train.size:
        return "solved"
    if spec.target is not None and scores.total >= round(spec.target * MILLION) * scores.size:
        return "target_reward"
    # On the continuous schedule a round is over when the next turn would belong to another.
    rounds = state.round if spec.schedule == "rounds" else next_round(state.flow, spec) - 1
    if spec.patience is not None and rounds - state.improved_round >= spec.patience:
        return "patience"
    limit = state.governor.caps.rounds
    return "rounds" if limit is not None and rounds >= limit else None


def _spent_out(state: State) -> StopReason:
    return binding(state.governor, cheapest_path(state))


def _end(state: State, reason: StopReason) -> Decision:
    """A clean end: test the head once unless it was, promote it, stop."""
    if reason == "error":
        return _stop(state, reason)
    return _close(state, reason) or _finish(state, reason)


def _close(state: State, reason: StopReason) -> Decision | None:
    head = state.head.version
    probe = None if state.tested == head.artifact else state.testing or test_probe(len(state.split.test))
    slot = None if probe is None else next_slot(probe)
    if probe is not None and slot is not None:
        earmark = NOTHING if probe.again else state.test_hold
        task = state.split.test[slot.position]
        event = ask_rollout(state, "test", head, task, attempt=slot.attempt, earmark=earmark, closing=reason)
        if event is not None:
            return event
    return None if state.window.count else _finish(state, reason)


def _finish(state: State, reason: StopReason) -> Decision:
    if state.stable.number != state.head.version.number:
        return Promoted(state.head.version.number)
    return _stop(state, reason)
