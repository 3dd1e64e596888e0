"""An effect has ended: settle it, keep count of failures, and hand the fact to the slot that asked for it."""

from __future__ import annotations

from typing import assert_never

from agentdescent import vector
from agentdescent.budget.governor import Kind, Purpose, abandon, settle, untold
from agentdescent.engine.auditing import audit_failed, audit_scored
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import (
    Abandoned,
    Decided,
    Failed,
    Proposed,
    RolledOut,
)
from agentdescent.engine.measuring import measure_failed, measured
from agentdescent.engine.merge_facts import current_sweep, gate_at, requeue_stale, with_gate
from agentdescent.engine.retirement import put_worker
from agentdescent.engine.scoring import score_failed, scored
from agentdescent.engine.spend_facts import bout_failed, bout_scored
from agentdescent.engine.state import State
from agentdescent.engine.tally import used
from agentdescent.engine.turn import (
    propose_failed,
    proposed,
    rollout_given_up,
    turn_scored,
    verified,
    verify_given_up,
)
from agentdescent.engine.window import next_in_order, take
from agentdescent.errors import IllegalEvent
from agentdescent.merge.gate import score, weigh
from agentdescent.merge.probe import Slot, fail
from agentdescent.merge.verdict import FailureEvidence
from agentdescent.record import replace

BREAK_AFTER_NEVER = 8
BREAK_AFTER_ONCE = 32
UNREPORTED_LIMIT = 3
_TOKENS_UNTOLD = (
    "max_tokens is set, but no call reported its tokens: return Answer(value, Usage(prompt=..., completion=...)) from "
    "the agent, `propose` included, or leave max_tokens out"
)
_COST_UNTOLD = (
    "max_cost is set, but no call has a known cost: give the tariff prices, return Usage(cost=...) in nano-dollars, or "
    "leave max_cost out"
)


def answered(state: State, event: RolledOut | Proposed | Failed | Abandoned) -> State:
    if not state.window.count:
        raise IllegalEvent(f"an outcome for command {event.id}, and nothing is open")
    if state.spec.admission == "ordered" and event.id != next_in_order(state.window):
        raise IllegalEvent(f"an outcome for command {event.id} before that of {next_in_order(state.window)}")
    decided, window = take(state.window, event.id)
    before = state.governor.spent.tokens
    command = decided.command
    if isinstance(command, Rollout):
        kind: Kind = "solve"
        purpose: Purpose = command.purpose
    else:
        kind = purpose = "propose"
    if isinstance(event, Abandoned):
        governor = abandon(state.governor, kind, purpose, command.reserve, started=event.started)
        state = used(replace(state, window=window, governor=governor), decided, governor.spent.tokens - before)
        return _not_answered(state, decided, decided.attempt, None)
    scoring = event.scoring if isinstance(event, RolledOut) else None
    failed = isinstance(event, Failed)
    governor = settle(state.governor, kind, purpose, command.reserve, event.usage, scoring, failed=failed)
    state = used(replace(state, window=window, governor=governor), decided, governor.spent.tokens - before)
    state = _report(state, event)
    if isinstance(event, RolledOut):
        if not 0 <= event.score <= 1_000_000:
            raise IllegalEvent(f"a score of {event.score} millionths for command {event.id}")
        if isinstance(command, Rollout):
            return _rolled_out(state, event, decided, command)
    elif isinstance(event, Failed):
        return _not_answered(state, decided, decided.attempt + 1, FailureEvidence(event.kind, event.message))
    elif isinstance(command, Propose):
        return proposed(state, event, decided.worker)
    raise IllegalEvent(f"{type(event).__name__} for command {event.id}, which is a {type(command).__name__}")


def _report(state: State, event: RolledOut | Proposed | Failed) -> State:
    """Keep count of failures in a row; find what cannot go on."""
    health = state.health
    if isinstance(event, Failed):
        health = replace(health, in_a_row=health.in_a_row + 1, last=event.message)
        limit = BREAK_AFTER_ONCE if health.ever else BREAK_AFTER_NEVER
        if event.kind == "contract":
            health = replace(health, fatal=health.fatal or event.message)
        elif health.in_a_row >= limit:
            why = f"{health.in_a_row} calls in a row failed, the last with: {event.message}"
            health = replace(health, fatal=health.fatal or why)
    elif health.in_a_row or not health.ever:
        health = replace(health, in_a_row=0, ever=True)
    if not isinstance(event, Failed):
        what = untold(state.governor, UNREPORTED_LIMIT)
        if what is not None:
            why = _COST_UNTOLD
            if what == "tokens":  # which a call that failed may not have had to report
                why = f"{_TOKENS_UNTOLD}; the last call that failed: {health.last}" if health.last else _TOKENS_UNTOLD
            health = replace(health, fatal=health.fatal or why)
    return state if health is state.health else replace(state, health=health)


def _not_answered(state: State, decided: Decided, attempt: int, why: FailureEvidence | None) -> State:
    """The slot is empty again: asked anew, or failed for good after `attempts`. No `why`: it was abandoned."""
    command, limit = decided.command, state.spec.attempts
    if why is not None and why.kind == "overflow":
        attempt = max(attempt, limit)  # too long now, too long again
    given_up = why is not None and attempt >= limit
    if isinstance(command, Propose):
        # Cut off at the ceiling of its call it would be cut off again.
        given_up = given_up or (why is not None and why.kind == "truncated" and state.spec.call_budget is not None)
        return propose_failed(state, decided.worker, attempt, why if given_up else None, counted=why is not None)
    index = decided.worker
    match command.purpose:
        case "rollout" | "verify":
            worker, rolling = vector.get(state.workers, index), command.purpose == "rollout"
            if given_up:
                return rollout_given_up(state, index) if rolling else verify_given_up(state, index, worker)
            again = replace(worker, stage="reroll" if rolling else "proposed", attempt=attempt)
            return replace(state, workers=put_worker(state, index, again), ready=(*state.ready, index))
        case "gate":
            sweep = current_sweep(state)
            at, gate = gate_at(sweep, decided.subject)
            slot = Slot(state.position[command.task], attempt)
            gate = replace(gate, probe=fail(gate.probe, slot, limit, why))
            return requeue_stale(replace(state, sweep=with_gate(sweep, at, weigh(gate))))
        case "base" | "test":
            return score_failed(state, decided, command, attempt, why)
        case "rebase" | "conflict":
            return measure_failed(state, decided, command, attempt, why)
        case "tournament":
            return bout_failed(state, decided, command, attempt, why)
        case "audit":
            return audit_failed(state, decided, command, attempt, why)
        case "propose" | "score":
            raise IllegalEvent(f"a rollout with purpose {command.purpose}")
        case _:
            assert_never(command.purpose)


def _rolled_out(state: State, event: RolledOut, decided: Decided, command: Rollout) -> State:
    bar = state.solved_at
    match command.purpose:
        case "gate":
            sweep = current_sweep(state)
            at, gate = gate_at(sweep, decided.subject)
            gate = score(gate, state.position[command.task], event.score, bar)
            return requeue_stale(replace(state, sweep=with_gate(sweep, at, gate)))
        case "rollout":
            return turn_scored(state, event, decided.worker, command, bar)
        case "verify":
            return verified(state, event, decided.worker)
        case "base" | "test":
            return scored(state, event, command, bar)
        case "rebase" | "conflict":
            return measured(state, event, decided, command, bar)
        case "tournament":
            return bout_scored(state, event, decided, command, bar)
        case "audit":
            return audit_scored(state, event, decided, command)
        case "propose" | "score":
            raise IllegalEvent(f"a rollout with purpose {command.purpose}")
        case _:
            assert_never(command.purpose)
