"""Allocators of one's own, as users write them, where another process finds them; and a log to resume them from."""

from __future__ import annotations

from types import SimpleNamespace

from agentdescent import AllocatorContext, MemoryLog
from agentdescent.allocation import Features, Stage
from agentdescent.engine.event import Outcome


class Small:
    """A policy without state: found again by its class."""

    budget_start = 2.0

    def probability(self, stage: Stage, features: Features) -> float:
        return 0.6 - 0.1 * min(1.0, features[1])


class Rated:
    """A policy that holds something: found again only where its module does."""

    budget_start = 2.0

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def features(self, stage: Stage, context: AllocatorContext) -> Features:
        return (float(context.size), self.rate)

    def probability(self, stage: Stage, features: Features) -> float:
        return features[1]


HALF = Rated(0.5)


class Older:
    """Whether it spends, and why, depends on all that it was told; learns in place."""

    budget_start = 2.0

    def __init__(self) -> None:
        self.asked: list[AllocatorContext] = []
        self.told: list[tuple[AllocatorContext, bool]] = []

    def decide(self, context: AllocatorContext) -> SimpleNamespace:
        self.asked.append(context)
        commits = sum(committed for _, committed in self.told)
        spend = len(self.told) % 3 != 1
        return SimpleNamespace(deep_eval=spend, counterfactual=commits % 2 == 1)

    def observe(self, context: AllocatorContext, committed: bool) -> None:
        self.told.append((context, committed))


class Keeping(MemoryLog):
    """With all that was ever answered, as on disk."""

    def __init__(self) -> None:
        super().__init__()
        self.journal: dict[int, tuple[Outcome, str]] = {}

    def answered(self, outcome: Outcome, output: str, seconds: float, refused: int = 0) -> None:
        self.journal[outcome.id] = outcome, output
        super().answered(outcome, output, seconds, refused)

    def cut(self, share: float) -> MemoryLog:
        """As a process that was killed left it."""
        events = list(self.events())
        return MemoryLog(events[: int(share * len(events))], self.journal)
