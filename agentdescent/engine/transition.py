"""`apply`: fold one fact into the state. Owns every transition; total over Event; an event that cannot follow raises
IllegalEvent. It never chooses: what a decision implies was computed by `decide` and is checked by replay.

To add an event: its record in event.py, its case here, what `decide` does about it, and a golden log.
"""

from __future__ import annotations

from typing import assert_never

from agentdescent import vector
from agentdescent.artifact.diff import identity, union
from agentdescent.budget.governor import Kind, Purpose, draw_on, fits, hold, release, reserve, settle, spend
from agentdescent.budget.usage import NOTHING, Amount, add, smaller, subtract
from agentdescent.engine.command import Propose, Rollout
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
from agentdescent.engine.merging import Close, Measure, Put, begin, known_scores
from agentdescent.engine.merging import settle as settle_sweep
from agentdescent.engine.path import gate_cost, propose_estimate, sizes_of, test_cost
from agentdescent.engine.state import Head, State, Version, Worker, threshold
from agentdescent.engine.window import oldest, put, take
from agentdescent.errors import IllegalEvent
from agentdescent.merge.card import Card
from agentdescent.merge.gate import Gate, fresh_probe, informative, open_gate, prefix_sums, score, weigh
from agentdescent.merge.probe import Probe, Slot, answer, ask, fail, idle
from agentdescent.merge.rejected import remember
from agentdescent.merge.scores import Scores, blank, record
from agentdescent.merge.sweep import Sweep, halves
from agentdescent.merge.verdict import FailureEvidence
from agentdescent.record import replace

RETIRE_AFTER = 3
BREAK_AFTER_NEVER = 8
BREAK_AFTER_ONCE = 32
UNREPORTED_LIMIT = 3


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
            after = _answered(state, event)
        case Started():
            after = _started(state, event)
        case Skipped():
            after = _skipped(state, event)
        case GateOpened():
            after = _gate_opened(state, event)
        case Judged():
            after = _judged(state, event)
        case Committed():
            after = _committed(state, event)
        case Promoted():
            after = replace(state, stable=state.head.version)
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


# --- the run begins, ends, goes on ------------------------------------------------------------------------------------


def _started(state: State, event: Started) -> State:
    split, setup = event.split, event.setup
    position = [0] * len(setup.tasks)
    for part in (split.train, split.heldout, split.test):
        for where, index in enumerate(part):
            position[index] = where
    head = Head(state.head.version, blank(len(split.heldout)), blank(len(split.train)))
    order = tuple(range(len(split.heldout)))
    state = replace(
        state,
        started=True,
        split=split,
        position=tuple(position),
        head=head,
        heldout=sizes_of(setup, split.heldout),
        test=sizes_of(setup, split.test),
        base=Probe(order, len(order), head.scores),
        testing=_test_probe(len(split.test)),
    )
    test = test_cost(state, head.version.size)
    base = add(gate_cost(state, head.version.size), test)
    if not fits(state.governor, add(base, test)):
        return state
    return replace(state, base_hold=base, test_hold=test, governor=hold(state.governor, add(base, test)))


def _test_probe(size: int) -> Probe | None:
    return Probe(tuple(range(size)), size, blank(size)) if size else None


def _amended(state: State, event: Amended) -> State:
    if state.stopped is None and state.interrupted is None:
        raise IllegalEvent("Amended while the run is going on")
    state = replace(
        state,
        governor=replace(state.governor, caps=event.caps, overrun=False),
        health=replace(state.health, fatal="", in_a_row=0, barren_rounds=0),
        stopped=None,
        interrupted=None,
    )
    if state.base is None and not state.window.count:
        # The end may be further away now. With test effects open it is not: they are folded, and the run ends again.
        state = replace(state, closing=None, testing=None)
    return _hold_test(state, state.head.version.size) if state.base is None else state


def _hold_test(state: State, size: int) -> State:
    """Earmark the test of the head, or nothing when it does not fit."""
    governor = release(state.governor, state.test_hold)
    wanted = test_cost(state, size)
    kept = wanted if fits(governor, wanted) else NOTHING
    return replace(state, governor=hold(governor, kept), test_hold=kept)


# --- an effect is decided ---------------------------------------------------------------------------------------------


def _decided(state: State, event: Decided) -> State:
    command = event.command
    if command.id != state.next_command:
        raise IllegalEvent(f"command {command.id} where {state.next_command} is next")
    state = replace(state, next_command=command.id + 1, window=put(state.window, event))
    if isinstance(command, Propose):
        return _decided_propose(state, event, command)
    match command.purpose:
        case "rollout":
            return _decided_turn(state, event, command)
        case "verify":
            return _decided_verify(state, event, command)
        case "gate":
            return _decided_gate(state, event, command)
        case "base" | "test":
            return _decided_score(state, event, command)
        case "rebase" | "conflict":
            return _decided_measure(state, event, command)
        case "propose" | "tournament" | "audit" | "score":
            raise IllegalEvent(f"a rollout with purpose {command.purpose}")
        case _:
            assert_never(command.purpose)


def _put_worker(state: State, index: int, worker: Worker) -> vector.Vector[Worker]:
    return vector.put(state.workers, index, worker)


def _not_ready(state: State, index: int) -> tuple[int, ...]:
    ready = state.ready
    if ready and ready[0] == index:
        return ready[1:]
    return tuple(other for other in ready if other != index)


def _decided_turn(state: State, event: Decided, command: Rollout) -> State:
    index = event.worker
    worker = vector.get(state.workers, index)
    governor = reserve(state.governor, command.reserve)
    if event.attempt or worker.stage == "reroll":
        again = replace(worker, stage="rolling", attempt=event.attempt)
        return replace(
            state, governor=governor, workers=_put_worker(state, index, again), ready=_not_ready(state, index)
        )
    head = state.head.version
    if command.artifact == head.artifact:
        copy = head
    elif worker.copy is not None and worker.copy.artifact == command.artifact:
        copy = worker.copy
    else:
        raise IllegalEvent(f"worker {index} has no artifact {command.artifact}")
    if event.round != state.round:
        state = _new_round(state, event.round)
    path = propose_estimate(state, copy, command.task)
    turn = Worker(
        stage="rolling",
        turns=worker.turns + 1,
        copy=copy,
        task=command.task,
        path=path,
        succeeded=worker.succeeded,
        failures=worker.failures,
    )
    return replace(
        state,
        governor=governor,
        workers=_put_worker(state, index, turn),
        ready=_not_ready(state, index) if state.ready else (),
        cursor=index + 1,
        expected=add(subtract(state.expected, worker.path), path),
    )


def _new_round(state: State, number: int) -> State:
    sweep, health = state.sweep, state.health
    barren = health.barren_rounds
    if health.proposals:
        barren = barren + 1 if health.proposals == health.proposals_failed else 0
    state = replace(
        state,
        round=number,
        health=replace(health, proposals=0, proposals_failed=0, barren_rounds=barren),
    )
    if sweep is None:
        return state
    quiet = 0 if sweep.committed else state.quiet + 1
    return replace(state, sweep=None, cards=sweep.parked, quiet=quiet)


def _decided_propose(state: State, event: Decided, command: Propose) -> State:
    index = event.worker
    worker = vector.get(state.workers, index)
    asking = replace(
        worker, stage="proposing", subject=command.subject, attempt=event.attempt, path=NOTHING, failure=None
    )
    health = state.health
    return replace(
        state,
        governor=reserve(state.governor, command.reserve),
        workers=_put_worker(state, index, asking),
        ready=_not_ready(state, index),
        expected=subtract(state.expected, worker.path),
        next_subject=max(state.next_subject, command.subject + 1),
        health=replace(health, proposals=health.proposals + 1),
    )


def _decided_verify(state: State, event: Decided, command: Rollout) -> State:
    index = event.worker
    worker = vector.get(state.workers, index)
    state = replace(
        state,
        governor=reserve(state.governor, command.reserve),
        workers=_put_worker(state, index, replace(worker, stage="verifying", subject=-1, attempt=event.attempt)),
        ready=_not_ready(state, index),
    )
    return _with_card(state, worker.card)


def _with_card(state: State, card: Card | None) -> State:
    if card is None:
        raise IllegalEvent("no proposal is waiting here")
    if any(other.subject == card.subject for other in state.cards):
        return state
    return replace(state, cards=(*state.cards, card))


def _skipped(state: State, event: Skipped) -> State:
    index, worker = _worker_of(state, event.subject)
    state = replace(
        state,
        workers=_put_worker(state, index, replace(worker, stage="idle", subject=-1, card=None)),
        ready=_not_ready(state, index),
    )
    return _with_card(state, worker.card)


def _worker_of(state: State, subject: int) -> tuple[int, Worker]:
    """The worker that is ready with this proposal."""
    for index in state.ready:
        worker = vector.get(state.workers, index)
        if worker.subject == subject or (worker.card is not None and worker.card.subject == subject):
            return index, worker
    raise IllegalEvent(f"no worker has proposal {subject}")


def _pay(state: State, earmark: Amount, amount: Amount, *, again: bool) -> tuple[State, Amount]:
    """Reserve `amount`, out of the earmark unless it is asked `again`; and what is left of the earmark."""
    share = NOTHING if again else smaller(earmark, amount)
    return replace(state, governor=draw_on(state.governor, share, amount)), subtract(earmark, share)


def _decided_score(state: State, event: Decided, command: Rollout) -> State:
    """The base on the held-out tasks, or an artifact on the test tasks."""
    if command.purpose == "base":
        probe = state.base
    elif event.closing is not None and state.testing is None:
        probe = _test_probe(len(state.split.test))
    else:
        probe = state.testing
    if probe is None:
        raise IllegalEvent(f"nothing is being scored for {command.purpose}")
    asked, again = ask(probe, event.attempt), bool(probe.again)
    if command.purpose == "base":
        state, left = _pay(state, state.base_hold, command.reserve, again=again)
        return replace(state, base=asked, base_hold=left)
    if state.base is not None:
        state, left = _pay(state, state.base_hold, command.reserve, again=again)
        return replace(state, testing=asked, base_hold=left)
    state, left = _pay(state, state.test_hold, command.reserve, again=again)
    return replace(state, testing=asked, test_hold=left, closing=event.closing)


def _decided_gate(state: State, event: Decided, command: Rollout) -> State:
    sweep = _sweep(state)
    at, gate = _gate_at(sweep, event.subject)
    state, left = _pay(state, gate.hold, command.reserve, again=bool(gate.probe.again))
    gate = replace(gate, hold=left, probe=ask(gate.probe, event.attempt))
    return replace(state, sweep=_with_gate(sweep, at, gate))


def _decided_measure(state: State, event: Decided, command: Rollout) -> State:
    sweep, need = settle_sweep(state, _sweep(state))
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
    return replace(state, governor=reserve(state.governor, command.reserve), sweep=sweep, cards=())


def _sweep(state: State) -> Sweep:
    sweep = begin(state)
    if sweep is None:
        raise IllegalEvent("no merge is going on")
    return sweep


def _gate_at(sweep: Sweep, subject: int) -> tuple[int, Gate]:
    for at, gate in enumerate(sweep.gates):
        if gate.subject == subject:
            return at, gate
    raise IllegalEvent(f"no gate is open for {subject}")


def _with_gate(sweep: Sweep, at: int, gate: Gate) -> Sweep:
    return replace(sweep, gates=(*sweep.gates[:at], gate, *sweep.gates[at + 1 :]))


# --- an effect has ended ----------------------------------------------------------------------------------------------


def _answered(state: State, event: RolledOut | Proposed | Failed | Abandoned) -> State:
    if not state.window.count:
        raise IllegalEvent(f"an outcome for command {event.id}, and nothing is open")
    if state.spec.admission == "ordered" and event.id != oldest(state.window):
        raise IllegalEvent(f"an outcome for command {event.id} before that of {oldest(state.window)}")
    decided, window = take(state.window, event.id)
    command = decided.command
    kind: Kind = "solve" if isinstance(command, Rollout) else "propose"
    purpose: Purpose = command.purpose if isinstance(command, Rollout) else "propose"
    if isinstance(event, Abandoned):
        governor = replace(state.governor, due=subtract(state.governor.due, command.reserve))
        if event.started:
            governor = spend(governor, purpose, command.reserve, command.reserve.tokens)
        return _not_answered(replace(state, window=window, governor=governor), decided, decided.attempt, None)
    scoring = event.scoring if isinstance(event, RolledOut) else None
    governor = settle(state.governor, kind, purpose, command.reserve, event.usage, scoring)
    state = _report(replace(state, window=window, governor=governor), event, decided.worker)
    if isinstance(event, Failed):
        why = FailureEvidence(event.kind, event.message)
        return _not_answered(state, decided, decided.attempt + 1, why)
    if isinstance(event, Proposed) and isinstance(command, Propose):
        return _proposed(state, event, decided.worker)
    if isinstance(event, RolledOut) and isinstance(command, Rollout):
        if not 0 <= event.score <= 1_000_000:
            raise IllegalEvent(f"a score of {event.score} millionths for command {event.id}")
        return _rolled_out(state, event, decided, command)
    raise IllegalEvent(f"{type(event).__name__} for command {event.id}, which is a {type(command).__name__}")


def _report(state: State, event: RolledOut | Proposed | Failed, index: int) -> State:
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
    governor = state.governor
    if governor.caps.tokens is not None and not governor.reported and governor.unreported >= UNREPORTED_LIMIT:
        why = (
            "max_tokens is set, but no call reported its tokens: return Answer(value, Usage(prompt=..., "
            "completion=...)) from the agent, or leave max_tokens out"
        )
        health = replace(health, fatal=health.fatal or why)
    if health is not state.health:
        state = replace(state, health=health)
    if index < 0:
        return state
    worker = vector.get(state.workers, index)
    if isinstance(event, Failed):
        failures = worker.failures + 1
        retired = not worker.succeeded and failures >= RETIRE_AFTER and not state.health.ever
        worker = replace(worker, failures=failures, retired=retired)
    elif worker.failures or not worker.succeeded:
        worker = replace(worker, failures=0, succeeded=True)
    else:
        return state
    return replace(state, workers=_put_worker(state, index, worker))


def _not_answered(state: State, decided: Decided, attempt: int, why: FailureEvidence | None) -> State:
    """The slot is empty again: asked anew, or failed for good after `attempts`. No `why`: it was abandoned."""
    command, limit = decided.command, state.spec.attempts
    given_up = why is not None and attempt >= limit
    if isinstance(command, Propose):
        return _propose_failed(state, decided.worker, attempt, why if given_up else None, counted=why is not None)
    index = decided.worker
    match command.purpose:
        case "rollout":
            worker = vector.get(state.workers, index)
            if given_up:
                return _turn_over(state, index, worker)
            again = replace(worker, stage="reroll", attempt=attempt)
            return replace(state, workers=_put_worker(state, index, again), ready=(*state.ready, index))
        case "verify":
            worker = vector.get(state.workers, index)
            if given_up:
                return _turn_over(state, index, worker)
            again = replace(worker, stage="proposed", attempt=max(1, attempt))
            return replace(state, workers=_put_worker(state, index, again), ready=(*state.ready, index))
        case "gate":
            sweep = _sweep(state)
            at, gate = _gate_at(sweep, decided.subject)
            slot = Slot(state.position[command.task], attempt)
            gate = replace(gate, probe=_fail(gate.probe, slot, limit, why))
            return _requeue_stale(replace(state, sweep=_with_gate(sweep, at, weigh(gate))))
        case "base" | "test":
            return _score_failed(state, decided, command, attempt, why)
        case "rebase" | "conflict":
            return _measure_failed(state, decided, command, attempt, why)
        case "propose" | "tournament" | "audit" | "score":
            raise IllegalEvent(f"a rollout with purpose {command.purpose}")
        case _:
            assert_never(command.purpose)


def _fail(probe: Probe, slot: Slot, limit: int, why: FailureEvidence | None) -> Probe:
    """An abandoned slot (no `why`) is asked again however often that happens."""
    if why is None:
        return replace(probe, open=probe.open - 1, again=(*probe.again, slot))
    return fail(probe, slot, limit, why)


def _propose_failed(state: State, index: int, attempt: int, why: FailureEvidence | None, *, counted: bool) -> State:
    worker = vector.get(state.workers, index)
    again = replace(worker, stage="rolled", attempt=attempt, failure=why)
    health = state.health
    if counted:
        health = replace(health, proposals_failed=health.proposals_failed + 1)
    return replace(state, workers=_put_worker(state, index, again), ready=(*state.ready, index), health=health)


def _turn_over(state: State, index: int, worker: Worker) -> State:
    """The worker is done with its turn; what it proposed, if anything, is a card or closed."""
    expected = state.expected if worker.path == NOTHING else subtract(state.expected, worker.path)
    idle_worker = replace(worker, stage="idle", path=NOTHING, subject=-1, card=None, failure=None)
    return replace(
        state, workers=_put_worker(state, index, idle_worker), ready=_not_ready(state, index), expected=expected
    )


def _proposed(state: State, event: Proposed, index: int) -> State:
    worker = vector.get(state.workers, index)
    version = worker.copy or state.head.version
    card = Card(
        worker.subject, index, worker.task, worker.rollout, version.number, event.ops, identity(event.ops), worker.score
    )
    ready = replace(worker, stage="proposed", attempt=0, card=card)
    return replace(state, workers=_put_worker(state, index, ready), ready=(*state.ready, index))


def _rolled_out(state: State, event: RolledOut, decided: Decided, command: Rollout) -> State:
    bar = threshold(state.spec)
    match command.purpose:
        case "gate":
            sweep = _sweep(state)
            at, gate = _gate_at(sweep, decided.subject)
            gate = score(gate, state.position[command.task], event.score, bar)
            return _requeue_stale(replace(state, sweep=_with_gate(sweep, at, gate)))
        case "rollout":
            return _turn_scored(state, event, decided.worker, command, bar)
        case "verify":
            return _verified(state, event, decided.worker)
        case "base" | "test":
            return _scored(state, event, command, bar)
        case "rebase" | "conflict":
            return _measured(state, event, decided, command, bar)
        case "propose" | "tournament" | "audit" | "score":
            raise IllegalEvent(f"a rollout with purpose {command.purpose}")
        case _:
            assert_never(command.purpose)


def _turn_scored(state: State, event: RolledOut, index: int, command: Rollout, bar: int) -> State:
    worker = vector.get(state.workers, index)
    head = state.head
    if command.artifact == head.version.artifact:
        train = record(head.train, state.position[command.task], event.score, bar)
        state = replace(state, head=replace(head, train=train))
    if event.score >= bar:
        return _turn_over(state, index, worker)
    rolled = replace(worker, stage="rolled", rollout=event.id, score=event.score, size=event.size, attempt=0)
    return replace(state, workers=_put_worker(state, index, rolled), ready=(*state.ready, index))


def _verified(state: State, event: RolledOut, index: int) -> State:
    worker = vector.get(state.workers, index)
    card = worker.card
    if card is None:
        raise IllegalEvent(f"worker {index} verified nothing")
    card = replace(card, delta=event.score - card.before)
    cards = tuple(card if other.subject == card.subject else other for other in state.cards)
    state = replace(state, cards=cards)
    if not state.spec.screen or event.score > card.before:
        return _turn_over(state, index, worker)
    screened = replace(worker, stage="verified", card=card)
    return replace(state, workers=_put_worker(state, index, screened), ready=(*state.ready, index))


# --- scoring the base and the test part -------------------------------------------------------------------------------


def _scored(state: State, event: RolledOut, command: Rollout, bar: int) -> State:
    position = state.position[command.task]
    if command.purpose == "base":
        if state.base is None:
            raise IllegalEvent("a base score after the base was scored")
        return _base_ended(replace(state, base=answer(state.base, position, event.score, bar)))
    if state.testing is None:
        raise IllegalEvent("a test score, and nothing is being tested")
    return _test_ended(replace(state, testing=answer(state.testing, position, event.score, bar)))


def _score_failed(state: State, decided: Decided, command: Rollout, attempt: int, why: FailureEvidence | None) -> State:
    slot = Slot(state.position[command.task], attempt)
    if command.purpose == "base":
        if state.base is None:
            raise IllegalEvent("a base failure after the base was scored")
        if why is not None:
            why = replace(why, message=f"task {state.setup.tasks[command.task].id}: {why.message}")
        return replace(state, base=_fail(state.base, slot, state.spec.attempts, why))
    if state.testing is None:
        raise IllegalEvent("a test failure, and nothing is being tested")
    if why is not None and attempt >= state.spec.attempts:
        # A test task that cannot be scored is left out of the mean; no decision reads it.
        return _test_ended(replace(state, testing=replace(state.testing, open=state.testing.open - 1)))
    return replace(state, testing=_fail(state.testing, slot, state.spec.attempts, why))


def _base_ended(state: State) -> State:
    """Once the base and its test are scored, the search begins, with the test of the head earmarked."""
    base, testing = state.base, state.testing
    if base is None or not idle(base) or base.failure is not None or (testing is not None and not idle(testing)):
        return state
    scores = base.scores
    order = informative(scores) if state.spec.gate_order == "informative" else tuple(range(scores.size))
    head = replace(state.head, scores=scores, order=order, prefix=prefix_sums(scores, order))
    state = replace(
        state,
        head=head,
        base=None,
        base_total=scores.total,
        base_hold=NOTHING,
        governor=release(state.governor, state.base_hold),
        testing=None,
        test_base=None if testing is None else testing.scores,
        tested=head.version.artifact,
    )
    return _hold_test(state, head.version.size)


def _test_ended(state: State) -> State:
    testing = state.testing
    if state.base is not None:
        return _base_ended(state)
    if testing is None or not idle(testing):
        return state
    return replace(
        state,
        testing=None,
        test_final=testing.scores,
        tested=state.head.version.artifact,
        governor=release(state.governor, state.test_hold),
        test_hold=NOTHING,
    )


# --- the merge --------------------------------------------------------------------------------------------------------


def _measured(state: State, event: RolledOut, decided: Decided, command: Rollout, bar: int) -> State:
    sweep, position = _sweep(state), state.position[command.task]
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


def _measure_failed(
    state: State, decided: Decided, command: Rollout, attempt: int, why: FailureEvidence | None
) -> State:
    sweep, limit = _sweep(state), state.spec.attempts
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
        duel = replace(duel, theirs=_fail(duel.theirs, slot, limit, why))
    else:
        duel = replace(duel, ours=_fail(duel.ours, slot, limit, why))
    return replace(state, sweep=replace(sweep, duel=duel))


def _gate_opened(state: State, event: GateOpened) -> State:
    sweep, need = settle_sweep(state, _sweep(state))
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
        cards=(),
    )


def _judged(state: State, event: Judged) -> State:
    if state.sweep is not None:
        for at, gate in enumerate(state.sweep.gates):
            if gate.subject == event.subject:
                return _gate_judged(state, event, state.sweep, at, gate)
    for index in state.ready:
        worker = vector.get(state.workers, index)
        card = worker.card
        if worker.subject == event.subject or (card is not None and card.subject == event.subject):
            cards = tuple(other for other in state.cards if other.subject != event.subject)
            return _turn_over(replace(state, cards=cards), index, worker)
    sweep, need = settle_sweep(state, _sweep(state))
    if not isinstance(need, Close) or need.card.subject != event.subject:
        raise IllegalEvent(f"proposal {event.subject} is not to be judged")
    return replace(state, sweep=_without(state, sweep, event.subject), cards=())


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
    if event.outcome == "committed":
        return replace(state, sweep=_with_gate(sweep, at, replace(gate, status="won")))
    sweep = replace(sweep, gates=(*sweep.gates[:at], *sweep.gates[at + 1 :]))
    if event.outcome == "cas-conflict":
        return replace(state, sweep=_back(sweep, gate))
    state = replace(state, governor=release(state.governor, gate.hold))
    if event.outcome in ("regression", "below-threshold"):
        refused = identity(union(tuple(card.ops for card in gate.cards)))
        if gate.version == state.head.version.number:
            state = replace(state, head=replace(state.head, rejected=remember(state.head.rejected, refused)))
        if len(gate.cards) > 1:
            sweep = replace(sweep, groups=(*halves(gate.cards), *sweep.groups))
    return replace(state, sweep=sweep)


def _back(sweep: Sweep, gate: Gate) -> Sweep:
    """The cards of a gate under which the head moved go through the merge again."""
    cards = tuple(replace(card, reopened=card.reopened + 1) for card in gate.cards)
    return replace(sweep, groups=(cards, *sweep.groups))


def _requeue_stale(state: State) -> State:
    """A single card whose gate is stale and has nothing open goes back; a stale union is judged first."""
    sweep = state.sweep
    if sweep is None:
        return state
    for at, gate in enumerate(sweep.gates):
        if gate.status == "stale" and gate.probe.open == 0 and len(gate.cards) == 1:
            rest = replace(sweep, gates=(*sweep.gates[:at], *sweep.gates[at + 1 :]))
            return _requeue_stale(replace(state, sweep=_back(rest, gate)))
    return state


def _committed(state: State, event: Committed) -> State:
    sweep = _sweep(state)
    at, gate = _gate_at(sweep, event.subject)
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
        improved_round=state.round if scores.total > head.scores.total else state.improved_round,
        sweep=replace(sweep, gates=tuple(others), committed=True),
    )
    return _requeue_stale(_hold_test(state, gate.size))
