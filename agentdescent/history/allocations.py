"""What an allocator decided, and what came of it: a projection of the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from agentdescent.allocation.choice import Choice
from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.allocation.features import Stage
from agentdescent.allocation.outcomes import Outcome, label_of
from agentdescent.engine.event import Decided, Event, GateOpened, Judged, Skipped, Started, Stopped
from agentdescent.history.outcomes import choice_of, outcomes
from agentdescent.record import Record

_BINS = 10


class Bin(Record, frozen=True):
    """Labelled decisions with p in [low, high): how many, their mean p, and the share of them that committed."""

    low: float
    high: float
    count: int
    predicted: float
    observed: float


class Calibration(Record, frozen=True):
    """How good the predicted probabilities were. `brier`: mean squared error, 0.25 for one that says 1/2 throughout."""

    count: int
    brier: float
    bins: tuple[Bin, ...]


class StageSummary(Record, frozen=True):
    """Decisions at one stage. `refused`: by the clock; `skipped`: of the allocator's own accord; `counterfactual`:
    spent on although not worth it; the rest was spent on. `observed`: those whose outcome is a label, `committed`: of
    these the commits. `calibration` None where p is no prediction, or nothing is labelled."""

    stage: Stage
    decisions: int
    refused: int
    skipped: int
    counterfactual: int
    observed: int
    committed: int
    calibration: Calibration | None = None


class AllocatorSummary(Record, frozen=True):
    """Sums over the stages, and each stage that had a decision."""

    n_decisions: int
    n_skipped: int
    n_counterfactual: int
    n_observed: int
    n_committed: int
    stages: tuple[StageSummary, ...]


def summarise(events: Iterable[Event]) -> AllocatorSummary | None:
    """None for a run without an allocator. A decision still open at the end has no label."""
    made: list[tuple[int, Choice]] = []
    closing: list[Event] = []
    allocator: object = None
    for event in events:
        choice = choice_of(event)
        if choice is not None and isinstance(event, Decided | Skipped | GateOpened):
            made.append((event.subject, choice))
        elif isinstance(event, Started):
            allocator = event.spec.allocator
        elif isinstance(event, Judged | Stopped):
            closing.append(event)
    if allocator is None:
        return None
    labels = outcomes(closing)
    predicts = isinstance(allocator, ValueBudgetAllocator)
    also = allocator.also_negative if isinstance(allocator, ValueBudgetAllocator) else ()
    stages = []
    for stage in get_args(Stage):
        own = [(choice, _label(choice, labels.get(subject), also)) for subject, choice in made if choice.stage == stage]
        if own:
            stages.append(_stage(stage, own, predicts=predicts))
    return AllocatorSummary(
        sum(one.decisions for one in stages),
        sum(one.skipped for one in stages),
        sum(one.counterfactual for one in stages),
        sum(one.observed for one in stages),
        sum(one.committed for one in stages),
        tuple(stages),
    )


def _label(choice: Choice, outcome: Outcome | None, also_negative: tuple[Outcome, ...]) -> bool | None:
    """Whether it committed; None where nothing is learned from it."""
    if outcome is None or choice.reason == "clock":
        return None
    label = label_of(outcome)
    if label == "recorded":
        return False if outcome in also_negative else None
    return label == "positive"


def _stage(stage: Stage, own: list[tuple[Choice, bool | None]], *, predicts: bool) -> StageSummary:
    reasons = [choice.reason for choice, _ in own]
    pairs = [(choice.p, label) for choice, label in own if label is not None]
    return StageSummary(
        stage,
        len(own),
        reasons.count("clock"),
        reasons.count("skip"),
        reasons.count("counterfactual"),
        len(pairs),
        sum(label for _, label in pairs),
        calibrated(pairs) if predicts and pairs else None,
    )


def calibrated(pairs: list[tuple[float, bool]]) -> Calibration:
    """Of (p, committed), at least one."""
    bins = []
    for place in range(_BINS):
        inside = [pair for pair in pairs if min(_BINS - 1, int(pair[0] * _BINS)) == place]
        if inside:
            n = len(inside)
            predicted, observed = sum(p for p, _ in inside) / n, sum(label for _, label in inside) / n
            bins.append(Bin(place / _BINS, (place + 1) / _BINS, n, predicted, observed))
    return Calibration(len(pairs), sum((p - label) ** 2 for p, label in pairs) / len(pairs), tuple(bins))
