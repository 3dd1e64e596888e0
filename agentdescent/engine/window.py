"""The effects decided on and not yet answered, oldest first, in chunks of at most 16.

So that adding or answering one copies a chunk and the list of chunks, however many effects are open.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TypeAlias

from agentdescent.engine.command import Command
from agentdescent.engine.event import Decided
from agentdescent.errors import IllegalEvent
from agentdescent.record import Record

_WIDTH = 16
Chunk: TypeAlias = tuple[Decided, ...]


class Window(Record, frozen=True):
    chunks: tuple[Chunk, ...] = ()
    count: int = 0


def put(window: Window, decided: Decided) -> Window:
    chunks = window.chunks
    if chunks and len(chunks[-1]) < _WIDTH:
        chunks = (*chunks[:-1], (*chunks[-1], decided))
    else:
        chunks = (*chunks, (decided,))
    return Window(chunks, window.count + 1)


def _first(chunk: Chunk) -> int:
    return chunk[0].command.id


def take(window: Window, ident: int) -> tuple[Decided, Window]:
    """The effect with this command id, and the window without it. Raises IllegalEvent when it is not open."""
    at = 0
    if not (window.chunks and window.chunks[0][0].command.id == ident):
        at = bisect_right(window.chunks, ident, key=_first) - 1
    chunk = window.chunks[at] if at >= 0 else ()
    for i, decided in enumerate(chunk):
        if decided.command.id == ident:
            rest = (*chunk[:i], *chunk[i + 1 :])
            middle = (rest,) if rest else ()
            return decided, Window((*window.chunks[:at], *middle, *window.chunks[at + 1 :]), window.count - 1)
    raise IllegalEvent(f"an outcome for command {ident}, which is not open")


def oldest(window: Window) -> int:
    """The id of the oldest open command; the window must not be empty."""
    return window.chunks[0][0].command.id


def commands(window: Window) -> tuple[Command, ...]:
    return tuple(decided.command for chunk in window.chunks for decided in chunk)
