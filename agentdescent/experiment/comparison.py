"""Arms side by side: whether they used as much, and whether what they came to differs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentdescent.errors import UsageError
from agentdescent.experiment.intervals import LEVEL, Interval, t_interval
from agentdescent.experiment.pairing import LEAST_PAIRS, differences, pairs
from agentdescent.experiment.results import UNITS, ArmResult, Unit
from agentdescent.record import Record

DASH = "–"


class ArmSummary(Record, frozen=True):
    """An arm over its runs. Units are means over all of them, None where any did not report; `quality` over those that
    were `scored`. `difference`: quality less that of the first arm, over `pairs` of equal seeds."""

    arm: str
    runs: int
    scored: int
    quality: float | None
    rollouts: float | None
    calls: float | None
    tokens: float | None
    pairs: int = 0
    difference: Interval | None = None

    def used(self, unit: Unit) -> float | None:
        match unit:
            case "rollouts":
                return self.rollouts
            case "calls":
                return self.calls
            case "tokens":
                return self.tokens


class Comparison(Record, frozen=True):
    """Arms in the order of their first result; the first is what the others are compared with.

    `unequal`: arms that used more or less of the fixed unit than the first, by more than the tolerance, or are not
    known to have used as much. `confounded`: arms that differ so in another unit, which may explain what they came to.
    `separates`: arms whose quality differs from that of the first, by intervals that are wrong in 5 % of cases over all
    arms together. `underpowered`: arms with fewer than 10 pairs, of which nothing is said.
    """

    fixed: Unit
    tolerance: float
    arms: tuple[ArmSummary, ...] = ()
    unequal: tuple[str, ...] = ()
    confounded: tuple[str, ...] = ()
    separates: tuple[str, ...] = ()
    underpowered: tuple[str, ...] = ()

    def to_markdown(self) -> str:
        """A table, a row an arm; what was not reported is a dash. Empty for no arms."""
        if not self.arms:
            return ""
        head = "| arm | runs | scored | quality | difference | rollouts | calls | tokens | remarks |"
        return "\n".join([head, "|---|--:|--:|--:|--:|--:|--:|--:|---|", *(self._row(arm) for arm in self.arms)])

    def _row(self, arm: ArmSummary) -> str:
        remarks = [name for name in ("unequal", "confounded", "separates", "underpowered") if arm.arm in self._of(name)]
        gap = arm.difference
        difference = DASH if gap is None else f"{gap.mid:+.3f} ({gap.lo:+.3f} to {gap.hi:+.3f})"
        quality = DASH if arm.quality is None else f"{arm.quality:.3f}"
        used = [DASH if (value := arm.used(unit)) is None else f"{value:,.0f}" for unit in UNITS]
        name = arm.arm.replace("|", "\\|")
        cells = (name, str(arm.runs), str(arm.scored), quality, difference, *used, ", ".join(remarks))
        return f"| {' | '.join(cells)} |"

    def _of(self, remark: str) -> tuple[str, ...]:
        found = {
            "unequal": self.unequal,
            "confounded": self.confounded,
            "separates": self.separates,
            "underpowered": self.underpowered,
        }
        return found[remark]


def compare(results: Sequence[ArmResult], fixed: Unit = "tokens", tolerance: float = 0.1) -> Comparison:
    """Arms that were to be equal in `fixed`, within the share `tolerance`."""
    if fixed not in UNITS:
        raise UsageError(f"fixed is {fixed!r}: it is one of {', '.join(UNITS)}")
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise UsageError(f"tolerance is {tolerance!r}: it must be a share of at least 0")
    names = list(dict.fromkeys(result.arm for result in results))
    if not names:
        return Comparison(fixed, tolerance)
    level = 1 - (1 - LEVEL) / max(1, len(names) - 1)
    arms = tuple(_summary(results, name, names[0], level) for name in names)
    others = [unit for unit in UNITS if unit != fixed]
    first, rest = arms[0], arms[1:]
    return Comparison(
        fixed,
        tolerance,
        arms,
        unequal=tuple(arm.arm for arm in rest if _apart(arm, first, fixed, tolerance) is not False),
        confounded=tuple(
            arm.arm for arm in rest if any(_apart(arm, first, unit, tolerance) is True for unit in others)
        ),
        separates=tuple(
            arm.arm
            for arm in rest
            if arm.difference is not None and arm.pairs >= LEAST_PAIRS and arm.difference.excludes(0.0)
        ),
        underpowered=tuple(arm.arm for arm in rest if arm.pairs < LEAST_PAIRS),
    )


def _apart(arm: ArmSummary, first: ArmSummary, unit: Unit, tolerance: float) -> bool | None:
    """None: not known."""
    ours, theirs = arm.used(unit), first.used(unit)
    return None if ours is None or theirs is None else abs(ours - theirs) > tolerance * theirs


def _summary(results: Sequence[ArmResult], name: str, first: str, level: float) -> ArmSummary:
    own = [result for result in results if result.arm == name]
    quality = [result.quality for result in own if result.scored and result.quality is not None]
    found = pairs(results, first, name) if name != first else ()
    return ArmSummary(
        name,
        len(own),
        len(quality),
        math.fsum(quality) / len(quality) if quality else None,
        _mean(own, "rollouts"),
        _mean(own, "calls"),
        _mean(own, "tokens"),
        len(found),
        t_interval(differences(found), level) if len(found) > 1 else None,
    )


def _mean(results: Sequence[ArmResult], unit: Unit) -> float | None:
    values = [used for result in results if (used := result.used(unit)) is not None]
    return math.fsum(values) / len(values) if len(values) == len(results) else None
