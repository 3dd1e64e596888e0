"""The randomness of a run: a uniform in [0, 1) for (seed, purpose, key), and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeAlias

Draw: TypeAlias = Callable[[str, int], float]


def seeded(seed: int) -> Draw:
    """Draws of a run; equal arguments give equal numbers on every machine."""

    def draw(purpose: str, key: int) -> float:
        raw = hashlib.blake2b(f"{seed}/{purpose}/{key}".encode(), digest_size=8).digest()
        return (int.from_bytes(raw, "big") >> 11) / 2.0**53

    return draw
