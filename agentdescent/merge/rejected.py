"""Diffs already rejected against a head, so that none is paid for twice: the last 64 in each of 64 buckets."""

from __future__ import annotations

from typing import TypeAlias

Rejected: TypeAlias = tuple[tuple[str, ...], ...]
_BUCKETS = 64
_DEPTH = 64
NONE: Rejected = ((),) * _BUCKETS


def _bucket(identity: str) -> int:
    return int(identity[:2], 16) % _BUCKETS


def contains(rejected: Rejected, identity: str) -> bool:
    return identity in rejected[_bucket(identity)]


def remember(rejected: Rejected, identity: str) -> Rejected:
    """With this identity, at the price of the oldest in its bucket."""
    at = _bucket(identity)
    if identity in rejected[at]:
        return rejected
    return (*rejected[:at], (*rejected[at][1 - _DEPTH :], identity), *rejected[at + 1 :])
