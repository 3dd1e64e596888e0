"""The randomness of a run: a uniform in [0, 1) for (seed, purpose, key), and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeAlias

from agentdescent.allocation.own import Injected

Draw: TypeAlias = Callable[[str, int], float]


class Informed:
    """A draw, and with it the allocator of the user's own that is asked where the run draws."""

    def __init__(self, draw: Draw, policy: Injected) -> None:
        self.draw = draw
        self.policy = policy

    def __call__(self, purpose: str, key: int) -> float:
        return self.draw(purpose, key)


def policy_of(draw: Draw) -> Injected | None:
    return draw.policy if isinstance(draw, Informed) else None


def seeded(seed: int) -> Draw:
    """Draws of a run; equal arguments give equal numbers on every machine."""

    def draw(purpose: str, key: int) -> float:
        raw = hashlib.blake2b(f"{seed}/{purpose}/{key}".encode(), digest_size=8).digest()
        return (int.from_bytes(raw, "big") >> 11) / 2.0**53

    return draw
