"""Pairs: quality and cost are of the same seeds, whatever failed; and the table of verdicts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.experiment import ArmResult, Interval, PairedComparison, decided, paired, pairs
from agentdescent.experiment.verdict import level_for
from agentdescent.record import replace
from tests.experiment.results import result


def test_case_36_each_arm_fails_on_another_seed() -> None:
    rows = [
        result("off", 0, None, 7, error="run: gone"),
        result("on", 0, 0.9, 110),
        result("off", 1, 0.4, 100),
        result("on", 1, None, 13, error="score: gone"),
        result("off", 2, 0.4, 100),
        result("on", 2, 0.6, 80),
        result("off", 3, None, 5, error="run: gone"),
        result("on", 3, None, 6, error="run: gone"),
        result("off", 4, 0.5, 100),
        result("on", 4, 0.5, 60),
    ]
    found = paired(rows, "off", "on")
    assert (found.seeds, found.incomplete) == ((2, 4), (0, 1, 3))
    assert found.quality == pytest.approx((0.45, 0.55))
    assert found.tokens == (100.0, 70.0)
    assert found.failed_spend == 7 + 13 + 5 + 6
    assert found.excluded_spend == 110 + 100
    assert found.tokens_ratio is not None
    assert found.tokens_ratio.mid == pytest.approx(0.7)


def test_no_complete_pair_measures_nothing() -> None:
    found = paired([result("off", 0, None, 7, error="x"), result("on", 0)], "off", "on", cap=1000)
    assert found.pairs == 0
    unknown = (found.quality, found.tokens, found.quality_diff, found.tokens_ratio, found.tokens_to_target_ratio)
    assert (*unknown, found.target) == (None,) * 6
    assert (found.failed_spend, found.excluded_spend) == (7, 100)
    assert decided(found).verdict == "not measurable"


outcome = st.sampled_from(["scored", "failed", "unscored", "absent"])


@given(st.lists(st.tuples(outcome, outcome), max_size=12))
def test_every_token_is_compared_failed_or_excluded(states: list[tuple[str, str]]) -> None:
    rows = [
        result(arm, seed, 0.5 if state == "scored" else None, 100 + seed, error="x" if state == "failed" else "")
        for seed, both in enumerate(states)
        for arm, state in zip(("off", "on"), both, strict=True)
        if state != "absent"
    ]
    found = paired(rows, "off", "on", cap=500)
    complete = tuple(seed for seed, both in enumerate(states) if both == ("scored", "scored"))
    assert found.seeds == complete == tuple(pair.seed for pair in pairs(rows, "off", "on"))
    compared = sum(2 * (100 + seed) for seed in complete)
    assert compared + found.failed_spend + found.excluded_spend == sum(row.tokens or 0 for row in rows)


def test_tokens_that_one_run_did_not_report_are_not_averaged_over_the_others() -> None:
    rows = [result("off", seed) for seed in range(3)] + [result("on", seed, tokens=seed or None) for seed in range(3)]
    found = paired(rows, "off", "on")
    assert (found.pairs, found.tokens, found.tokens_ratio) == (3, None, None)


def test_tokens_to_target_are_censored_at_the_cap() -> None:
    quick, slow, never = ((10, 0.2), (300, 0.8)), ((10, 0.2), (600, 0.8)), ((10, 0.2),)
    curves = [(slow, quick), (never, quick), (slow, never)]
    rows = [
        result(arm, seed, 0.5, curve=curve)
        for seed, both in enumerate(curves)
        for arm, curve in zip(("off", "on"), both, strict=True)
    ]
    found = paired(rows, "off", "on", cap=1000)
    assert found.target == 0.8
    assert found.reached == (2, 2)
    ratio = found.tokens_to_target_ratio
    assert ratio is not None
    assert ratio.mid == pytest.approx((300 + 300 + 1000) / (600 + 1000 + 600))
    named = paired(rows, "off", "on", cap=1000, target=0.9)
    assert (named.reached, named.tokens_to_target_ratio) == ((0, 0), Interval(1.0, 1.0, 1.0))


def test_the_target_favours_neither_arm() -> None:
    low, high = ((1, 0.2),), ((1, 0.6),)
    rows = [result("off", s, curve=low) for s in range(3)] + [result("on", s, curve=high) for s in range(3)]
    mirrored = [replace(row, arm="on" if row.arm == "off" else "off") for row in rows]
    assert paired(rows, "off", "on", cap=9).target == paired(mirrored, "off", "on", cap=9).target


# --- verdicts ---------------------------------------------------------------------------------------------------------


def comparison(n: int, quality: Interval, ratio: Interval | None, fired: int = 5) -> PairedComparison:
    return PairedComparison(
        "off", "on", 0.95, seeds=tuple(range(n)), quality_diff=quality, tokens_to_target_ratio=ratio, fired=fired
    )


BETTER, SAME, LOWER = Interval(0.1, 0.2, 0.3), Interval(-0.1, 0.0, 0.1), Interval(-0.3, -0.2, -0.1)
FEWER, EQUAL, MORE = Interval(0.7, 0.8, 0.9), Interval(0.9, 1.0, 1.1), Interval(1.1, 1.2, 1.3)


@pytest.mark.parametrize(
    ("n", "quality", "ratio", "verdict"),
    [
        (9, BETTER, FEWER, "not measurable"),
        (10, BETTER, MORE, "improved"),
        (10, LOWER, FEWER, "worse"),
        (10, SAME, FEWER, "no difference"),
        (29, SAME, MORE, "no difference"),
        (30, SAME, FEWER, "improved"),
        (30, SAME, MORE, "worse"),
        (30, SAME, EQUAL, "no difference"),
        (30, SAME, None, "no difference"),
        (30, BETTER, MORE, "improved"),
    ],
)
def test_the_table(n: int, quality: Interval, ratio: Interval | None, verdict: str) -> None:
    assert decided(comparison(n, quality, ratio)).verdict == verdict


def test_case_37_counterfactuals_alone_are_no_difference_made() -> None:
    rows = [
        ArmResult(arm, seed, 0.5 + 0.1 * (arm == "on"), tokens=100, consulted=9, skipped=0, counterfactual=4)
        for seed in range(12)
        for arm in ("off", "on")
    ]
    found = paired(rows, "off", "on")
    assert (found.fired, found.counterfactuals) == (0, 48)
    made = decided(found)
    assert made.verdict == "not measurable"
    assert "never fired: 0 skips, 48 counterfactuals" in made.why
    one = [replace(row, skipped=1) if row.arm == "on" and row.seed == 3 else row for row in rows]
    assert decided(paired(one, "off", "on")).verdict == "improved"


def test_two_looks_share_the_error() -> None:
    assert (level_for(10), level_for(29), level_for(30)) == (0.95, 0.95, 0.975)
