"""Ops and diffs. A diff is a tuple of ops; its identity is the content of the ops, not who proposed it."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import msgspec

from agentdescent.record import Record

Entries: TypeAlias = tuple[tuple[str, str], ...]
"""The state of an artifact. Order is meaning: it reaches the prompt."""


class Add(Record, frozen=True, tag="add"):
    """Append `text` under `key`; where the key exists, its text is replaced in place."""

    key: str
    text: str


class Replace(Record, frozen=True, tag="replace"):
    """Put `text` in the place of the text under `key`; without effect where the key is absent."""

    key: str
    text: str


class Drop(Record, frozen=True, tag="drop"):
    """Remove `key`; without effect where it is absent."""

    key: str


Op: TypeAlias = Add | Replace | Drop
Ops: TypeAlias = tuple[Op, ...]

_encoder = msgspec.json.Encoder()


def digest(data: bytes) -> str:
    """128 bits of BLAKE2b, in hex: the one digest of this package."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def change(entries: Entries, ops: Ops) -> Entries:
    """The entries after the ops, in order. Total: an op that finds nothing to act on has no effect."""
    for op in ops:
        at = next((i for i, (key, _) in enumerate(entries) if key == op.key), -1)
        if isinstance(op, Drop):
            if at >= 0:
                entries = entries[:at] + entries[at + 1 :]
        elif at >= 0:
            entries = (*entries[:at], (op.key, op.text), *entries[at + 1 :])
        elif isinstance(op, Add):
            entries = (*entries, (op.key, op.text))
    return entries


def identity(ops: Ops) -> str:
    """Digest of the ops in key order: one change proposed by two workers is one diff."""
    return digest(_encoder.encode(sorted(ops, key=lambda op: op.key)))


def _outcome(op: Op) -> str | None:
    return None if isinstance(op, Drop) else op.text


def contradict(a: Ops, b: Ops) -> bool:
    """True when the two would leave one key with different texts, or one drops what the other sets."""
    left = {op.key: _outcome(op) for op in a}
    return any(op.key in left and left[op.key] != _outcome(op) for op in b)


def union(diffs: tuple[Ops, ...]) -> Ops:
    """All ops of diffs that do not contradict each other, each key once, first come first."""
    seen: dict[str, Op] = {}
    for ops in diffs:
        for op in ops:
            seen.setdefault(op.key, op)
    return tuple(seen.values())
