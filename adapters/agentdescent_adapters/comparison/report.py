"""What a comparison of allocators came to, as one object for programs and as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentdescent.experiment.comparison import DASH
from agentdescent.experiment.curves import tokens_to
from agentdescent.experiment.intervals import Interval
from agentdescent.experiment.pairing import PairedComparison, paired, pairs
from agentdescent.experiment.results import ArmResult
from agentdescent.experiment.verdict import Decided, decided, level_for
from agentdescent_adapters.comparison.treatments import OFF, ON

_ROW = (
    *("arm", "seed", "quality", "base", "rollouts", "calls", "tokens", "error", "stop_reason"),
    *("consulted", "skipped", "counterfactual", "digest"),
)


def against_off(rows: Sequence[ArmResult], arm: str, cap: int, target: float | None = None) -> PairedComparison:
    """An arm against `off`, at the level that a verdict on so many pairs reads."""
    level = level_for(len(pairs(rows, OFF, arm)))
    return paired(rows, OFF, arm, cap=cap, target=target, level=level)


class Report:
    """`main`: on against off, on which the verdict rests. `others`: the controls against off, at the same target."""

    def __init__(self, rows: Sequence[ArmResult], cap: int, target: float | None = None) -> None:
        self.rows, self.cap = tuple(rows), cap
        self.main = against_off(rows, ON, cap, target)
        self.decided: Decided = decided(self.main)
        arms = [arm for arm in dict.fromkeys(row.arm for row in rows) if arm not in (OFF, ON)]
        self.others = tuple(against_off(rows, arm, cap, self.main.target) for arm in arms)
        self.failed = sum(row.tokens or 0 for row in rows if not row.scored)

    def result(self) -> dict[str, Any]:
        """With a row for every planned run."""
        return {
            **figures(self.main),
            "verdict": self.decided.verdict,
            "why": self.decided.why,
            "failed_spend": self.failed,
            "controls": {one.treatment: figures(one) for one in self.others},
            "rows": [self._row(row) for row in self.rows],
        }

    def _row(self, row: ArmResult) -> dict[str, Any]:
        """`to_target`: tokens at which the target was reached, the cap where never; None where that is not measured."""
        goal = self.main.target
        measured = tokens_to(row.curve, goal, self.cap) if goal is not None and row.curve else None
        return {**{name: getattr(row, name) for name in _ROW}, "to_target": measured}

    def text(self) -> str:
        """What failed, and where there are complete pairs, a table of these alone."""
        lines = [f"{row.arm} seed {row.seed}: {row.error}" for row in self.rows if row.error]
        if self.main.pairs:
            lines += ["", *table((self.main, *self.others)), ""]
        tokens = f"failed spend {self.failed:,} tokens" if self.failed else "nothing failed"
        if self.main.excluded_spend:
            tokens += f"; {self.main.excluded_spend:,} of runs without a partner are not compared"
        lines.append(f"{len(self.rows)} runs, {self.main.pairs} complete pairs; {tokens}")
        if self.main.target is not None:
            first, second = self.main.reached
            lines.append(
                f"target {self.main.target:.3f}: reached by {first} of {self.main.pairs} off, {second} on; "
                "never reached counts as the cap"
            )
        fired = f"fired: {self.main.fired} skips" if self.main.fired else "not fired: 0 skips"
        lines.append(f"{fired}, {self.main.counterfactuals} counterfactuals")
        lines.append(f"verdict: {self.decided.verdict} ({self.decided.why})")
        return "\n".join(lines)


def table(comparisons: Sequence[PairedComparison]) -> list[str]:
    """A line for each arm against off, of the pairs in which both were scored."""
    head = ("arm", "pairs", "quality", "of off", "difference", "tokens", "of off", "to target, ratio", "skips")
    rows = [head, *(_line(one) for one in comparisons)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _line(one: PairedComparison) -> tuple[str, ...]:
    quality, tokens = one.quality, one.tokens
    return (
        one.treatment,
        str(one.pairs),
        DASH if quality is None else f"{quality[1]:.3f}",
        DASH if quality is None else f"{quality[0]:.3f}",
        _interval(one.quality_diff, "+.3f"),
        DASH if tokens is None else f"{tokens[1]:,.0f}",
        DASH if tokens is None else f"{tokens[0]:,.0f}",
        _interval(one.tokens_to_target_ratio, ".3f"),
        str(one.fired),
    )


def _interval(found: Interval | None, form: str) -> str:
    return DASH if found is None else f"{found.mid:{form}} ({found.lo:{form}} to {found.hi:{form}})"


def figures(one: PairedComparison) -> dict[str, Any]:
    """As JSON: an interval is [lo, mid, hi]."""
    return {
        "pairs": one.pairs,
        "incomplete": list(one.incomplete),
        "level": one.level,
        "quality": _two(one.quality),
        "quality_diff": _three(one.quality_diff),
        "quality_diff_bca": _three(one.quality_bca),
        "tokens": _two(one.tokens),
        "tokens_ratio": _three(one.tokens_ratio),
        "target": one.target,
        "reached": list(one.reached),
        "tokens_to_target_ratio": _three(one.tokens_to_target_ratio),
        "fired": one.fired,
        "counterfactuals": one.counterfactuals,
        "excluded_spend": one.excluded_spend,
    }


def _two(values: tuple[float, float] | None) -> list[float] | None:
    return None if values is None else [round(value, 5) for value in values]


def _three(found: Interval | None) -> list[float] | None:
    return None if found is None else [round(value, 5) for value in (found.lo, found.mid, found.hi)]
