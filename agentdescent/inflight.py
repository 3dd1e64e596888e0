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
    is to be repeated, or was."""

    __slots__ = ("again", "began", "effect")

    def __init__(self, effect: Effect, began: float | None) -> None:
        self.effect = effect
        self.began = began
        self.again: Retry | None = None
