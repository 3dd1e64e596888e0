"""Results of arms for tests."""

from __future__ import annotations

from agentdescent.experiment.results import ArmResult, Curve


def result(
    arm: str,
    seed: int = 0,
    quality: float | None = 0.5,
    tokens: int | None = 100,
    *,
    error: str = "",
    curve: Curve = (),
) -> ArmResult:
    calls = None if tokens is None else tokens // 10
    return ArmResult(arm, seed, quality, 0.1, calls, calls, tokens, error, curve=curve)
