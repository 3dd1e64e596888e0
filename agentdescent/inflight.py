"""An effect from its decision to its answer, as `calls` keeps it."""

from __future__ import annotations

from typing import NamedTuple

from agentdescent.engine.event import Decided
from agentdescent.ports import Item, Retry
from agentdescent.wiring import Mode


class Effect(NamedTuple):
    """A decided command, with all that performing it needs, and how it is called."""

    decided: Decided
    item: Item
    mode: Mode


class Open:
    """An effect that was started. `began`: when its call did, None while it waits for a thread. `again`: why the call
    is to be repeated, or was. `refused`: how often it was turned away, not billed, and begun again."""

    __slots__ = ("again", "began", "effect", "refused")

    def __init__(self, effect: Effect, began: float | None) -> None:
        self.effect = effect
        self.began = began
        self.again: Retry | None = None
        self.refused = 0

    def seconds(self, now: float) -> float:
        """How long the call has taken by `now`."""
        return 0.0 if self.began is None else now - self.began

    def anew(self) -> Effect:
        """The effect, to be begun once more."""
        self.refused += 1
        return self.effect
