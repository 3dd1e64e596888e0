"""What another allocator would have saved or lost at the recorded decisions, one step at a time.

    answer = what_if(logs, target)        each log an iterable of events; formulas in `whatif_estimate`

Each number says whether it is exact, an estimate, or without support. It answers one step at a time: every decision is
changed by itself, in the state in which it was recorded, and what followed it stays as it was. A run that had skipped
more would have had more left for later; a model that had learned from other outcomes would have decided otherwise. What
becomes of a whole run, only a run or a simulation tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from agentdescent.allocation.features import STAGES, Stage
from agentdescent.engine.event import Event
from agentdescent.errors import UsageError
from agentdescent.history.whatif_estimate import (
    METHODS,
    QUANTITIES,
    Change,
    Method,
    Quantity,
    Support,
    change,
    columns,
    refused,
    summed,
    support,
    terms,
)
from agentdescent.history.whatif_log import Decision, Target, decisions_of
from agentdescent.record import Record

ONE_STEP = (
    "It answers one step at a time: each decision changed by itself, in the state in which it was recorded; for whole "
    "runs, run or simulate them."
)


class Totals(Record, frozen=True):
    """What decisions came to as recorded: `spends` of them, tokens from each to the end of its candidate, commits,
    gain of the held-out mean."""

    spends: int
    tokens: int
    commits: int
    gain: float


class StageAnswer(Record, frozen=True):
    """One stage. `target_spends`: how many of its decisions the target spends on, expected. `changes`: of tokens,
    commits and gain, by each estimate."""

    stage: Stage
    support: Support
    recorded: Totals
    target_spends: float
    changes: tuple[Change, ...]

    def by(self, quantity: Quantity, method: Method) -> Change:
        return by(self.changes, quantity, method)


class WhatIf(Record, frozen=True):
    """`runs`: logs that were read, `unfinished` of them without an end. `refused`: spends refused by the clock, which
    no allocator is asked about. `total`: the changes of all stages together; none without a decision. `note`: ONE_STEP,
    wherever these numbers go."""

    runs: int
    unfinished: int
    refused: int
    stages: tuple[StageAnswer, ...]
    total: tuple[Change, ...]
    note: str

    def by(self, quantity: Quantity, method: Method) -> Change:
        return by(self.total, quantity, method)


def by(changes: Sequence[Change], quantity: Quantity, method: Method) -> Change:
    return next(one for one in changes if one.quantity == quantity and one.method == method)


def what_if(logs: Iterable[Iterable[Event]], target: Target) -> WhatIf:
    """Raises CorruptLog for a log that cannot be folded, UsageError for a target that does not return a probability and
    where numpy is not installed."""
    if find_spec("numpy") is None:
        raise UsageError("what another allocator would have changed is computed with numpy: pip install numpy")
    met = [decisions_of(events, target, run) for run, events in enumerate(logs)]
    found = answered([made for one in met for made in one.decisions])
    unfinished = sum(not one.finished for one in met)
    return WhatIf(len(met), unfinished, sum(one.refused for one in met), *found, ONE_STEP)


def answered(decisions: Sequence[Decision]) -> tuple[tuple[StageAnswer, ...], tuple[Change, ...]]:
    """By stage, and in total."""
    parts = [part for stage in STAGES if (part := [one for one in decisions if one.stage == stage])]
    stages = tuple(_stage(part) for part in parts)
    if len(stages) <= 1:
        return stages, stages[0].changes if stages else ()
    total = tuple(_total(parts, stages, quantity, method) for quantity in QUANTITIES for method in METHODS)
    return stages, total


def _stage(decisions: Sequence[Decision]) -> StageAnswer:
    held = support(decisions)
    recorded = Totals(
        sum(one.spent for one in decisions),
        sum(one.tokens for one in decisions),
        sum(one.commits for one in decisions),
        sum(one.gain for one in decisions),
    )
    changes = tuple(change(quantity, method, decisions, held) for quantity in QUANTITIES for method in METHODS)
    return StageAnswer(decisions[0].stage, held, recorded, sum(one.target for one in decisions), changes)


def _total(
    parts: Sequence[Sequence[Decision]], stages: Sequence[StageAnswer], quantity: Quantity, method: Method
) -> Change:
    import numpy as np

    for stage in stages:
        reason = refused(stage.support)
        if reason:
            return Change(quantity, method, "no-support", reason=f"{stage.stage}: {reason}")
    arrays = [columns(part) for part in parts]
    outcomes = [np.array([float(getattr(one, quantity)) for one in part]) for part in parts]
    found = [terms(c, y, method) for c, y in zip(arrays, outcomes, strict=True)]
    certain = all(stage.support.effective is None for stage in stages)
    return summed(quantity, method, found, [c.run for c in arrays], certain=certain)
