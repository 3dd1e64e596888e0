"""A persistent vector: tuples of at most 16 in a tuple, so that changing one item copies two short tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Vector: TypeAlias = tuple[tuple[T, ...], ...]
_SHIFT = 4
_WIDTH = 1 << _SHIFT


def pack(items: Iterable[T]) -> Vector[T]:
    flat = tuple(items)
    return tuple(flat[i : i + _WIDTH] for i in range(0, len(flat), _WIDTH))


def get(vector: Vector[T], index: int) -> T:
    return vector[index >> _SHIFT][index & (_WIDTH - 1)]


def put(vector: Vector[T], index: int, item: T) -> Vector[T]:
    at, within = index >> _SHIFT, index & (_WIDTH - 1)
    chunk = vector[at]
    return (*vector[:at], (*chunk[:within], item, *chunk[within + 1 :]), *vector[at + 1 :])


def items(vector: Vector[T]) -> Iterator[T]:
    for chunk in vector:
        yield from chunk
