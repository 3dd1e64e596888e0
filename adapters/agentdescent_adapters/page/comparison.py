"""Several runs on one page: their curves over one another, and where each ended."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from agentdescent.history.report import Report
from agentdescent.history.tested import Tested
from agentdescent_adapters.page.build import environment, style
from agentdescent_adapters.page.chart import Axis, axis, steps
from agentdescent_adapters.page.view import reach


class Row(msgspec.Struct, frozen=True):
    """One run; rewards in [0, 1], None before the start was scored."""

    name: str
    path: str
    tokens: int
    cap: int | None
    first: float | None
    last: float | None
    tested: Tested
    commits: int
    stop: str | None
    seed: int


def rows(runs: Sequence[tuple[str, Report]], x: Axis, y: Axis) -> tuple[Row, ...]:
    return tuple(_row(name, report, x, y) for name, report in runs)


def _row(name: str, report: Report, x: Axis, y: Axis) -> Row:
    curve, spent = report.curve, report.spend.total.tokens
    return Row(
        name,
        steps([(point.tokens, point.reward) for point in curve], spent, x, y),
        spent,
        report.state.governor.caps.tokens,
        curve[0].reward if curve else None,
        curve[-1].reward if curve else None,
        report.tested,
        len(report.commits),
        report.stop_reason,
        report.state.spec.seed,
    )


def notes(runs: Sequence[tuple[str, Report]]) -> tuple[str, ...]:
    """What makes these runs no fair comparison."""
    found = []
    if len({report.state.setup.tasks for _, report in runs}) > 1:
        found.append("These runs had different tasks: their rewards are not comparable.")
    elif len({report.heldout for _, report in runs}) > 1:
        found.append("These runs decided on different held-out tasks: compare the test parts, not the curves.")
    if len({report.state.setup.agent for _, report in runs}) > 1:
        found.append("These runs had different agents.")
    if len({report.state.setup.scorer for _, report in runs}) > 1:
        found.append("These runs were scored differently: their rewards are not comparable.")
    if len({report.state.governor.caps.tokens for _, report in runs}) > 1:
        found.append("These runs had different token caps: compare the curves at equal tokens, not the ends.")
    return tuple(found)


def page(runs: Sequence[tuple[str, Report]]) -> str:
    """`runs`: names and reports, at least one."""
    spent = [report.spend.total.tokens for _, report in runs]
    most = reach(spent, [report.state.governor.caps.tokens for _, report in runs])
    x, y = axis(0, most), axis(0, 1, percent=True)
    return (
        environment()
        .get_template("compare.html")
        .render(css=style(), x=x, y=y, rows=rows(runs, x, y), notes=notes(runs))
    )
