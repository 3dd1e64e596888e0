"""What the page of a run shows, computed from its report: charts, rows, and words for what happened."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

import msgspec

from agentdescent.allocation.features import Stage
from agentdescent.engine.event import StopReason
from agentdescent.history.gate_rows import GateRow
from agentdescent.history.lineage import Line, ancestry, sources
from agentdescent.history.report import Chosen, Report
from agentdescent.history.summary import Purposes
from agentdescent_adapters.page.chart import Axis, Mark, axis, mark, steps, strip

ENDINGS: dict[StopReason, str] = {
    "rounds": "all rounds were done",
    "target_reward": "the target was reached",
    "patience": "nothing got better for as long as was allowed",
    "solved": "every held-out task was solved",
    "max_tokens": "the token cap left no room for another step",
    "max_cost": "the cap on money left no room for another step",
    "max_calls": "the cap on calls left no room for another step",
    "max_rollouts": "the cap on rollouts left no room for another step",
    "max_seconds": "its time was up",
    "diminishing_returns": "tokens bought too little",
    "stop_when": "its own condition to stop was met",
    "cancelled": "it was cancelled",
    "overrun": "a call cost more than was declared",
    "error": "something failed",
}
GATES = 400
"""Gates with a row of their own; of a longer run those that committed and the last ones."""
CANDIDATES = 40
DOTS = 2_000
NEAR = 3
"""A cap of more than so many times what was spent is not drawn."""


class Curve(msgspec.Struct, frozen=True):
    """Reward against tokens: the path of the steps, a mark a commit, and where the cap is, in per cent; None where it
    is so far away that it would leave no room for the curve, or there is none."""

    x: Axis
    y: Axis
    path: str
    marks: tuple[Mark, ...]
    cap: float | None


class Row(msgspec.Struct, frozen=True):
    """A gate and its strip of the matrix."""

    gate: GateRow
    strip: list[tuple[str, str]]


class Matrix(msgspec.Struct, frozen=True):
    """`tasks`: the ids of the columns; `left_out`: gates without a row."""

    rows: tuple[Row, ...]
    tasks: tuple[str, ...]
    left_out: int
    by_reason: tuple[tuple[str, int], ...]


class Costs(msgspec.Struct, frozen=True):
    """Tokens by purpose, of the dearest candidates, and of all of them by how they ended."""

    purposes: tuple[tuple[Purposes, float], ...]
    dearest: tuple[tuple[int, int, str], ...]
    by_outcome: tuple[tuple[str, int, int], ...]
    others: int


class Decisions(msgspec.Struct, frozen=True):
    """The allocator's choices at one stage: p against tokens, those that spent and those that did not."""

    stage: Stage
    x: Axis
    y: Axis
    dots: tuple[tuple[str, Mark], ...]
    left_out: int
    propensities: tuple[float, float, float]


class DiffLine(msgspec.Struct, frozen=True):
    kind: str
    text: str


def curve(report: Report) -> Curve | None:
    """None before the start was scored."""
    if not report.curve:
        return None
    spent = report.spend.total.tokens
    cap = report.state.governor.caps.tokens
    x, y = axis(0, reach([spent], [cap])), axis(0, 1, percent=True)
    marks = tuple(
        mark(
            point.tokens,
            point.reward,
            f"version {point.version}: {point.reward:.1%} after {point.tokens:,} tokens",
            x,
            y,
        )
        for point in report.curve
    )
    path = steps([(point.tokens, point.reward) for point in report.curve], spent, x, y)
    return Curve(x, y, path, marks, None if cap is None or cap > x.high else round(x.place(cap) * 100, 2))


def reach(spent: Sequence[int], caps: Sequence[int | None]) -> int:
    """To where an axis of tokens goes: over what was spent, and the caps that are not far beyond it."""
    most = max(1, *spent)
    return max(most, *(cap for cap in caps if cap is not None and cap <= NEAR * most), 1)


def matrix(report: Report) -> Matrix:
    """Columns: the tasks that the start lost most on first, which is the order in which a gate asks at first."""
    base = report.base_scores or (0.0,) * len(report.heldout)
    order = sorted(range(len(report.heldout)), key=lambda position: (base[position], position))
    kept = _shown(report.gates)
    return Matrix(
        tuple(Row(row, strip(row.marks, order)) for row in kept),
        tuple(report.heldout[position] for position in order),
        len(report.gates) - len(kept),
        tuple(sorted(Counter(row.reason for row in report.gates).items())),
    )


def _shown(gates: tuple[GateRow, ...]) -> tuple[GateRow, ...]:
    """The last commits, and as many of the last others as there is room for."""
    won = [at for at, row in enumerate(gates) if row.outcome == "committed"][-GATES:]
    others = [at for at, row in enumerate(gates) if row.outcome != "committed"]
    room = GATES - len(won)
    return tuple(gates[at] for at in sorted([*won, *others[max(0, len(others) - room) :]]))


def costs(report: Report) -> Costs:
    total = max(1, report.spend.total.tokens)
    purposes = sorted(report.spend.by_purpose, key=lambda line: -line.tokens)
    dearest = sorted(report.subjects, key=lambda one: (-one.tokens, one.subject))[:CANDIDATES]
    tokens: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for one in report.subjects:
        tokens[one.outcome or "unresolved"] += one.tokens
        count[one.outcome or "unresolved"] += 1
    return Costs(
        tuple((line, line.tokens / total) for line in purposes),
        tuple((one.subject, one.tokens, one.outcome or "unresolved") for one in dearest),
        tuple((outcome, count[outcome], n) for outcome, n in tokens.most_common()),
        report.unassigned,
    )


def decisions(report: Report) -> tuple[Decisions, ...]:
    """One for each stage at which the allocator was asked."""
    stages: dict[Stage, list[Chosen]] = {}
    for made in report.choices:
        stages.setdefault(made.choice.stage, []).append(made)
    return tuple(_decisions(stage, made, report) for stage, made in stages.items())


def _decisions(stage: Stage, made: Sequence[Chosen], report: Report) -> Decisions:
    x, y = axis(0, max(1, report.spend.total.tokens)), axis(0, 1)
    shown = made[-DOTS:]
    dots = tuple(
        (
            _kind(one),
            mark(
                one.tokens,
                one.choice.p,
                f"{'spent' if one.choice.choice else 'not spent'} on {one.subject} ({one.choice.reason}, p"
                f" {one.choice.p:.2f}, propensity {one.choice.propensity:.2f}): {one.outcome or 'open'}",
                x,
                y,
            ),
        )
        for one in shown
    )
    found = sorted(one.choice.propensity for one in made)
    return Decisions(stage, x, y, dots, len(made) - len(shown), (found[0], found[len(found) // 2], found[-1]))


def _kind(made: Chosen) -> str:
    if made.choice.reason == "counterfactual":
        return "counterfactual"
    return "spent" if made.choice.choice else "skipped"


def lines(report: Report) -> tuple[Line, ...]:
    return sources(report.final, ancestry(report.commits, report.curve[-1].version if report.curve else 0))


def diff(report: Report) -> tuple[DiffLine, ...]:
    """The final text against the start, a line each: kept " ", added "+", taken away "-"."""
    before, after = report.start_text.splitlines(), report.final_text.splitlines()
    found: list[DiffLine] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            found += [DiffLine(" ", line) for line in before[a:b]]
        else:
            found += [DiffLine("-", line) for line in before[a:b]]
            found += [DiffLine("+", line) for line in after[c:d]]
    return tuple(found)


def sentence(report: Report) -> str:
    """What happened, for somebody who reads one line."""
    spent, cap = report.spend.total.tokens, report.state.governor.caps.tokens
    of = f" of {cap:,}" if cap is not None else ""
    if not report.curve:
        return f"The start has not been scored yet; {spent:,} tokens{of} spent."
    first, last = report.curve[0].reward, report.curve[-1].reward
    how = "is going on" if report.stop_reason is None else f"ended because {ENDINGS[report.stop_reason]}"
    won, tasks = len(report.commits), len(report.heldout)
    return f"From {first:.1%} to {last:.1%} on {tasks} held-out tasks, {won} commits, {spent:,} tokens{of}; it {how}."
