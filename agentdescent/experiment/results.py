"""What an arm of a comparison came to at one seed."""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent.record import Record

Unit: TypeAlias = Literal["rollouts", "calls", "tokens"]
UNITS: tuple[Unit, ...] = ("rollouts", "calls", "tokens")
Curve: TypeAlias = tuple[tuple[int, float], ...]
"""A step function: (tokens spent, reward from there on), tokens rising. Below the first step the first reward holds."""


class ArmResult(Record, frozen=True):
    """One planned run, whatever became of it.

    `quality`: what the arm is judged by, in [0, 1], higher is better; None: it was not scored. `base`: the same of the
    start. `rollouts`, `calls`, `tokens`: measured, None where nothing was reported. `error`: why it failed, or could
    not be scored; what it had used by then is kept. Of its allocator: `consulted`, decisions that were its own to make;
    `skipped`, spends that it did not make; `counterfactual`, spends that it made although they were not worth it.
    """

    arm: str
    seed: int = 0
    quality: float | None = None
    base: float | None = None
    rollouts: int | None = None
    calls: int | None = None
    tokens: int | None = None
    error: str = ""
    stop_reason: str = ""
    consulted: int = 0
    skipped: int = 0
    counterfactual: int = 0
    curve: Curve = ()
    digest: str = ""
    run: str = ""

    @property
    def scored(self) -> bool:
        """It ended without an error, and its quality is known."""
        return self.quality is not None and not self.error

    def used(self, unit: Unit) -> int | None:
        match unit:
            case "rollouts":
                return self.rollouts
            case "calls":
                return self.calls
            case "tokens":
                return self.tokens
