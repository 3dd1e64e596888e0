"""Waiting for a coroutine where no loop runs: on one loop of its own, so that what a client keeps open stays usable."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any, TypeVar

PATIENCE = 1.0
"""Seconds that coroutines are given to end when they are given up."""

T = TypeVar("T")


async def _awaited(work: Awaitable[T]) -> T:
    return await work


class Waiting:
    """A loop in a daemon thread, begun with the first call; from any thread but that one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __call__(self, work: Awaitable[T]) -> T:
        return asyncio.run_coroutine_threadsafe(_awaited(work), self._running()).result()

    def close(self) -> None:
        """End the loop, and give up what it still waits for; a later call begins another."""
        with self._lock:
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(2 * PATIENCE)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="reflection", daemon=True)
                self._thread.start()
            return self._loop

    def __reduce__(self) -> tuple[Any, ...]:
        return Waiting, ()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=PATIENCE))
    finally:
        loop.close()
