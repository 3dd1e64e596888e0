"""Facts of what a merge measures before a gate: a card rebased onto the head, two that contradict compared."""

from __future__ import annotations

from agentdescent.budget.governor import reserve
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Decided, RolledOut
from agentdescent.engine.merge_facts import current_sweep, enter
from agentdescent.engine.merge_needs import Measure
from agentdescent.engine.merge_needs import settle as settle_sweep
from agentdescent.engine.state import State
from agentdescent.errors import IllegalEvent
from agentdescent.merge.probe import Slot, answer, ask, fail
from agentdescent.merge.scores import record
from agentdescent.merge.verdict import FailureEvidence
from agentdescent.record import replace


def decided_measure(before: State, state: State, event: Decided, command: Rollout) -> State:
    """`before`: the state that the decision was taken in, without the command; the sweep may begin with it."""
    before, begun = enter(before)
    sweep, need = settle_sweep(before, begun)
    state = replace(before, next_command=state.next_command, window=state.window)
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
