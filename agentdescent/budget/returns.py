"""The economic stop: end the run when what a token buys has fallen far below what it once bought in this run.

A return is (reward now - reward `window` measured rounds ago) / (tokens used between). It is compared with the largest
of its own run, so that there is no absolute rate to guess. Over a window of several rounds, flat rounds between regular
gains average out: with a gain in every third, a window of four holds one or two, and the return never falls below half
of its peak.
"""

from __future__ import annotations

import math

from agentdescent.errors import UsageError
from agentdescent.record import Record


class DiminishingReturns(Record, frozen=True):
    """Stop below `efficiency_floor` (a share of the peak, in (0, 1)) of the largest return; `min_efficiency_samples`:
    measured rounds in a window, and before the first verdict."""

    efficiency_floor: float = 0.25
    min_efficiency_samples: int = 4


class Point(Record, frozen=True):
    """The state of a run at the end of a round: tokens spent so far, and the head's held-out reward in [0, 1]."""

    tokens: int
    reward: float


class Returns(Record, frozen=True):
    """The last window, oldest first, and the largest return so far, in reward per token; None before the first."""

    points: tuple[Point, ...] = ()
    recent: float | None = None
    peak: float | None = None


def check(rule: DiminishingReturns, max_tokens: int | None) -> None:
    """Raises UsageError when the rule is impossible, or there is no budget to save."""
    if max_tokens is None:
        raise UsageError("stop_on_diminishing_returns needs a token cap: set max_tokens, or leave it off")
    floor, samples = rule.efficiency_floor, rule.min_efficiency_samples
    if type(floor) not in (int, float) or not 0.0 < floor < 1.0:
        raise UsageError(f"efficiency_floor is {floor!r}: it must be a share of the peak, between 0 and 1")
    if type(samples) is not int or samples < 2:
        raise UsageError(f"min_efficiency_samples is {samples!r}: it must be a whole number of rounds of at least 2")


def observe(rule: DiminishingReturns, returns: Returns, tokens: int, reward: float) -> Returns:
    """A round ended; the first call is the base. A reward that is not finite is skipped, and its tokens count with the
    next. A round without tokens is no sample: its reward replaces that of the round before."""
    if not math.isfinite(reward):
        return returns
    points = returns.points
    if points and tokens <= points[-1].tokens:
        return Returns((*points[:-1], Point(points[-1].tokens, reward)), returns.recent, returns.peak)
    points = (*points[-rule.min_efficiency_samples :], Point(tokens, reward))
    if len(points) <= rule.min_efficiency_samples:
        return Returns(points, returns.recent, returns.peak)
    recent = (reward - points[0].reward) / (tokens - points[0].tokens)
    return Returns(points, recent, recent if returns.peak is None else max(returns.peak, recent))


def diminished(rule: DiminishingReturns, returns: Returns) -> bool:
    """True when the run should stop. Never while the peak is not positive: that is for `patience` to judge."""
    if returns.recent is None or returns.peak is None or returns.peak <= 0.0:
        return False
    return returns.recent < rule.efficiency_floor * returns.peak
