"""Learning curves: reward against tokens, as a step function of what was spent.

What is not reached within the cap is *censored*: it counts as the cap, so means of it are too small, and a ratio of two
such means is nearer to 1 than the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from agentdescent.artifact.strategy import render
from agentdescent.engine.event import Event, Started
from agentdescent.engine.population import dev_head
from agentdescent.engine.state import State, initial
from agentdescent.engine.transition import apply
from agentdescent.errors import UsageError
from agentdescent.experiment.results import Curve
from agentdescent.history.rounds import mean

_CLOSE = 1e-9


def curve(events: Iterable[Event], quality: Callable[[str], float] | None = None) -> Curve:
    """From a log: a step where the base is scored, and one at each commit to the head that the result shows.

    The reward is the mean over the held-out tasks, which decided what was kept; or `quality` of the rendered artifact,
    where the truth is known.
    """
    state: State | None = None
    steps: list[tuple[int, float]] = []
    shown = -1
    for event in events:
        if isinstance(event, Started):
            state = initial(event.spec, event.setup)
        if state is None:
            return ()
        state = apply(state, event)
        if state.base is not None or not state.started:
            continue
        head = dev_head(state).version
        if head.number == shown:
            continue
        shown = head.number
        reward = mean(state) if quality is None else quality(render(state.spec.strategy, head.entries))
        steps.append((state.governor.spent.tokens, reward))
    return tuple(steps)


def reward_at(steps: Curve, tokens: int) -> float | None:
    """The reward when so many tokens were spent; None of an empty curve."""
    if not steps:
        return None
    return next((reward for spent, reward in reversed(steps) if spent <= tokens), steps[0][1])


def tokens_to(steps: Curve, target: float, cap: int) -> int:
    """Tokens spent when the reward was `target` or more for the first time, at most `cap`: see `reached`."""
    return min(cap, next((spent for spent, reward in steps if reward >= target - _CLOSE), cap))


def reached(steps: Curve, target: float, cap: int) -> bool:
    """Whether the target was reached within the cap; else `tokens_to` is censored."""
    return any(reward >= target - _CLOSE and spent <= cap for spent, reward in steps)


def best(steps: Curve, cap: int) -> float | None:
    """The highest reward within the cap."""
    return max((reward for spent, reward in steps if spent <= cap), default=None)


def area(steps: Curve, cap: int) -> float | None:
    """The area under the curve over `cap`: the mean reward of a token, in [0, 1]. None of an empty curve."""
    if cap <= 0:
        raise UsageError(f"the cap is {cap}: it must be positive")
    if not steps:
        return None
    ends = [min(cap, spent) for spent, _ in steps[1:]] + [cap]
    begin, total = 0, list[float]()
    for (_, reward), end in zip(steps, ends, strict=True):
        total.append(reward * max(0, end - begin))
        begin = max(begin, end)
    return math.fsum(total) / cap


def grid(cap: int, points: int = 50) -> tuple[int, ...]:
    """`points` token counts, at least 2, evenly from 0 to `cap`."""
    if points < 2:
        raise UsageError(f"a grid of {points} points has no two ends: give at least 2")
    return tuple(round(cap * i / (points - 1)) for i in range(points))


def on_grid(curves: Sequence[Curve], tokens: Sequence[int]) -> tuple[tuple[float, ...], ...]:
    """Each curve at each of `tokens`, in their order. Raises UsageError where a curve is empty."""
    rows = []
    for number, steps in enumerate(curves):
        if not steps:
            raise UsageError(f"curve {number} is empty: its run never scored the start")
        rows.append(tuple(reward for at in tokens if (reward := reward_at(steps, at)) is not None))
    return tuple(rows)


def mean_curve(curves: Sequence[Curve], tokens: Sequence[int]) -> tuple[float, ...]:
    """The mean over seeds at each of `tokens`; () of no curves."""
    rows = on_grid(curves, tokens)
    return tuple(math.fsum(column) / len(rows) for column in zip(*rows, strict=True)) if rows else ()
