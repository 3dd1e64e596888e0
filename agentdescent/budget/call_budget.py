"""How long the answer to one proposal may be: more where more is to be expected, less as the budget runs out.

The ceiling is a value passed with the call. A slot shared between calls would leak into scoring and between workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from agentdescent.errors import UsageError
from agentdescent.record import Record

MILLION = 1_000_000
_MULTIPLE = 16


class CallBudget(Record, frozen=True):
    """Completion tokens of one proposal: at most `base`, at least `floor`, below which a model that reasons returns
    nothing. `floor` None is min(base, max(256, base // 4))."""

    base: int = 4096
    floor: int | None = None


def least(budget: CallBudget) -> int:
    """The floor in force, in tokens."""
    return min(budget.base, max(256, budget.base // 4)) if budget.floor is None else budget.floor


def lowest(budget: CallBudget) -> int:
    """The floor as a ceiling: rounded up to a multiple of 16 and never above base."""
    return min(budget.base, -(-least(budget) // _MULTIPLE) * _MULTIPLE)


def lowered(budget: CallBudget, wanted: int, fits: Callable[[int], bool]) -> int:
    """The largest ceiling below `wanted` that fits, in steps of 16; the lowest when none does. What a ceiling fits, a
    smaller one does."""
    low, high = lowest(budget), wanted
    while high - low > _MULTIPLE:
        middle = low + max(1, (high - low) // (2 * _MULTIPLE)) * _MULTIPLE
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def check(budget: CallBudget) -> None:
    """Raises UsageError unless base >= 1 and 1 <= floor <= base, in whole tokens."""
    if type(budget.base) is not int or budget.base < 1:
        raise UsageError(f"call_budget.base is {budget.base!r}: it must be a positive whole number of tokens")
    floor = least(budget)
    if type(floor) is not int or not 1 <= floor <= budget.base:
        raise UsageError(f"call_budget.floor is {floor!r}: it must be a whole number from 1 to base ({budget.base})")


def ceiling(budget: CallBudget, score: int, remaining: float) -> int:
    """Completion tokens for the next proposal: clamp(base * (1/2 + score/2) * (1/2 + remaining/2), floor, base),
    rounded up to a multiple of 16 and never above base.

    `score`: of the rollout to improve on, in millionths of [0, 1]. `remaining`: share of the token cap not spent, in
    [0, 1]. Both are clamped. Computed in integers, `remaining` to a millionth: a product that is a multiple of 16 is
    not rounded up to the next.
    """
    left = math.floor(min(1.0, max(0.0, remaining)) * MILLION + 0.5)
    scaled = budget.base * (MILLION + min(MILLION, max(0, score))) * (MILLION + left)
    unit = 4 * MILLION * MILLION * _MULTIPLE
    wanted = max(-(-scaled // unit), -(-least(budget) // _MULTIPLE)) * _MULTIPLE
    return min(budget.base, wanted)
