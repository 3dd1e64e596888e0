"""What stopped gates would have brought, estimated from those that were completed by chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.allocation.choice import Choice
from agentdescent.budget.usage import Amount
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Decided, Event, Judged
from agentdescent.history.recall import Recall, interval, loss, pooled, recall_of
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.verdict import FailureEvidence, FutilityEvidence, GateEvidence
from agentdescent.record import replace
from tests.world import chance


def finish(*, go_on: bool, epsilon: float = 0.1) -> Choice:
    reason, propensity = ("counterfactual", epsilon) if go_on else ("skip", 1.0 - epsilon)
    choice = Choice("finish", (), 0.0, epsilon, 0.0, go_on, "skip", propensity)
    return replace(choice, reason="counterfactual") if reason == "counterfactual" else choice


def went_on(subject: int, epsilon: float = 0.1) -> Event:
    command = Rollout(0, "gate", "a", 0, 1, Amount())
    return Decided(command, subject=subject, choice=finish(go_on=True, epsilon=epsilon))


def stopped(subject: int) -> Event:
    return Judged(subject, "futile", (), FutilityEvidence(0, 0, 10_000, 8, 40, finish(go_on=False)))


def verdict(subject: int, gain: int) -> Event:
    evidence = GateEvidence(gain * MILLION, 0, 900_000, 500_000, 40, 40)
    return Judged(subject, "committed" if gain else "below-threshold", (), evidence)


def test_a_gate_completed_by_chance_stands_for_those_that_were_stopped() -> None:
    log = [verdict(0, 6), went_on(1), verdict(1, 2), went_on(2), verdict(2, 0), *(stopped(n) for n in range(3, 21))]
    recall = recall_of(log)
    assert replace(recall, weighted=0.0) == Recall(18, 2, 1, 2 * MILLION, 0.0, 2, 8 * MILLION)
    assert recall.weighted == pytest.approx(18.0 * MILLION)
    assert loss(recall) == pytest.approx(18 / 26)
    low, high = interval(recall)
    assert 0.0 < low < 18 / 26 < high < 1.0


@pytest.mark.parametrize(
    ("log", "share", "bounds"),
    [
        ([verdict(0, 3)], 0.0, (0.0, 0.0)),
        ([verdict(0, 3), stopped(1)], None, (0.0, 1.0)),
        ([stopped(0), went_on(1), verdict(1, 0)], 0.0, (0.0, 1.0)),
    ],
)
def test_what_cannot_be_told_is_not(log: list[Event], share: float | None, bounds: tuple[float, float]) -> None:
    assert (loss(recall_of(log)), interval(recall_of(log))) == (share, bounds)


def test_nothing_that_committed_leaves_an_upper_bound() -> None:
    log = [verdict(0, 4)]
    for n in range(1, 21):
        log += [went_on(n), verdict(n, 0)]
    recall = recall_of([*log, *(stopped(n) for n in range(21, 41))])
    assert loss(recall) == 0.0
    low, high = interval(recall)
    assert low == 0.0
    assert 0.1 < high < 0.8
    failed = Judged(99, "failed", (), FailureEvidence("timeout", "late"))
    assert recall_of([went_on(99), failed]) == Recall()


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.3]), st.sampled_from([0.05, 0.3]))
def test_pooled_over_runs_it_finds_the_truth(seed: int, epsilon: float, share: float) -> None:
    """3,000 gates below the bar and 200 above it, in 20 runs: within the interval of three deviations."""
    logs: list[list[Event]] = [[] for _ in range(20)]
    would, kept = 0, 0
    for n in range(3_200):
        log = logs[n % 20]
        won = chance(seed, "won", n) < share
        if n % 16 == 0:
            log.append(verdict(n, 1))
            would, kept = would + 1, kept + 1
            continue
        would += won
        if chance(seed, "draw", n) < epsilon:
            log += [went_on(n, epsilon), verdict(n, int(won))]
            kept += won
        else:
            log.append(stopped(n))
    recall = pooled(map(recall_of, logs))
    low, high = interval(recall, 4.0)
    truth = 1.0 - kept / would
    assert low <= truth <= high
    estimated = loss(recall)
    assert estimated is not None
    assert abs(estimated - truth) < 0.25


def test_one_commit_of_no_gain_by_chance_does_not_say_that_nothing_was_lost() -> None:
    """Seen in world jewel: the only gate that chance completed committed on its verify weights, without any gain."""
    seen = Recall(stopped=209, finished=24, finished_commits=1, chance_gain=0, commits=448, gain=1_608_000_000)
    low, high = interval(seen)
    assert low == 0.0
    assert 0.05 < high < 0.15
