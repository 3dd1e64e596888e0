"""Running a coroutine from synchronous code, and asking it to stop."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from agentdescent.engine.event import InterruptReason

_PATIENCE = 1.0
T = TypeVar("T")


class Cancellation:
    """Asks a run, from any thread or a signal handler, to take no new work and settle. `signal`: the number of the
    signal that asked, if one did."""

    def __init__(self) -> None:
        self.reason: InterruptReason | None = None
        self.signal: int | None = None
        self._wake: Callable[[], None] | None = None

    def request(self, reason: InterruptReason = "cancelled") -> None:
        self.reason = self.reason or reason
        if self._wake is not None:
            self._wake()

    def bind(self, wake: Callable[[], None] | None) -> None:
        self._wake = wake


def run_blocking(
    make: Callable[[Cancellation], Awaitable[T]], signals: Sequence[signal.Signals] = (signal.SIGINT,)
) -> T:
    """Run a coroutine to its end from synchronous code, in a thread of its own where a loop is running already.

    In the main thread the first of `signals` asks the run to settle, the second raises KeyboardInterrupt.
    """
    cancellation = Cancellation()

    async def main() -> T:
        return await make(cancellation)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with _interruptible(cancellation, signals):
            return _run_to_end(main())
    with ThreadPoolExecutor(1) as pool, _interruptible(cancellation, signals):
        return pool.submit(_run_to_end, main()).result()


def _run_to_end(main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, which would wait for ever for a port that swallows its cancellation."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_PATIENCE))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@contextmanager
def _interruptible(cancellation: Cancellation, signals: Sequence[signal.Signals]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: object) -> None:
        if cancellation.signal is not None:
            raise KeyboardInterrupt
        cancellation.signal = number
        cancellation.request()

    before = [(name, signal.signal(name, handle)) for name in signals]
    try:
        yield
    finally:
        for name, handler in before:
            signal.signal(name, handler)
