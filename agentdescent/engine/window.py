"""The effects decided on and not yet answered: those of workers' turns, and the others (base, merge, test).

Each in chunks of at most 16, oldest first, so that adding or answering one copies a chunk and the list of chunks,
however many effects are open.

Where answers are admitted in order, the order is that in which they were asked for, the others before those of turns:
every worker waits for a commit, and what a gate decides does not depend on what a turn in progress brings.
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
Chunks: TypeAlias = tuple[Chunk, ...]


class Window(Record, frozen=True):
    turns: Chunks = ()
    others: Chunks = ()
    count: int = 0


def put(window: Window, decided: Decided) -> Window:
    if decided.worker < 0:
        return Window(window.turns, _put(window.others, decided), window.count + 1)
    return Window(_put(window.turns, decided), window.others, window.count + 1)


def _put(chunks: Chunks, decided: Decided) -> Chunks:
    if chunks and len(chunks[-1]) < _WIDTH:
        return (*chunks[:-1], (*chunks[-1], decided))
    return (*chunks, (decided,))


def take(window: Window, ident: int) -> tuple[Decided, Window]:
    """The effect with this command id, and the window without it. Raises IllegalEvent when it is not open."""
    found = _take(window.others, ident)
    if found is not None:
        decided, rest = found
        return decided, Window(window.turns, rest, window.count - 1)
    found = _take(window.turns, ident)
    if found is not None:
        decided, rest = found
        return decided, Window(rest, window.others, window.count - 1)
    raise IllegalEvent(f"an outcome for command {ident}, which is not open")


def find(window: Window, ident: int) -> Decided:
    """The effect with this command id. Raises IllegalEvent when it is not open."""
    for chunks in (window.others, window.turns):
        for chunk in chunks:
            for decided in chunk:
                if decided.command.id == ident:
                    return decided
    raise IllegalEvent(f"an outcome for command {ident}, which is not open")


def _first(chunk: Chunk) -> int:
    return chunk[0].command.id


def _take(chunks: Chunks, ident: int) -> tuple[Decided, Chunks] | None:
    if not chunks:
        return None
    at = 0 if chunks[0][0].command.id == ident else bisect_right(chunks, ident, key=_first) - 1
    chunk = chunks[at] if at >= 0 else ()
    for i, decided in enumerate(chunk):
        if decided.command.id == ident:
            rest = (*chunk[:i], *chunk[i + 1 :])
            middle = (rest,) if rest else ()
            return decided, (*chunks[:at], *middle, *chunks[at + 1 :])
    return None


def next_in_order(window: Window) -> int:
    """The id of the command whose answer is folded next under ordered admission; the window must not be empty."""
    return (window.others or window.turns)[0][0].command.id


def idents(window: Window) -> tuple[int, ...]:
    """The ids of all open commands, oldest first."""
    return tuple(sorted([decided.command.id for chunk in window.others + window.turns for decided in chunk]))


def _ident(decided: Decided) -> int:
    return decided.command.id


def open_effects(window: Window) -> tuple[Decided, ...]:
    """Oldest first."""
    return tuple(sorted([decided for chunk in window.others + window.turns for decided in chunk], key=_ident))


def commands(window: Window) -> tuple[Command, ...]:
    """Oldest first."""
    return tuple(decided.command for decided in open_effects(window))
