"""Threads for ports that block: the executor of a run that is given no other."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from agentdescent.ports import Item, Repeat

T = TypeVar("T")


class Threads(Generic[T]):
    """Daemon threads, made when none is idle and used again. One that hangs is left behind: it holds up neither other
    calls nor the end of the process, which concurrent.futures' own pool would join. An `Executor`."""

    def __init__(self) -> None:
        self._perform: Callable[[Item], T] | None = None
        self._items: queue.SimpleQueue[tuple[Item, Callable[[T | BaseException], None]] | None] = queue.SimpleQueue()
        self._idle: deque[None] = deque()  # one for each idle thread; append and pop are atomic, and cost no lock
        self._count = 0
        self._closed = False

    def open(self, perform: Callable[[Item], T], repeat: Repeat) -> None:
        self._perform = perform

    def submit(self, item: Item, done: Callable[[T | BaseException], None]) -> None:
        self._items.put((item, done))
        try:
            self._idle.pop()
        except IndexError:
            self._count += 1
            threading.Thread(target=self._serve, name=f"agentdescent-{self._count}", daemon=True).start()

    def close(self) -> None:
        """Idle threads end; a thread at work ends after it, and tells nobody."""
        self._closed = True
        for _ in range(self._count):
            self._items.put(None)

    def _serve(self) -> None:
        perform = self._perform
        if perform is None:
            raise RuntimeError("threads were not opened")
        while (work := self._items.get()) is not None and not self._closed:
            item, done = work
            try:
                result: T | BaseException = perform(item)
            except BaseException as error:  # a port that raises what no port should, CancelledError for one
                result = error
            if not self._closed:
                done(result)
            self._idle.append(None)
