"""Facts of optional spends of a merge: a tournament, and what was skipped."""

from __future__ import annotations

from agentdescent.budget.governor import reserve
from agentdescent.engine.allotting import recorded
from agentdescent.engine.command import Rollout
from agentdescent.engine.contest import Enter
from agentdescent.engine.event import Decided, RolledOut, Skipped
from agentdescent.engine.merge_facts import current_sweep, enter
from agentdescent.engine.merge_needs import Measure, Put
from agentdescent.engine.merge_needs import settle as settle_sweep
from agentdescent.engine.state import State
from agentdescent.errors import IllegalEvent
from agentdescent.merge.contest import Candidate, Entrant, entrant_of, with_probe
from agentdescent.merge.probe import Slot, answer, ask, fail
from agentdescent.merge.sweep import Sweep
from agentdescent.merge.verdict import FailureEvidence
from agentdescent.record import replace


def merge_skipped(state: State, event: Skipped) -> State:
    """A tournament or a gate that is not made."""
    state, begun = enter(state)
    sweep, need = settle_sweep(state, begun)
    number = state.head.version.number
    own = () if event.choice is None else (event.choice,)
    if event.purpose == "tournament" and isinstance(need, Enter):
        sweep = replace(sweep, candidate=Candidate(event.subject, number, own, decided=True))
    elif event.purpose == "gate" and isinstance(need, Put):
        candidate = sweep.candidate or Candidate(event.subject, number)
        candidate = replace(candidate, decided=True, refused=True)
        if len(need.cards) == 1:
            card = need.cards[0]
            sweep = replace(sweep, kept=(replace(card, choices=(*card.choices, *own)),), candidate=candidate)
        else:
            sweep = replace(sweep, candidate=replace(candidate, choices=(*candidate.choices, *own)))
    else:
        raise IllegalEvent(f"no {event.purpose} of {event.subject} to skip")
    state = replace(state, sweep=sweep, next_subject=max(state.next_subject, event.subject + 1))
    return recorded(state, event.choice)


def decided_bout(before: State, state: State, event: Decided, command: Rollout) -> State:
    """`before`: the state that the decision was taken in, without the command; the sweep may begin with it."""
    before, begun = enter(before)
    sweep, need = settle_sweep(before, begun)
    state = replace(before, next_command=state.next_command, window=state.window)
    if isinstance(need, Enter):
        own = () if event.choice is None else (event.choice,)
        candidate: Candidate | None = Candidate(event.subject, before.head.version.number, own, entrants=need.entrants)
        state = replace(state, next_subject=event.subject + 1)
    else:
        candidate = sweep.candidate if isinstance(need, Measure) and need.subject == event.subject else None
    if candidate is None:
        raise IllegalEvent(f"nothing to compare for {event.subject}")
    probe = ask(_entrant(candidate, event.subject).probe, event.attempt)
    sweep = replace(sweep, candidate=with_probe(candidate, event.subject, probe))
    state = replace(state, governor=reserve(state.governor, command.reserve), sweep=sweep)
    return recorded(state, event.choice)


def bout_scored(state: State, event: RolledOut, decided: Decided, command: Rollout, bar: int) -> State:
    sweep, candidate, entrant = _competing(state, decided)
    probe = answer(entrant.probe, state.position[command.task], event.score, bar)
    return replace(state, sweep=replace(sweep, candidate=with_probe(candidate, entrant.subject, probe)))


def bout_failed(state: State, decided: Decided, command: Rollout, attempt: int, why: FailureEvidence | None) -> State:
    sweep, candidate, entrant = _competing(state, decided)
    probe = fail(entrant.probe, Slot(state.position[command.task], attempt), state.spec.attempts, why)
    return replace(state, sweep=replace(sweep, candidate=with_probe(candidate, entrant.subject, probe)))


def _competing(state: State, decided: Decided) -> tuple[Sweep, Candidate, Entrant]:
    sweep = current_sweep(state)
    if sweep.candidate is None:
        raise IllegalEvent("a comparison that nobody asked for")
    return sweep, sweep.candidate, _entrant(sweep.candidate, decided.subject)


def _entrant(candidate: Candidate, subject: int) -> Entrant:
    entrant = entrant_of(candidate, subject)
    if entrant is None:
        raise IllegalEvent(f"{subject} is not in the tournament")
    return entrant
