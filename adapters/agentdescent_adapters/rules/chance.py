"""Randomness for a proposal: a function of its key alone, the same in every process."""

from __future__ import annotations

import hashlib

from agentdescent.record import Record

_DIGITS = 8


class Chance(Record, frozen=True):
    """`sample`: a random set of rows, bit i for row i. `uniform`: in [0, 1)."""

    sample: int
    uniform: float


def chance(key: str, rows: int, wanted: int) -> Chance:
    """Draws for a key. Every one of `rows` rows is sampled with one probability, `wanted` of them on average."""
    width = -(-rows // 8)
    stream = hashlib.shake_256(key.encode("utf-8", "surrogatepass")).digest(8 + _DIGITS * width)
    uniform = (int.from_bytes(stream[:8], "big") >> 11) / (1 << 53)
    everything = (1 << rows) - 1
    share = round(wanted / max(1, rows) * (1 << _DIGITS))
    if share >= 1 << _DIGITS:
        return Chance(everything, uniform)
    # Fair bits to biased ones, all rows at once: the binary digits of the probability, the last first; a 1 joins
    # the next fair bit by OR, a 0 by AND.
    sample = 0
    for digit in range(_DIGITS):
        at = 8 + digit * width
        fair = int.from_bytes(stream[at : at + width], "big")
        sample = sample | fair if share >> digit & 1 else sample & fair
    return Chance(sample & everything, uniform)
