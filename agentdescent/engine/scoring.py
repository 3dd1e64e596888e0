"""Facts about the scoring of whole parts: the start on the held-out tasks, an artifact on the test tasks.

No decision reads a test score; the part is only asked for, summed and reported."""

from __future__ import annotations

from agentdescent.budget.governor import Governor, draw_on, fits, hold, release, reserve
from agentdescent.budget.usage import NOTHING, Amount
from agentdescent.engine.command import Rollout
from agentdescent.engine.economy import search_begins
from agentdescent.engine.event import (
    Decided,
    RolledOut,
)
from agentdescent.engine.path import test_cost
from agentdescent.engine.population import dev_head, populated
from agentdescent.engine.state import State
from agentdescent.errors import IllegalEvent
from agentdescent.merge.gate import informative, prefix_sums
from agentdescent.merge.probe import Probe, Slot, answer, ask, fail, idle
from agentdescent.merge.scores import UNKNOWN, blank, score_at
from agentdescent.merge.verdict import FailureEvidence
from agentdescent.record import replace


def pay(governor: Governor, earmark: Amount, amount: Amount, *, again: bool) -> tuple[Governor, Amount]:
    """Reserve `amount`, out of the earmark unless it is asked `again`; and what is left of the earmark."""
    return (reserve(governor, amount), earmark) if again else draw_on(governor, earmark, amount)


def test_probe(size: int) -> Probe | None:
    return Probe(tuple(range(size)), size, blank(size)) if size else None


def hold_test(state: State, size: int) -> State:
    """Earmark the test of the head, or nothing when it does not fit."""
    governor = release(state.governor, state.test_hold)
    wanted = test_cost(state, size)
    kept = wanted if fits(governor, wanted) else NOTHING
    return replace(state, governor=hold(governor, kept), test_hold=kept)


def asked_anew(probe: Probe) -> Probe:
    """With everything that was asked for in vain, also what has failed for good, to be asked for again."""
    missing = tuple(Slot(p) for p in probe.order[: probe.asked] if score_at(probe.scores, p) == UNKNOWN)
    return replace(probe, again=missing, failure=None)


def decided_score(state: State, event: Decided, command: Rollout) -> State:
    """The base on the held-out tasks, or an artifact on the test tasks."""
    if command.purpose == "base":
        probe = state.base
    elif event.closing is not None and state.testing is None:
        probe = test_probe(len(state.split.test))
    else:
        probe = state.testing
    if probe is None:
        raise IllegalEvent(f"nothing is being scored for {command.purpose}")
    asked, again = ask(probe, event.attempt), bool(probe.again)
    if command.purpose == "base":
        governor, left = pay(state.governor, state.base_hold, command.reserve, again=again)
        return replace(state, governor=governor, base=asked, base_hold=left)
    if state.base is not None:
        governor, left = pay(state.governor, state.base_hold, command.reserve, again=again)
        return replace(state, governor=governor, testing=asked, base_hold=left)
    governor, left = pay(state.governor, state.test_hold, command.reserve, again=again)
    return replace(state, governor=governor, testing=asked, test_hold=left, closing=event.closing)


def scored(state: State, event: RolledOut, command: Rollout, bar: int) -> State:
    position = state.position[command.task]
    if command.purpose == "base":
        if state.base is None:
            raise IllegalEvent("a base score after the base was scored")
        return _base_ended(replace(state, base=answer(state.base, position, event.score, bar)))
    if state.testing is None:
        raise IllegalEvent("a test score, and nothing is being tested")
    return _test_ended(replace(state, testing=answer(state.testing, position, event.score, bar)))


def score_failed(state: State, decided: Decided, command: Rollout, attempt: int, why: FailureEvidence | None) -> State:
    slot = Slot(state.position[command.task], attempt)
    if command.purpose == "base":
        if state.base is None:
            raise IllegalEvent("a base failure after the base was scored")
        if why is not None:
            why = replace(why, message=f"task {state.setup.tasks[command.task].id}: {why.message}")
        return replace(state, base=fail(state.base, slot, state.spec.attempts, why))
    if state.testing is None:
        raise IllegalEvent("a test failure, and nothing is being tested")
    if why is not None and attempt >= state.spec.attempts:
        # A test task that cannot be scored is left out of the mean; no decision reads it.
        return _test_ended(replace(state, testing=replace(state.testing, open=state.testing.open - 1)))
    return replace(state, testing=fail(state.testing, slot, state.spec.attempts, why))


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
    return hold_test(populated(search_begins(state)), head.version.size)


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
        tested=dev_head(state).version.artifact,
        governor=release(state.governor, state.test_hold),
        test_hold=NOTHING,
    )
