"""What the runs of bench.evidence came to: by workload, by seed, and over all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from agentdescent.experiment.pairing import paired, pairs
from agentdescent.experiment.results import ArmResult
from agentdescent.experiment.verdict import level_for
from agentdescent_adapters.comparison.report import figures

PLAIN, THRIFTY, ALLOCATOR, BOTH, EAGER = "plain", "thrifty", "allocator", "both", "eager"
COMPARED = ((PLAIN, THRIFTY), (PLAIN, ALLOCATOR), (PLAIN, BOTH), (PLAIN, EAGER), (THRIFTY, BOTH), (THRIFTY, EAGER))


class Row(NamedTuple):
    workload: str
    result: ArmResult


def compared(rows: Sequence[Row], cap: int) -> dict[str, dict[str, object]]:
    """By workload and by what is compared."""
    found: dict[str, dict[str, object]] = {}
    names = tuple(dict.fromkeys(row.workload for row in rows))
    for name in names:
        results = [row.result for row in rows if row.workload == name]
        found[name] = _compared(results, cap)
    if len(names) > 1:
        found["all"] = _compared(overall(rows, names), None)
    return found


def _compared(results: Sequence[ArmResult], cap: int | None) -> dict[str, object]:
    arms = {result.arm for result in results}
    return {
        f"{second} against {first}": _told(results, first, second, cap)
        for first, second in COMPARED
        if first in arms and second in arms
    }


def _told(results: Sequence[ArmResult], first: str, second: str, cap: int | None) -> dict[str, object]:
    """To the median of the highest that plain and thrifty reach, so that one target serves all comparisons."""
    level = level_for(len(pairs(results, first, second)))
    goal = paired(results, PLAIN, THRIFTY, cap=cap).target
    return figures(paired(results, first, second, cap=cap, target=goal, level=level))


def overall(rows: Sequence[Row], names: Sequence[str]) -> list[ArmResult]:
    """For each arm and seed, one result: the mean quality over all workloads, where all were scored."""
    groups: dict[tuple[str, int], list[ArmResult]] = {}
    for row in rows:
        groups.setdefault((row.result.arm, row.result.seed), []).append(row.result)
    return [
        ArmResult(
            arm,
            seed,
            quality=math.fsum(one.quality or 0.0 for one in group) / len(names),
            tokens=sum(one.tokens or 0 for one in group),
            skipped=sum(one.skipped for one in group),
            counterfactual=sum(one.counterfactual for one in group),
        )
        for (arm, seed), group in groups.items()
        if len(group) == len(names) and all(one.scored for one in group)
    ]


def failures(rows: Sequence[Row]) -> tuple[dict[str, list[int]], list[str]]:
    """By workload the seeds at which no arm was scored, which favour none; and what else failed, with its reason."""
    scored = {(row.workload, row.result.seed) for row in rows if row.result.scored}
    lost: dict[str, list[int]] = {}
    for name, seed in dict.fromkeys((row.workload, row.result.seed) for row in rows):
        if (name, seed) not in scored:
            lost.setdefault(name, []).append(seed)
    failed = [(name, one) for name, one in rows if not one.scored and (name, one.seed) in scored]
    return lost, [f"{name} {one.arm} {one.seed}: {one.error}" for name, one in failed]


def columns(rows: Sequence[Row]) -> list[dict[str, object]]:
    """One entry a workload and arm: seeds, qualities and tokens, in the order of the seeds."""
    found: dict[tuple[str, str], list[ArmResult]] = {}
    for row in rows:
        found.setdefault((row.workload, row.result.arm), []).append(row.result)
    return [
        {
            "workload": name,
            "arm": arm,
            "seed": [one.seed for one in results],
            "quality": [None if one.quality is None else round(one.quality, 5) for one in results],
            "tokens": [one.tokens for one in results],
        }
        for (name, arm), results in found.items()
    ]
