"""What a GEPA adapter promises, called with one example and checked.

GEPA's own rule: an example that fails has a score that says so, and an exception means that the system is broken. So an
exception is a failed call, charged and asked again, and never a score; what is no score in [0, 1] ends the run.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from agentdescent.budget.usage import Usage
from agentdescent.effects import TOLERANCE, clean
from agentdescent.errors import UsageError
from agentdescent.ports import CallFailed

D = TypeVar("D")
T = TypeVar("T")
Candidate: TypeAlias = dict[str, str]
Records: TypeAlias = Sequence[Mapping[str, Any]]
Dataset: TypeAlias = Mapping[str, Records]
Scale: TypeAlias = tuple[float, float]


class Evaluation(Protocol):
    """gepa.EvaluationBatch: one output, score and, where traces were captured, trajectory for each example."""

    @property
    def outputs(self) -> Sequence[Any]: ...
    @property
    def scores(self) -> Sequence[float]: ...
    @property
    def trajectories(self) -> Sequence[Any] | None: ...


class Adapter(Protocol[D]):
    """gepa.GEPAAdapter, as far as it is called here. It may have `propose_new_texts(candidate, dataset, names)`."""

    def evaluate(self, batch: list[D], candidate: Candidate, capture_traces: bool = False) -> Evaluation: ...

    def make_reflective_dataset(
        self, candidate: Candidate, eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]: ...


def guarded(what: str, task: str, work: Callable[[], T]) -> T:
    """What `work` returns. Raises CallFailed("provider") of unknown usage for whatever it raises, UsageError and
    CallFailed apart."""
    try:
        return work()
    except (CallFailed, UsageError):
        raise
    except Exception as error:  # an adapter is code we do not know
        raise CallFailed("provider", f"{what} failed on task {task!r}: {type(error).__name__}: {error}") from error


def check_shape(found: Evaluation, task: str, usage: Usage | None, *, traces: bool) -> None:
    """Raises CallFailed: "contract" for what is no evaluation, "malformed" for one of another number of examples,
    which is how some adapters pass over one that they could not run."""
    try:
        sizes = [len(found.outputs), len(found.scores)]
        trajectories = found.trajectories
        sizes += [] if not traces else [0 if trajectories is None else len(trajectories)]
    except (AttributeError, TypeError) as error:
        kind = type(found).__name__
        message = f"evaluate returned {kind} for task {task!r}: return an EvaluationBatch with lists ({error})"
        raise CallFailed("contract", message, usage) from error
    if any(size != 1 for size in sizes):
        counted = ", ".join(
            f"{size} {name}" for size, name in zip(sizes, ("outputs", "scores", "trajectories"), strict=False)
        )
        raise CallFailed("malformed", f"evaluate returned {counted} for the one example of task {task!r}", usage)


def score_of(found: Evaluation, task: str, scale: Scale, usage: Usage | None) -> float:
    """The score in [0, 1]. Raises CallFailed("contract") that names the task."""
    value: object = found.scores[0]
    low, high = scale
    said = clean(f"evaluate scored task {task!r} {value!r}")
    if type(value) is bool or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise CallFailed("contract", f"{said}: it must be a finite number", usage)
    share = (float(value) - low) / (high - low)
    if not -TOLERANCE <= share <= 1 + TOLERANCE:
        remedy = "say from_gepa(..., scale=(low, high)), the least and the greatest score there can be"
        raise CallFailed("contract", f"{said}, outside [{low:g}, {high:g}]: {remedy}", usage)
    return min(1.0, max(0.0, share))
