"""Two arms compared seed by seed. Quality and cost are of the same pairs: those in which both arms were scored."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from agentdescent.errors import UsageError
from agentdescent.experiment.curves import best, reached, tokens_to
from agentdescent.experiment.intervals import LEVEL, Interval, bca_interval, mean_of, ratio_of, t_interval
from agentdescent.experiment.results import ArmResult
from agentdescent.record import Record, replace

LEAST_PAIRS = 10
"""Below it there is no verdict."""
LEAST_PAIRS_TOKENS = 30
"""Below it there is none on tokens, whose spread is larger."""


class Pair(NamedTuple):
    seed: int
    control: ArmResult
    treatment: ArmResult


class PairedComparison(Record, frozen=True):
    """`treatment` against `control` over the seeds at which both were scored.

    `quality_diff`: treatment less control, Student's interval of the paired differences; `quality_bca`: the same by
    bootstrap. `tokens_ratio`: mean tokens spent, treatment over control; `tokens_to_target_ratio`: the same of the
    tokens at which `target` was first reached, never: the cap. The bootstrap is expanded BCa. `reached`: runs that
    reached it, control first. None where there are fewer than 2 pairs, or nothing was reported. `failed_spend`: tokens
    of runs that failed or were not scored; `excluded_spend`: of runs whose partner was not scored. `incomplete`: seeds
    without a pair.
    """

    control: str
    treatment: str
    level: float
    seeds: tuple[int, ...] = ()
    incomplete: tuple[int, ...] = ()
    quality: tuple[float, float] | None = None
    tokens: tuple[float, float] | None = None
    quality_diff: Interval | None = None
    quality_bca: Interval | None = None
    tokens_ratio: Interval | None = None
    target: float | None = None
    reached: tuple[int, int] = (0, 0)
    tokens_to_target_ratio: Interval | None = None
    failed_spend: int = 0
    excluded_spend: int = 0
    fired: int = 0
    counterfactuals: int = 0

    @property
    def pairs(self) -> int:
        return len(self.seeds)


def pairs(results: Sequence[ArmResult], control: str, treatment: str) -> tuple[Pair, ...]:
    """By seed, in rising order. Raises UsageError when an arm has two results of one seed."""
    first, second = _by_seed(results, control), _by_seed(results, treatment)
    return tuple(
        Pair(seed, first[seed], second[seed])
        for seed in sorted(first.keys() & second.keys())
        if first[seed].scored and second[seed].scored
    )


def _by_seed(results: Sequence[ArmResult], arm: str) -> dict[int, ArmResult]:
    found: dict[int, ArmResult] = {}
    for result in results:
        if result.arm != arm:
            continue
        if result.seed in found:
            raise UsageError(f"arm {arm!r} has two results of seed {result.seed}: a pair is one of each")
        found[result.seed] = result
    return found


def differences(found: Sequence[Pair]) -> list[float]:
    """Quality of the treatment less that of the control, pair by pair."""
    return [(pair.treatment.quality or 0.0) - (pair.control.quality or 0.0) for pair in found]


def paired(
    results: Sequence[ArmResult],
    control: str,
    treatment: str,
    *,
    cap: int | None = None,
    target: float | None = None,
    level: float = LEVEL,
) -> PairedComparison:
    """`cap`: tokens that stand for a target never reached; without it nothing is said of targets. `target`: a reward;
    None: the median of what the runs of both arms reached, so that the choice favours neither."""
    found = pairs(results, control, treatment)
    seeds = tuple(pair.seed for pair in found)
    of_both = [result for result in results if result.arm in (control, treatment)]
    comparison = PairedComparison(
        control,
        treatment,
        level,
        seeds=seeds,
        incomplete=tuple(sorted({result.seed for result in of_both} - set(seeds))),
        failed_spend=sum(result.tokens or 0 for result in of_both if not result.scored),
        excluded_spend=sum(result.tokens or 0 for result in of_both if result.scored and result.seed not in seeds),
        fired=sum(pair.treatment.skipped for pair in found),
        counterfactuals=sum(pair.treatment.counterfactual for pair in found),
    )
    return _measured(comparison, found, cap, target) if found else comparison


def _measured(
    comparison: PairedComparison, found: Sequence[Pair], cap: int | None, target: float | None
) -> PairedComparison:
    n, diffs, level = len(found), differences(found), comparison.level
    quality = (
        math.fsum(pair.control.quality or 0.0 for pair in found) / n,
        math.fsum(pair.treatment.quality or 0.0 for pair in found) / n,
    )
    comparison = replace(comparison, quality=quality)
    if n > 1:
        comparison = replace(
            comparison,
            quality_diff=t_interval(diffs, level),
            quality_bca=bca_interval([(diff,) for diff in diffs], mean_of, level, expanded=True),
        )
    spent = [(pair.treatment.tokens, pair.control.tokens) for pair in found]
    rows = [(float(ours), float(theirs)) for ours, theirs in spent if ours is not None and theirs is not None]
    if len(rows) == n:  # else a mean would be of other pairs than the quality
        means = math.fsum(row[1] for row in rows) / n, math.fsum(row[0] for row in rows) / n
        comparison = replace(comparison, tokens=means, tokens_ratio=_ratio(rows, level))
    return comparison if cap is None else _to_target(comparison, found, cap, target)


def _to_target(comparison: PairedComparison, found: Sequence[Pair], cap: int, target: float | None) -> PairedComparison:
    goal = _goal(found, cap) if target is None else target
    if goal is None:
        return comparison
    rows = [
        (float(tokens_to(pair.treatment.curve, goal, cap)), float(tokens_to(pair.control.curve, goal, cap)))
        for pair in found
    ]
    both = (
        sum(reached(pair.control.curve, goal, cap) for pair in found),
        sum(reached(pair.treatment.curve, goal, cap) for pair in found),
    )
    ratio = _ratio(rows, comparison.level)
    return replace(comparison, target=goal, reached=both, tokens_to_target_ratio=ratio)


def _goal(found: Sequence[Pair], cap: int) -> float | None:
    highest = [best(result.curve, cap) for pair in found for result in (pair.control, pair.treatment)]
    known = [value for value in highest if value is not None]
    return statistics.median_low(known) if len(known) == len(highest) else None


def _ratio(rows: Sequence[tuple[float, float]], level: float) -> Interval | None:
    if len(rows) < 2 or any(theirs <= 0 for _, theirs in rows):
        return None
    return bca_interval(rows, ratio_of, level, expanded=True)
