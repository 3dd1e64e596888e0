"""One client per distinct ceiling, and a ceiling that belongs to its call."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from agentdescent import UsageError, budgeted_completion
from agentdescent.budget.call_budget import CallBudget, ceiling


class Factory:
    def __init__(self) -> None:
        self.made: list[int] = []

    def __call__(self, ceiling: int) -> Callable[[str], str]:
        self.made.append(ceiling)
        return lambda prompt: f"{prompt} within {ceiling}"


def test_one_client_per_ceiling() -> None:
    factory, budget = Factory(), CallBudget(4096)
    complete = budgeted_completion(factory, budget)
    wanted = [ceiling(budget, score, 1.0) for score in (0, 500_000, 0, 1_000_000)]
    assert [complete("p", tokens) for tokens in wanted] == [f"p within {n}" for n in (2048, 3072, 2048, 4096)]
    assert complete("score") == "score within 4096"
    assert factory.made == [2048, 3072, 4096]


def test_a_ceiling_belongs_to_its_call_while_eight_workers_run() -> None:
    """Field case 35."""
    factory, together = Factory(), Barrier(8)
    complete = budgeted_completion(factory, CallBudget(4096))

    def work(worker: int) -> list[str]:
        together.wait(timeout=10)
        return [answer for _ in range(50) for answer in (complete("propose", 16 * worker + 16), complete("score"))]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(work, range(8)))
    assert answers == [[f"propose within {16 * w + 16}", "score within 4096"] * 50 for w in range(8)]
    assert sorted(factory.made) == [*range(16, 144, 16), 4096]


@pytest.mark.parametrize("wanted", [0, -1, 4097])
def test_a_ceiling_beyond_the_budget_is_refused(wanted: int) -> None:
    factory = Factory()
    with pytest.raises(UsageError, match="it must be from 1 to the base of the budget, 4096"):
        budgeted_completion(factory, CallBudget(4096))("p", wanted)
    with pytest.raises(UsageError, match="base is 0"):
        budgeted_completion(factory, CallBudget(0))
    assert factory.made == []
