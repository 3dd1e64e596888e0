"""Gates stopped by prediction, and what is booked for a candidate: what is asked first, where it is checked, who pays.

Tasks 0 to 11 of 24 decide, task i is of cluster i mod 3; the first worker trains on task 12, of cluster 0.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentdescent import Caps, Setup, UsageError, replay
from agentdescent.allocation import allocator as allocation
from agentdescent.allocation.choice import Choice
from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.allocation.policies import Lineage
from agentdescent.allocation.price import Account, earn
from agentdescent.artifact.diff import Ops
from agentdescent.engine.allotting import labelled
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import Decided, Event, GateOpened, Judged, Stopped
from agentdescent.engine.finishing import gate_order
from agentdescent.engine.spec import Spec
from agentdescent.engine.state import Kin, State
from agentdescent.engine.validation import check
from agentdescent.history.outcomes import outcomes
from agentdescent.merge.verdict import FutilityEvidence, GateEvidence
from agentdescent.record import replace
from tests.engine.spends import eager, spending_job, states
from tests.engine.test_attribution import SCHEDULES, Schedule
from tests.engine.test_merge_life import a, asked, tell
from tests.strategies import Job
from tests.world import any_order, calls, jobs, play

WON = "up0 up3 up6 up9"


def stopped(*proposals: Ops, **fields: Any) -> tuple[State, list[Event]]:
    defaults: dict[str, Any] = {"tasks": 24, "workers": 1, "futility": 0.3, "finish_epsilon": 0.0, "wave_min": 12}
    state, log = tell(*proposals, **{**defaults, **fields})
    assert replay(log).divergence is None
    return state, log


def tasks_of(log: list[Event], subject: int) -> list[int]:
    return [task for _, number, task in asked(log, "gate") if number == subject]


@SCHEDULES
def test_the_prompting_cluster_is_asked_first_and_decides(schedule: Schedule) -> None:
    state, log = stopped(a("nothing"), schedule=schedule)
    assert tasks_of(log, 0) == [0, 3, 6, 9], "the wave ends at the check, however wide it may be"
    verdict = next(event for event in log if isinstance(event, Judged))
    assert isinstance(verdict.evidence, FutilityEvidence)
    evidence = verdict.evidence
    assert (verdict.outcome, evidence.answered, evidence.total, evidence.split) == ("futile", 4, 12, False)
    assert evidence.acceptance < 300_000
    assert (evidence.choice.reason, evidence.choice.propensity, evidence.choice.choice) == ("skip", 1.0, False)
    assert evidence.choice.features[-2:] == (evidence.choice.p, 4 / 12)
    assert (state.rates.own.did, state.rates.own.could) == (0, 4_000_000)
    assert state.governor.held == state.test_hold, "what was not asked for is free again"


@SCHEDULES
def test_what_won_there_is_not_stopped(schedule: Schedule) -> None:
    _, log = stopped(a(WON), schedule=schedule, futility=0.99)
    assert outcomes(log)[0] == "committed"
    assert tasks_of(log, 0) == [0, 3, 6, 9, 1, 2, 4, 5, 7, 8, 10, 11]
    assert [event.choice for event in calls(log, "gate")] == [None] * 12


def test_without_it_the_order_is_that_of_the_head() -> None:
    _, log = stopped(a("nothing"), futility=0.0)
    assert tasks_of(log, 0) == list(range(12))
    assert outcomes(log)[0] == "below-threshold"


def test_completed_by_chance_it_is_not_checked_again() -> None:
    """A third of the draws are below the chance; such a gate is asked to its end, and says how probable that was."""
    for seed in range(12):
        _, log = stopped(a("nothing"), seed=seed, finish_epsilon=0.4, tasks=96, wave_min=1)
        chosen = [event.choice for event in calls(log, "gate") if event.choice is not None]
        if outcomes(log)[0] == "futile":
            assert chosen == []
            continue
        assert [(one.reason, one.propensity, one.choice) for one in chosen] == [("counterfactual", 0.4, True)]
        assert chosen[0].draw < 0.4
        assert outcomes(log)[0] == "below-threshold"
        return
    raise AssertionError("no gate was completed by chance in 12 seeds")


def test_checks_come_after_the_cluster_and_every_eight_outcomes() -> None:
    """16 failing tasks in the cluster: checked after 8 of them, after all, and 8 outcomes later."""
    never_low = ValueBudgetAllocator(stages=("finish",), budget_start=2.0)
    _, log = stopped(a("nothing"), tasks=96, futility=0.0, allocator=never_low, curtail=False)
    chosen = [n for n, event in enumerate(calls(log, "gate")) if event.choice is not None]
    assert chosen == [8, 16, 24, 32, 40]
    assert tasks_of(log, 0)[:16] == list(range(0, 48, 3))


def test_a_futile_union_goes_on_as_its_halves() -> None:
    """Prompted by clusters 0 and 1, whose failing tasks are asked first; none is won."""
    _, log = stopped(a("x", "a"), a("y", "b"), workers=2)
    ended = [(event.subject, event.outcome, event.contributors) for event in log if isinstance(event, Judged)]
    assert ended == [(2, "futile", ()), (0, "futile", ()), (1, "futile", ())]
    split = [
        event.evidence.split
        for event in log
        if isinstance(event, Judged) and isinstance(event.evidence, FutilityEvidence)
    ]
    assert split == [True, False, False]
    assert sorted(tasks_of(log, 2)) == [0, 1, 3, 4, 6, 7, 9, 10]
    assert [sorted(tasks_of(log, subject)) for subject in (0, 1)] == [[0, 3, 6, 9], [1, 4, 7, 10]]


def test_what_was_futile_is_not_paid_for_again() -> None:
    _, log = stopped(a("nothing"), a("nothing"), rounds=2)
    assert outcomes(log) == {0: "futile", 1: "duplicate"}


def test_the_order_is_own_then_failing_then_solved() -> None:
    state, log = stopped(a("nothing"), solved=(0, 1, 5), rounds=1)
    at = next(n for n, event in enumerate(log) if isinstance(event, GateOpened))
    before = states(log)[at - 1]
    assert before.cards[0].task == 12
    order, own = gate_order(before, before.cards)
    assert [state.split.heldout[position] for position in order] == [3, 6, 9, 2, 4, 7, 8, 10, 11, 0, 1, 5]
    assert [state.split.heldout[position] for position in own] == [3, 6, 9]


# --- the price --------------------------------------------------------------------------------------------------------


def booked(spec: Spec, setup: Setup, job: Job, seed: int) -> tuple[State, list[Event], list[tuple[float, float]]]:
    found: list[tuple[float, float]] = []

    def spy(account: Account, rate: float, gain: float, tokens: float, *, committed: bool) -> Account:
        found.append((gain, tokens))
        return earn(account, rate, gain, tokens, committed=committed)

    with mock.patch.object(allocation, "earn", spy):
        state, log = play(spec, setup, job.world, order=any_order(seed))
    return state, log, found


@given(spending_job(), st.integers(0, 999))
def test_every_token_of_a_proposal_is_booked_once_and_every_gain(job: Job, seed: int) -> None:
    """Of a run in which every proposal came to an end: all that was spent, but for the base, the test, and turns in
    which nothing was proposed."""
    spec = replace(job.spec, allocator=job.spec.allocator or eager(), caps=Caps(rounds=3), patience=None, target=None)
    state, log, found = booked(spec, job.setup, job, seed)
    ended = log[-1]
    assert isinstance(ended, Stopped)
    assume(ended.unresolved == ())
    spent, turn, decided, before = 0, dict[int, int](), dict[int, Decided](), 0
    for event, after in zip(log, states(log), strict=True):
        used, before = after.governor.spent.tokens - before, after.governor.spent.tokens
        if isinstance(event, Decided):
            decided[event.command.id] = event
            if isinstance(event.command, Propose):
                spent += turn.pop(event.worker, 0)
            elif event.command.purpose == "rollout" and not event.attempt:
                turn[event.worker] = 0
        elif used:
            assert hasattr(event, "id")
            asked_for = decided[event.id]
            purpose = asked_for.command.purpose if isinstance(asked_for.command, Rollout) else "propose"
            if purpose == "rollout":
                turn[asked_for.worker] = turn.get(asked_for.worker, 0) + used
            elif purpose not in ("base", "test"):
                spent += used
    assert sum(tokens for _, tokens in found) == spent
    gained = sum(gain for gain, _ in found) * state.head.scores.size
    assert gained == pytest.approx(state.head.scores.total - state.base_total)


def test_a_cluster_keeps_its_own_score() -> None:
    state, _ = stopped(
        a(WON), a("nothing", "b"), rounds=2, futility=0.0, allocator=eager(stages=("gate",)), staleness="full"
    )
    assert state.kin == (Kin("c0", 1, 1), Kin("c1", 0, 1))
    assert state.learned.account.per_commit == pytest.approx(4 / 12 * 1_000_000)


def test_values_that_are_no_probabilities_are_refused() -> None:
    spec, setup = jobs()
    wrong: tuple[dict[str, Any], ...] = (
        {"futility": 1.0},
        {"futility": -0.1},
        {"finish_epsilon": 1.5},
        {"soft_floor": 0.0},
    )
    for fields in wrong:
        (field,) = fields
        with pytest.raises(UsageError, match=field):
            check(replace(spec, **fields), setup)


def test_a_gate_that_ends_before_a_check_is_judged_as_ever() -> None:
    _, log = stopped(a("down0 down1"), solved=tuple(range(12)))
    evidence = next(event.evidence for event in log if isinstance(event, Judged))
    assert isinstance(evidence, GateEvidence)


def test_a_control_with_vectors_of_its_own_goes_with_the_rule_of_the_run() -> None:
    """Both decide at `finish`, the rule on nine columns, the control on four: of either the outcomes are counted."""
    state, _ = stopped(a("nothing"), allocator=Lineage(stages=("finish",)))
    made = [Choice("finish", (0.5,) * width, 0.5, 0.0, 0.5, True, "value", 1.0) for width in (9, 4)]
    after = labelled(state, tuple(made), "committed").learned.finish
    assert (after.committed, after.weights.observed, after.weights.weights) == (2, 2, ())
