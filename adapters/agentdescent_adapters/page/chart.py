"""Coordinates of charts, in per mille of their area. The page stretches them; labels are text, not drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class Mark(msgspec.Struct, frozen=True):
    """A place in per cent from the left and from the top, and what is there."""

    x: float
    y: float
    label: str


class Axis(msgspec.Struct, frozen=True):
    """From `low` to `high`, with round `ticks` as (place in per cent, text)."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    def place(self, value: float) -> float:
        """In [0, 1]."""
        return (value - self.low) / (self.high - self.low)


def axis(low: float, high: float, *, percent: bool = False, steps: int = 4) -> Axis:
    """An axis that covers [low, high] with about `steps` round ticks."""
    span = high - low if high > low else max(abs(high), 1.0)
    size = _round_step(span / steps)
    first, last = math.floor(low / size + 1e-9), math.ceil(high / size - 1e-9)
    last = max(last, first + 1)
    bottom, top = first * size, last * size
    ticks = tuple(
        ((i - first) / (last - first) * 100, _tick(i * size, percent=percent)) for i in range(first, last + 1)
    )
    return Axis(bottom, top, ticks)


def _round_step(step: float) -> float:
    magnitude: float = 10.0 ** math.floor(math.log10(step))
    return next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= step * (1 - 1e-9))


def _tick(value: float, *, percent: bool) -> str:
    if percent:
        return f"{value * 100:.4g}%"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def steps(points: Sequence[tuple[float, float]], end: float, x: Axis, y: Axis) -> str:
    """An SVG path of a step function in a view box of 1000 by 1000: each value holds until the next point, the last
    until `end`."""
    path = []
    for i, (at, value) in enumerate(points):
        left, height = _scaled(at, x), 1000 - _scaled(value, y)
        path.append(f"M{left:.1f} {height:.1f}" if i == 0 else f"H{left:.1f}V{height:.1f}")
    return "".join(path) + f"H{_scaled(end, x):.1f}" if points else ""


def _scaled(value: float, along: Axis) -> float:
    return along.place(value) * 1000


def mark(at: float, value: float, label: str, x: Axis, y: Axis) -> Mark:
    return Mark(round(x.place(at) * 100, 2), round(100 - y.place(value) * 100, 2), label)


def strip(marks: str, order: Sequence[int]) -> list[tuple[str, str]]:
    """A row of a matrix as one SVG path a kind of mark: a unit square a task, in this order, runs drawn as one."""
    runs: dict[str, list[str]] = {}
    at, n = 0, len(order)
    drawn = [marks[position] for position in order] if marks else []
    while at < n and drawn:
        end = at
        while end < n and drawn[end] == drawn[at]:
            end += 1
        if drawn[at] != ".":
            runs.setdefault(drawn[at], []).append(f"M{at} 0h{end - at}v1h{at - end}z")
        at = end
    return [(kind, "".join(pieces)) for kind, pieces in sorted(runs.items())]
