"""One call of a port: at once, in a thread or on the loop, with a deadline that nothing can outlast.

A port is code we do not know. Whatever it does, a call ends in an outcome: it may raise anything, block, swallow
cancellation or never return. What is left behind by a deadline runs on in a daemon thread or a cancelled task, and
its late answer is dropped; the effect was charged at its reservation.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import NamedTuple, TypeAlias

from agentdescent.artifact.diff import Entries
from agentdescent.effects import Mode, Performer, Result, failure
from agentdescent.engine.event import Decided, Failed
from agentdescent.ports import Answer

Arrive: TypeAlias = Callable[[Result], None]
Work: TypeAlias = "Callable[[], Result | Awaitable[Result]]"
_Item: TypeAlias = "tuple[Future[Result | Awaitable[Result]], Work] | None"


class Effect(NamedTuple):
    """A decided command with the artifact it names, for a proposal the output of the rollout it is about, and how it
    is called."""

    decided: Decided
    entries: Entries
    text: str
    output: str
    mode: Mode


class Threads:
    """Daemon threads, made when none is idle and used again. One that hangs is left behind: it holds up neither other
    calls nor the end of the process, which concurrent.futures' own pool would join."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    def submit(self, work: Work) -> Future[Result | Awaitable[Result]]:
        future: Future[Result | Awaitable[Result]] = Future()
        self._items.put((future, work))
        if not self._idle.acquire(blocking=False):
            self._count += 1
            threading.Thread(target=self._serve, name=f"agentdescent-{self._count}", daemon=True).start()
        return future

    def close(self) -> None:
        """Idle threads end; a thread at work ends after it."""
        for _ in range(self._count):
            self._items.put(None)

    def _serve(self) -> None:
        while (item := self._items.get()) is not None:
            future, work = item
            if future.set_running_or_notify_cancel():  # from here on it cannot be cancelled, only be forgotten
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)
            self._idle.release()


class Caller:
    """Performs effects of one run."""

    def __init__(self, performer: Performer, deadline: float) -> None:
        self.performer = performer
        self.deadline = deadline
        self._threads = Threads()

    def at_once(self, effect: Effect) -> Result | Awaitable[Result]:
        """Call a port that returns at once; an awaitable when it does not after all, or its scorer does not."""
        try:
            return self._call(effect)
        except Exception as error:  # whatever a port raises is a fact about this call
            return failure(effect.decided.command, error), ""

    async def perform(self, effect: Effect, arrive: Arrive) -> None:
        """Call a port in a thread or on the loop. `arrive` is told once what came of it, in the very step in which the
        answer came; never, when the run itself is cancelled."""
        work = self._in_thread(effect) if effect.mode == "thread" else self._on_loop(effect)
        await self.within_deadline(effect, work, arrive)

    async def within_deadline(self, effect: Effect, work: Awaitable[Result], arrive: Arrive) -> None:
        """As `perform`, for a call that has begun."""
        command, left = effect.decided.command, False

        async def answer() -> None:
            try:
                result = await work
            except asyncio.CancelledError:
                if left:
                    raise
                result = Failed(command.id, "provider", "the port cancelled its own call"), ""
            except Exception as error:  # whatever a port raises is a fact about this call
                result = failure(command, error), ""
            if not left:
                arrive(result)

        task = asyncio.ensure_future(answer())
        try:
            await asyncio.wait({task}, timeout=self.deadline)
        finally:
            left = True
            unanswered = not task.done()
            if unanswered:
                task.cancel()
        if unanswered:
            arrive((Failed(command.id, "timeout", f"no answer within {self.deadline:g} s"), ""))
        else:
            task.result()  # what `arrive` raised

    def close(self) -> None:
        self._threads.close()

    def _call(self, effect: Effect) -> Result | Awaitable[Result]:
        command, performer = effect.decided.command, self.performer
        value = performer.function(command)(*performer.arguments(command, effect.text, effect.output))
        if not isinstance(value, Answer | str) and inspect.isawaitable(value):
            return self._finish(effect, value)
        return performer.finish(command, effect.entries, value)

    async def _finish(self, effect: Effect, value: Awaitable[object]) -> Result:
        """On the loop: a scorer that may block goes to a thread, so that it holds up nobody else."""
        command, entries, answer = effect.decided.command, effect.entries, await value
        performer = self.performer
        if performer.scores_in_thread(command):
            result = await asyncio.wrap_future(self._threads.submit(lambda: performer.finish(command, entries, answer)))
        else:
            result = performer.finish(command, entries, answer)
        return await result if inspect.isawaitable(result) else result

    async def _on_loop(self, effect: Effect) -> Result:
        result = self._call(effect)
        return await result if inspect.isawaitable(result) else result

    async def _in_thread(self, effect: Effect) -> Result:
        def work() -> Result | Awaitable[Result]:
            try:
                return self._call(effect)
            except Exception as error:  # here and not outside: StopIteration cannot be raised into a future
                return failure(effect.decided.command, error), ""

        result = await asyncio.wrap_future(self._threads.submit(work))
        return await result if inspect.isawaitable(result) else result
