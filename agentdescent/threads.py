"""Threads for ports that block: the executor of a run that is given no other."""

from __future__ import annotations

import queue
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from agentdescent.ports import Item, Repeat

T = TypeVar("T")


class Threads(Generic[T]):
    """Daemon threads, made when there are more items than threads, at most `capacity`, and used again. An `Executor`
    that may be handed more than it has threads for: a thread that has performed one item takes the next at once.

    One that hangs is left behind (`leave`): another takes its place, and it holds up neither other calls nor the end
    of the process, which concurrent.futures' own pool would join. `begins(command)` is told in the thread that an item
    is about to be performed; False: nobody waits for it any more. All other methods are called from one thread.
    """

    def __init__(self, capacity: int = sys.maxsize, begins: Callable[[int], bool] = lambda _: True) -> None:
        self._capacity = capacity
        self._begins = begins
        self._perform: Callable[[Item], T] | None = None
        self._items: queue.SimpleQueue[tuple[Item, Callable[[T | BaseException], None]] | None] = queue.SimpleQueue()
        self._running: dict[int, bool] = {}  # by command: what a thread is at; whoever pops it has ended it
        self._ended: deque[None] = deque()  # one for each item that ended; append and pop are atomic, and cost no lock
        self._threads = 0  # those that were left behind not counted
        self._owed = 0  # items handed over, less those that are known to have ended
        self._closed = False

    def open(self, perform: Callable[[Item], T], repeat: Repeat) -> None:
        self._perform = perform

    def submit(self, item: Item, done: Callable[[T | BaseException], None]) -> None:
        self._items.put((item, done))
        self._owed += 1
        self._grow()

    def recall(self) -> list[int]:
        """Take back what no thread has taken, but for what is only to be scored; the commands, oldest first."""
        back, kept = list[int](), []
        with suppress(queue.Empty):
            while (work := self._items.get_nowait()) is not None:
                if work[0].answered:
                    kept.append(work)
                else:
                    back.append(work[0].command.id)
        for work in kept:
            self._items.put(work)
        self._owed -= len(back)
        return back

    def leave(self, command: int) -> None:
        """Nobody waits any longer for what a thread is at."""
        if self._running.pop(command, False):
            self._threads -= 1
            self._owed -= 1
            with suppress(RuntimeError):  # there can be no more threads now: the next item tries again
                self._grow()

    def close(self) -> None:
        """Idle threads end; a thread at work ends after it, and tells nobody."""
        self._closed = True
        for _ in range(self._threads):
            self._items.put(None)

    def _grow(self) -> None:
        while self._ended:
            self._ended.pop()
            self._owed -= 1
        if self._threads < min(self._owed, self._capacity):
            threading.Thread(target=self._serve, name=f"agentdescent-{self._threads}", daemon=True).start()
            self._threads += 1

    def _serve(self) -> None:
        perform = self._perform
        if perform is None:
            raise RuntimeError("threads were not opened")
        while (work := self._items.get()) is not None and not self._closed:
            item, done = work
            command = item.command.id
            self._running[command] = True
            result = _result(perform, item) if self._begins(command) else None
            if not self._running.pop(command, False):
                return  # it was left behind
            self._ended.append(None)
            if result is not None and not self._closed:
                done(result)


def _result(perform: Callable[[Item], T], item: Item) -> T | BaseException:
    try:
        return perform(item)
    except BaseException as error:  # a port that raises what no port should, CancelledError for one
        return error
