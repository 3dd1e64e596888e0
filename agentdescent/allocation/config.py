"""The choices of a value-directed allocator."""

from __future__ import annotations

from typing import Literal, TypeAlias, assert_never

from agentdescent.allocation.features import Stage
from agentdescent.allocation.outcomes import Outcome
from agentdescent.allocation.value_model import ValueModel
from agentdescent.record import Record

Threshold: TypeAlias = Literal["half", "price"]


class Starts(Record, frozen=True):
    """A stage is consulted while less than this share of the token cap remains; above 1, always."""

    verify: float = 0.5
    tournament: float = 0.5
    gate: float = 1.0
    finish: float = 1.0


DEFAULT_STARTS = Starts()


class Thresholds(Record, frozen=True):
    """`half`: spend when p >= 0.5. `price`: when the expected gain per token is at least the run's own; a half starves
    a stage at which fewer than half of the candidates commit anyway."""

    verify: Threshold = "half"
    tournament: Threshold = "half"
    gate: Threshold = "price"
    finish: Threshold = "price"


class ValueBudgetAllocator(Record, frozen=True, tag="value-budget"):
    """Learn which candidates are worth an optional spend. A value: what it learned belongs to the run that uses it.

    `stages`: those it decides. `budget_start`, `threshold`: one for all stages, or one each. `min_observations`,
    `min_weight`: below these it has no opinion and spends. `epsilon_*`: the chance of trying what it would skip, from
    start to end over `epsilon_anneal` labels of the stage; at `finish` it is `finish_epsilon` throughout.
    `max_consecutive_skips`: after so many in a row at a stage the next is spent on. `min_propensity`: both actions keep
    at least this probability wherever it has a say; None for 0. `min_commits`, `price_rate`, `pace_limit`: of the
    threshold `price`: its warm-up, the weight of the newest candidate, and the most that pacing multiplies it by.
    `also_negative`: outcomes to learn as failures that are only recorded otherwise.
    """

    stages: tuple[Stage, ...] = ("verify",)
    budget_start: float | Starts = Starts()
    threshold: Threshold | Thresholds = Thresholds()
    model: ValueModel = ValueModel()
    min_observations: int = 5
    min_weight: float = 0.01
    epsilon_start: float = 0.3
    epsilon_end: float = 0.05
    epsilon_anneal: int = 40
    finish_epsilon: float = 0.1
    max_consecutive_skips: int = 8
    min_propensity: float | None = None
    min_commits: int = 3
    price_rate: float = 0.1
    pace_limit: float = 4.0
    also_negative: tuple[Outcome, ...] = ()


def start_of(starts: float | Starts, stage: Stage) -> float:
    if not isinstance(starts, Starts):
        return starts
    match stage:
        case "verify":
            return starts.verify
        case "tournament":
            return starts.tournament
        case "gate":
            return starts.gate
        case "finish":
            return starts.finish
        case _:
            assert_never(stage)


def threshold_of(thresholds: Threshold | Thresholds, stage: Stage) -> Threshold:
    if not isinstance(thresholds, Thresholds):
        return thresholds
    match stage:
        case "verify":
            return thresholds.verify
        case "tournament":
            return thresholds.tournament
        case "gate":
            return thresholds.gate
        case "finish":
            return thresholds.finish
        case _:
            assert_never(stage)
