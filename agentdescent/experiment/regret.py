"""What a run gave away against one that knew every outcome beforehand, where the truth is known.

    regret = (area under the clairvoyant's curve - area under the run's) over the cap

that is, the mean quality by which it was behind, per token of the cap (cumulative regret over the budget, per unit).
Both curves are of true quality, in the same world at the same seed.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentdescent.errors import UsageError
from agentdescent.experiment.curves import area, best, reached, tokens_to
from agentdescent.experiment.intervals import Interval, t_interval
from agentdescent.experiment.results import Curve
from agentdescent.record import Record


class Regret(Record, frozen=True):
    """`mean`: quality behind, averaged over the tokens of the cap; below 0 where the run was ahead. `final`: quality
    behind at the cap. `tokens`: those to the target over the clairvoyant's; None where that never reaches it."""

    mean: float
    final: float
    tokens: float | None


def regret(run: Curve, clairvoyant: Curve, cap: int, target: float) -> Regret:
    """Raises UsageError for an empty curve or a cap that is not positive."""
    ours, theirs = area(run, cap), area(clairvoyant, cap)
    if ours is None or theirs is None:
        raise UsageError("a curve is empty: its run never scored the start")
    least = tokens_to(clairvoyant, target, cap)
    ratio = tokens_to(run, target, cap) / least if reached(clairvoyant, target, cap) and least else None
    return Regret(theirs - ours, (best(clairvoyant, cap) or 0.0) - (best(run, cap) or 0.0), ratio)


def mean_regret(found: Sequence[Regret]) -> Interval:
    """Of the mean over seeds, at least 2: Student's interval."""
    return t_interval([one.mean for one in found])
