"""Arms side by side: what is unequal, confounded, told apart, or not known."""

from __future__ import annotations

import pytest

from agentdescent.errors import UsageError
from agentdescent.experiment import ArmResult, Comparison, compare
from tests.experiment.results import result


def arms(**quality: float) -> list[ArmResult]:
    """Twelve seeds an arm; quality varies with the seed, equally in all arms."""
    return [
        result(arm, seed, value + seed / 50 + (seed * len(arm) * 7 % 5) / 1000)
        for arm, value in quality.items()
        for seed in range(12)
    ]


def test_nothing_compared_is_an_empty_comparison() -> None:
    assert compare([]) == Comparison("tokens", 0.1)
    assert compare([]).to_markdown() == ""


def test_equal_arms() -> None:
    found = compare(arms(serial=0.3, merged=0.5))
    assert (found.unequal, found.confounded, found.separates, found.underpowered) == ((), (), ("merged",), ())
    gap = found.arms[1].difference
    assert gap is not None
    assert gap.lo < gap.mid < gap.hi
    assert gap.mid == pytest.approx(0.2, abs=0.003)
    assert found.arms[1].pairs == found.arms[1].runs == found.arms[1].scored == 12


def test_an_arm_that_used_more_is_unequal_and_one_that_used_more_of_something_else_is_confounded() -> None:
    results = [
        ArmResult("a", 0, 0.5, rollouts=100, calls=100, tokens=1000),
        ArmResult("b", 0, 0.5, rollouts=100, calls=109, tokens=1101),
        ArmResult("c", 0, 0.5, rollouts=100, calls=111, tokens=1100),
        ArmResult("d", 0, 0.5, rollouts=100, calls=None, tokens=899),
    ]
    found = compare(results)
    assert (found.unequal, found.confounded) == (("b", "d"), ("c",))
    by_calls = compare(results, fixed="calls")
    assert (by_calls.unequal, by_calls.confounded) == (("c", "d"), ("b", "d"))
    assert compare(results, tolerance=0.2).unequal == ()


def test_what_is_not_reported_is_a_dash_and_never_zero() -> None:
    results = [result("a", 0), result("a", 1), result("b", 0), result("b", 1, tokens=None)]
    found = compare(results)
    assert found.arms[1].tokens is None
    assert found.unequal == ("b",)
    head, _, first, second = found.to_markdown().splitlines()
    assert head.startswith("| arm | runs |")
    assert "| 100 |" in first
    assert "–" in second
    assert " 0 " not in second
    assert "unequal, underpowered" in second


def test_no_verdict_below_ten_pairs() -> None:
    results = [one for one in arms(a=0.1, b=0.9) if one.seed < 9]
    found = compare(results)
    assert (found.separates, found.underpowered) == ((), ("b",))
    more = [one for one in arms(a=0.1, b=0.9) if one.seed < 10]
    assert (compare(more).separates, compare(more).underpowered) == (("b",), ())


def test_more_arms_need_wider_intervals() -> None:
    two, three = compare(arms(a=0.3, bb=0.4)), compare(arms(a=0.3, bb=0.4, ccc=0.4))
    narrow, wide = two.arms[1].difference, three.arms[1].difference
    assert narrow is not None
    assert wide is not None
    assert wide.lo < narrow.lo < narrow.mid == wide.mid < narrow.hi < wide.hi


def test_a_failed_run_counts_as_run_and_not_as_scored() -> None:
    results = [*arms(a=0.3, b=0.5), result("b", 12, None, 70, error="run: gone"), result("a", 12)]
    found = compare(results)
    assert (found.arms[1].runs, found.arms[1].scored, found.arms[1].pairs) == (13, 12, 12)
    assert found.arms[1].tokens == pytest.approx((12 * 100 + 70) / 13)


def test_what_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="two results of seed 0"):
        compare([result("a"), result("b"), result("b")])
    with pytest.raises(UsageError, match="tolerance"):
        compare([result("a")], tolerance=-0.1)
