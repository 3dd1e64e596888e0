"""What an allocator decided, and what came of it: a projection of the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from agentdescent.allocation.choice import Choice
from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.allocation.features import STAGES, Stage
from agentdescent.allocation.outcomes import Outcome, label_of
from agentdescent.engine.event import Decided, Event, GateOpened, Judged, Skipped, Started
from agentdescent.history.outcomes import choice_of, labels_of
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


class Allocations:
    """Folds a log, one event after another. What it holds is bounded by open work."""

    def __init__(self) -> None:
        self._allocator: object = None
        self._open: dict[int, list[Choice]] = {}
        self._counts: dict[Stage, Counter[str]] = {}
        self._bins: dict[Stage, list[_Sums]] = {}

    def fold(self, event: Event) -> None:
        choice = choice_of(event)
        if choice is not None and isinstance(event, Decided | Skipped | GateOpened):
            self._open.setdefault(event.subject, []).append(choice)
            self._counts.setdefault(choice.stage, Counter()).update(("decisions", choice.reason))
        elif isinstance(event, Started):
            self._allocator = event.spec.allocator
        elif isinstance(event, Judged) and self._open:
            for subject, outcome in labels_of(event):
                for made in self._open.pop(subject, ()):
                    self._label(made, outcome)

    def _label(self, choice: Choice, outcome: Outcome) -> None:
        """Nothing is learned from most outcomes, and from no refusal of the clock."""
        label = label_of(outcome)
        config = self._allocator
        if label == "recorded" and isinstance(config, ValueBudgetAllocator) and outcome in config.also_negative:
            label = "negative"
        if label == "recorded" or choice.reason == "clock":
            return
        committed = label == "positive"
        self._counts[choice.stage].update(observed=1, committed=committed)
        if isinstance(config, ValueBudgetAllocator):
            bins = self._bins.setdefault(choice.stage, [_Sums()] * _BINS)
            place = min(_BINS - 1, int(choice.p * _BINS))
            bins[place] = _add(bins[place], choice.p, committed)

    def summary(self) -> AllocatorSummary | None:
        """None for a run without an allocator. A decision still open has no label."""
        if self._allocator is None:
            return None
        stages = tuple(
            StageSummary(
                stage,
                counts["decisions"],
                counts["clock"],
                counts["skip"],
                counts["counterfactual"],
                counts["observed"],
                counts["committed"],
                _calibrated(self._bins[stage]) if stage in self._bins else None,
            )
            for stage, counts in sorted(self._counts.items(), key=lambda item: STAGES.index(item[0]))
        )
        return AllocatorSummary(
            sum(one.decisions for one in stages),
            sum(one.skipped for one in stages),
            sum(one.counterfactual for one in stages),
            sum(one.observed for one in stages),
            sum(one.committed for one in stages),
            stages,
        )


def summarise(events: Iterable[Event]) -> AllocatorSummary | None:
    """Of a whole log."""
    allocations = Allocations()
    for event in events:
        allocations.fold(event)
    return allocations.summary()


class _Sums(Record, frozen=True):
    count: int = 0
    p: float = 0.0
    committed: int = 0
    squares: float = 0.0


def _add(sums: _Sums, p: float, committed: bool) -> _Sums:
    return _Sums(sums.count + 1, sums.p + p, sums.committed + committed, sums.squares + (p - committed) ** 2)


def _calibrated(sums: Sequence[_Sums]) -> Calibration:
    """Of one sum a bin, not all empty."""
    count = sum(one.count for one in sums)
    bins = tuple(
        Bin(place / _BINS, (place + 1) / _BINS, one.count, one.p / one.count, one.committed / one.count)
        for place, one in enumerate(sums)
        if one.count
    )
    return Calibration(count, sum(one.squares for one in sums) / count, bins)
