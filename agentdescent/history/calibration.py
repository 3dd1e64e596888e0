"""How good predicted probabilities were: reliability by bins, Brier score, expected calibration error.

    ECE = sum over bins of share |observed - predicted|          (Naeini, Cooper, Hauskrecht 2015; equal widths)

What a model predicts and what the log saw of it are only the decisions with a label: of a stage at which a skip is not
labelled, the spends. ECE of few labels is above 0 however good the model is; `chance` is what a perfect one would show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from agentdescent.allocation.choice import Choice
from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.allocation.features import Stage
from agentdescent.allocation.outcomes import label_of
from agentdescent.engine.event import Decided, Event, GateOpened, Judged, Skipped, Started
from agentdescent.history.interval import Z95, wilson
from agentdescent.history.outcomes import choice_of, labels_of
from agentdescent.record import Record


class Prediction(Record, frozen=True):
    """The value model's p of a decision, in [0, 1], and whether its candidate committed."""

    stage: Stage
    p: float
    committed: bool


class ReliabilityBin(Record, frozen=True):
    """Predictions in [low, high): how many, their mean, the share that committed with its Wilson interval."""

    low: float
    high: float
    count: int
    predicted: float
    observed: float
    interval: tuple[float, float]


class Reliability(Record, frozen=True):
    """`brier`: mean squared error; `base`: that of one that says the mean throughout. `ece` with an interval of 95 % by
    the normal approximation, which is too high where `chance` is not much smaller."""

    count: int
    brier: float
    base: float
    ece: float
    ece_interval: tuple[float, float]
    chance: float
    bins: tuple[ReliabilityBin, ...]


def predictions(events: Iterable[Event]) -> tuple[Prediction, ...]:
    """Every labelled decision of the value model in a log, as they were labelled; () for any other allocator."""
    config: object = None
    pending: dict[int, list[Choice]] = {}
    found: list[Prediction] = []
    for event in events:
        if isinstance(event, Started):
            config = event.spec.allocator
        if not isinstance(config, ValueBudgetAllocator):
            return ()
        choice = choice_of(event)
        if choice is not None and choice.reason != "clock" and isinstance(event, Decided | Skipped | GateOpened):
            pending.setdefault(event.subject, []).append(choice)
        elif isinstance(event, Judged):
            for subject, outcome in labels_of(event):
                label = "negative" if outcome in config.also_negative else label_of(outcome)
                if label != "recorded":
                    made = pending.get(subject, ())
                    found += (Prediction(one.stage, one.p, label == "positive") for one in made)
                pending.pop(subject, None)
    return tuple(found)


def reliability(found: Sequence[Prediction], bins: int = 10) -> Reliability | None:
    """None of no predictions."""
    n = len(found)
    if n == 0:
        return None
    parts: list[list[Prediction]] = [[] for _ in range(bins)]
    for one in found:
        parts[min(bins - 1, int(one.p * bins))].append(one)
    rows = tuple(_bin(place / bins, (place + 1) / bins, part) for place, part in enumerate(parts) if part)
    ece = math.fsum(row.count * abs(row.observed - row.predicted) for row in rows) / n
    variance = math.fsum(row.count * row.observed * (1.0 - row.observed) for row in rows) / n**2
    chance = math.fsum(math.sqrt(2.0 * row.count * row.predicted * (1.0 - row.predicted) / math.pi) for row in rows) / n
    half = Z95 * math.sqrt(variance)
    rate = sum(one.committed for one in found) / n
    brier = math.fsum((one.p - one.committed) ** 2 for one in found) / n
    interval = max(0.0, ece - half), min(1.0, ece + half)
    return Reliability(n, brier, rate * (1.0 - rate), ece, interval, chance, rows)


def _bin(low: float, high: float, part: Sequence[Prediction]) -> ReliabilityBin:
    n = len(part)
    observed = sum(one.committed for one in part) / n
    return ReliabilityBin(low, high, n, math.fsum(one.p for one in part) / n, observed, wilson(observed, n))
