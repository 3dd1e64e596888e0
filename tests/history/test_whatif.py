"""What another allocator would have changed, on decisions written by hand: every number, and when there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.allocation.features import Stage
from agentdescent.history.student import quantile
from agentdescent.history.whatif import answered
from agentdescent.history.whatif import by as of
from agentdescent.history.whatif_estimate import METHODS, QUANTITIES, columns, support, terms
from agentdescent.history.whatif_log import Decision
from agentdescent.record import replace


def decision(
    number: int, *, spent: bool, logged: float, target: float, tokens: int, commits: int = 0, stage: Stage = "gate"
) -> Decision:
    gain = 0.1 * commits
    return Decision(0, number, number, stage, spent, logged, target, (0.0,), tokens, commits, gain, number + 1)


def alternating(n: int, *, target: float, stage: Stage = "gate", run: int = 0) -> list[Decision]:
    """Spends and skips in turn, logged with 1/2: a spend costs 100 and commits, a skip costs 0 at a gate, else 40."""
    skip = 0 if stage == "gate" else 40
    return [
        replace(
            decision(
                *(i,),
                spent=i % 2 == 0,
                logged=0.5,
                target=target,
                tokens=skip if i % 2 else 100,
                commits=int(i % 2 == 0),
                stage=stage,
            ),
            run=run,
        )
        for i in range(n)
    ]


def test_inverse_propensity_by_hand() -> None:
    stages, total = answered(alternating(40, target=0.75))
    (gate,) = stages
    assert (gate.support.n, gate.support.open, gate.support.unsupported) == (40, 0, 0.0)
    assert gate.support.effective == pytest.approx(30**2 / (40 * 0.75**2 / 0.5))
    assert gate.support.largest == pytest.approx(1.5)
    assert (gate.recorded.spends, gate.recorded.tokens, gate.recorded.commits) == (20, 2_000, 20)
    assert gate.target_spends == pytest.approx(30.0)
    found = gate.by("tokens", "ips")
    # 20 spends of weight 1.5: each adds half of 100.
    assert found.kind == "estimate"
    assert found.value == pytest.approx(1_000.0)
    assert gate.support.effective is not None
    spread, telling = math.sqrt(20 * 0.5 * 50**2), 20 * gate.support.effective / 40
    assert found.telling == pytest.approx(telling)
    third = 0.0  # at 1/2 the draw of a decision is not skewed, but it goes with the variance that it is estimated by
    slope = 20 * 0.5 * 0.5 * 50**3 / spread**3
    t, z = quantile(0.975, telling - 1), 1.959963984540054
    shift = -slope / 2 + (z * z - 1) * (third - 3 * slope) / 6
    assert found.low == pytest.approx(1_000 - (t + shift) * spread)
    assert found.high == pytest.approx(1_000 + (t - shift) * spread)
    assert total == gate.changes


def test_self_normalised_and_doubly_robust_by_hand() -> None:
    (verify,), _ = answered(alternating(40, target=0.75, stage="verify"))
    # w = 1.5 and 0.5, so that sum w = n: self-normalising changes nothing.
    assert verify.by("tokens", "ips").value == pytest.approx(20 * 0.5 * 100 - 20 * 0.5 * 40)
    assert verify.by("tokens", "snips").value == pytest.approx(600.0)
    # Outcomes do not vary within an action, so the model is perfect: 40 * 0.25 * (100 - 40), and nothing is uncertain.
    assert verify.by("tokens", "dr").value in (None, pytest.approx(600.0))


def test_self_normalising_by_hand() -> None:
    made = alternating(80, target=1.0, stage="verify")
    rare = [number % 4 == 0 for number in range(80)]
    made = [
        replace(one, logged=0.25 if own else 0.5, tokens=one.tokens + own) for one, own in zip(made, rare, strict=True)
    ]
    (verify,), _ = answered(made)
    recorded = 20 * 101 + 20 * 100 + 40 * 40
    weighed, weights = 20 * 4 * 101 + 20 * 2 * 100, 20 * 4 + 20 * 2
    assert verify.by("tokens", "ips").value == pytest.approx(weighed - recorded)
    assert verify.by("tokens", "snips").value == pytest.approx(80 * weighed / weights - recorded)


def test_where_nothing_varies_there_is_no_interval() -> None:
    """One of no width would claim to know."""
    made = [replace(one, tokens=100) for one in alternating(80, target=0.75, stage="verify")]
    (verify,), _ = answered(made)
    assert verify.by("tokens", "ips").kind == "estimate"
    assert verify.by("tokens", "snips").reason == "no draw of the log tells anything"


@given(
    st.lists(
        st.tuples(st.booleans(), st.floats(0.05, 1.0), st.integers(0, 10**6), st.integers(0, 1)),
        min_size=1,
        max_size=60,
    ),
    st.sampled_from(("verify", "tournament", "gate", "finish")),
)
def test_a_target_equal_to_the_log_changes_nothing_exactly(
    rows: list[tuple[bool, float, int, int]], stage: Stage
) -> None:
    made = [
        decision(i, spent=spent, logged=p, target=p, tokens=tokens, commits=commits, stage=stage)
        for i, (spent, p, tokens, commits) in enumerate(rows)
        if spent or p < 1.0
    ]
    stages, _ = answered(made)
    for answer in stages:
        assert answer.support.effective is None
        for one in answer.changes:
            assert (one.kind, one.value, one.low, one.high) == ("exact", 0.0, 0.0, 0.0)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.booleans(), st.floats(0.0, 1.0)), min_size=1, max_size=60))
def test_what_is_skipped_at_a_gate_is_known_exactly(rows: list[tuple[int, bool, float]]) -> None:
    """A log that spent throughout tells any other exactly: nothing has to be weighed."""
    made = [
        decision(i, spent=True, logged=1.0, target=target, tokens=tokens, commits=int(won))
        for i, (tokens, won, target) in enumerate(rows)
    ]
    (gate,), _ = answered(made)
    assert (gate.support.unsupported, gate.support.effective) == (0.0, None)
    for quantity, method in ((q, m) for q in QUANTITIES for m in METHODS):
        found = gate.by(quantity, method)
        expected = sum((one.target - 1.0) * getattr(one, quantity) for one in made)
        assert (found.kind, found.low, found.high) == ("exact", found.value, found.value)
        assert found.value == pytest.approx(expected)


def test_the_estimates_are_right_on_average_over_every_log_there_could_have_been() -> None:
    """IPS over all 2^4 draws of four decisions with known outcomes: its mean is the truth, and so is its variance."""
    mu, pi, cost = (0.2, 0.5, 0.8, 0.5), (0.9, 0.1, 0.5, 0.7), (100, 30, 7, 55)
    truth = sum((p - m) * y for p, m, y in zip(pi, mu, cost, strict=True))
    mean = variance = estimated = 0.0
    for draws in range(16):
        spent = [bool(draws >> i & 1) for i in range(4)]
        chance = math.prod(m if a else 1 - m for a, m in zip(spent, mu, strict=True))
        made = [decision(i, spent=spent[i], logged=mu[i], target=pi[i], tokens=cost[i] * spent[i]) for i in range(4)]
        c = columns(made)
        found = terms(c, np.array([float(one.tokens) for one in made]), "ips")
        value = float(found.value.sum())
        mean += chance * value
        variance += chance * (value - truth) ** 2
        estimated += chance * found.variance
    assert mean == pytest.approx(truth)
    assert estimated == pytest.approx(variance)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_it_refuses_what_the_log_never_tried() -> None:
    made = [decision(i, spent=True, logged=1.0, target=1.0 - (i < 3), tokens=9, stage="verify") for i in range(20)]
    held = support(made)
    assert held.unsupported == pytest.approx(0.15)
    (verify,), total = answered(made)
    for one in (*verify.changes, *total):
        assert (one.kind, one.value, one.low, one.high) == ("no-support", None, None, None)
        assert one.reason.startswith("the log never tried 15% of what the target does (at most 10%)")
    assert support(made[1:]).unsupported == pytest.approx(2 / 19)
    assert support([decision(0, spent=False, logged=0.0, target=0.3, tokens=0)]).unsupported == pytest.approx(0.3)


def test_it_refuses_below_an_effective_sample_size() -> None:
    (gate,), _ = answered(alternating(10, target=0.75))
    assert gate.support.effective == pytest.approx(5.0)
    assert gate.by("tokens", "ips").reason == "effective sample size 5.0, less than 20: give more logs"


def test_it_refuses_to_tell_of_commits_that_hardly_ever_happened() -> None:
    made = [replace(one, commits=int(one.number == 0), gain=0.0) for one in alternating(60, target=0.9)]
    (gate,), _ = answered(made)
    assert gate.by("tokens", "ips").kind == "estimate"
    found = gate.by("commits", "ips")
    assert (found.kind, found.value) == ("no-support", None)
    assert found.reason.startswith("the change rests on 0.5 outcomes, less than 8")
    assert gate.by("gain", "dr").kind == "no-support"  # no gain at all: an interval of no width would claim to know


def test_one_stage_without_support_leaves_no_total() -> None:
    made = [decision(i, spent=True, logged=1.0, target=0.0, tokens=9, stage="verify") for i in range(30)]
    gates = [replace(one, number=one.number + 100, target=0.2) for one in alternating(80, target=0.2)]
    stages, total = answered([*made, *gates])
    assert [one.stage for one in stages] == ["verify", "gate"]
    assert of(stages[1].changes, "tokens", "dr").kind == "estimate"
    assert all(one.kind == "no-support" and one.reason.startswith("verify: the log never tried") for one in total)


def test_nothing_recorded_gives_no_stage() -> None:
    assert answered([]) == ((), ())


# --- several runs -----------------------------------------------------------------------------------------------------


def test_stages_and_runs_add_up() -> None:
    verify = [one for run in range(12) for one in alternating(20, target=0.7, stage="verify", run=run)]
    gate = [one for run in range(12) for one in alternating(20, target=0.3, run=run)]
    stages, total = answered([*verify, *gate])
    for quantity in QUANTITIES:
        parts = [stage.by(quantity, "ips").value for stage in stages]
        assert of(total, quantity, "ips").value == pytest.approx(sum(value or 0.0 for value in parts))
    per_run = of(total, "tokens", "ips").per_run
    assert per_run is not None
    # Every run changes by the same, so that between runs nothing varies: 10 (0.4 x 100 - 0.4 x 40) - 10 x 0.4 x 100.
    assert list(per_run) == pytest.approx([-160.0, -160.0, -160.0])
    few = answered([one for one in gate if one.run < 9])[0][0]
    assert few.by("tokens", "ips").per_run is None


@pytest.mark.parametrize(("df", "expected"), [(1.0, 12.7062047), (4.0, 2.7764451), (30.0, 2.0422725), (1e6, 1.9599640)])
def test_student_quantiles(df: float, expected: float) -> None:
    assert quantile(0.975, df) == pytest.approx(expected, abs=1e-6)
