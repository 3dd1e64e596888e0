"""Effects in flight: each ends once, by its answer or by the deadline, whichever comes first.

A port is code we do not know. Whatever it does, a call ends in an outcome: it may raise any Exception, cancel itself,
block, swallow cancellation, answer twice or never. What a deadline leaves behind runs on in a daemon thread or a
cancelled task; a second answer, and one that comes late, is dropped: the effect was charged at its reservation.

A call that the agent says was not billed and may be repeated (`CallFailed.retry_after`) is repeated within the same
deadline, until the run is told to stop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from agentdescent.effects import Performed, Performer, failure
from agentdescent.engine.event import Decided, Failed
from agentdescent.errors import ExecutorLost
from agentdescent.ports import Executor, Item, Result, Retry
from agentdescent.threads import Threads
from agentdescent.wiring import Mode

PATIENCE = 1.0
"""Seconds that cancelled calls are given to end when a run is given up."""
PAUSE = 0.1
"""Seconds before a call is repeated, at least: a port that always says `retry_after=0` is not called without end."""


class Effect(NamedTuple):
    """A decided command, with all that performing it needs, and how it is called."""

    decided: Decided
    item: Item
    mode: Mode


class _Open(NamedTuple):
    effect: Effect
    began: float
    expires: float


def _settle(future: asyncio.Future[Performed], result: Performed | BaseException) -> None:
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)


class Calls:
    """Starts effects of one run. `arrive(effect, result, seconds)` is told on the loop, in the very step in which an
    answer comes, once for each; `lost(error)` when the executor can give no more answers."""

    def __init__(
        self,
        performer: Performer,
        deadline: float,
        arrive: Callable[[Effect, Result, float], None],
        lost: Callable[[ExecutorLost], None],
        executor: Executor | None,
    ) -> None:
        self.performer = performer
        self._deadline = deadline
        self._arrive = arrive
        self._lost = lost
        self._threads: Threads[Performed] = Threads()
        self._executor = executor
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[int, _Open] = {}  # in the order in which they were started, and so in that of their expiry
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._done: deque[tuple[int, Performed | BaseException]] = deque()
        self._parked = True  # whether the next answer has to wake the loop
        self._waiting: dict[int, tuple[asyncio.TimerHandle, Failed]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._closing = False
        self._deployed = False

    def __len__(self) -> int:
        """Effects in flight."""
        return len(self._open)

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """From here on calls are made, and repeated."""
        self._loop = loop
        self._stopping = False
        self._threads.open(self.performer.call, self.performer.ports.repeat)

    def deploy(self) -> None:
        """Send the ports to the executor; the agent has met its train tasks."""
        if self._executor is not None:
            self._executor.open(self.performer.remote(), self.performer.ports.repeat)
            self._deployed = True

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise RuntimeError("calls were not opened")
        return self._loop

    def start(self, effect: Effect) -> None:
        began = self.loop.time()
        result: Performed | None = None
        if effect.mode == "inline":
            result = self.performer.call(effect.item)
            if isinstance(result, tuple) and not isinstance(result, Retry):
                self._arrive(effect, result, self.loop.time() - began)
                return
        expires = began + self._deadline
        self._open[effect.decided.command.id] = _Open(effect, began, expires)
        if self._timer is None:
            self._timer = self.loop.call_at(expires, self._expire)
        if result is None:
            self._begin(effect)
        else:
            self._end(effect.decided.command.id, result)

    def collect(self) -> bool:
        """Deliver the answers that are there; False when there were none. From here on answers wake the loop."""
        came = bool(self._done)
        self._drain()
        return came

    def attend(self) -> None:
        """Answers need not wake the loop: they will be collected before it waits again."""
        self._parked = False

    def stop(self) -> None:
        """No call is repeated any more; one that waits for it has failed."""
        self._stopping = True
        waiting, self._waiting = self._waiting, {}
        for ident, (handle, failed) in waiting.items():
            handle.cancel()
            self._end(ident, (failed, ""))

    async def close(self) -> None:
        """Answers that are there are delivered; calls that are not answered are given up.

        One that waits to be repeated has failed, at no cost. If it is free, it is given up too: whoever goes on repeats
        it, and comes to the log of a run that nobody disturbed.
        """
        self._closing = True
        try:
            if self.performer.ports.repeat == "free":
                for handle, _ in self._waiting.values():
                    handle.cancel()
                self._waiting.clear()
            self.stop()
            self.collect()
            if self._timer is not None:
                self._timer.cancel()
            tasks = tuple(self._tasks.values())
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=PATIENCE)
        finally:
            self._open.clear()
            self._threads.close()
            if self._executor is not None and self._deployed:
                self._executor.close()

    # --- one call ----------------------------------------------------------------------------------------------------

    def _begin(self, effect: Effect) -> None:
        ident = effect.decided.command.id
        match effect.mode:
            case "inline":
                self._end(ident, self.performer.call(effect.item))
            case "thread":
                try:
                    (self._executor or self._threads).submit(effect.item, self._teller(ident))
                except Exception as error:  # an executor is code we do not know either
                    self._end(ident, error)
            case "async":
                self._spawn(ident, self._on_loop(effect.item))

    def _teller(self, ident: int) -> Callable[[Performed | BaseException], None]:
        """Told once: what an executor repeats would end the next repetition of a call, or begin one more."""
        untold = [ident]  # pop is atomic, and costs no lock

        def tell(result: Performed | BaseException) -> None:
            """From any thread."""
            try:
                self._done.append((untold.pop(), result))
            except IndexError:
                return
            if self._parked:
                self._parked = False
                self._post(self._drain)

        return tell

    def _post(self, callback: Callable[..., None], *arguments: object) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop is closed, and with it the run: the answer is too late
            self.loop.call_soon_threadsafe(callback, *arguments)

    def _drain(self) -> None:
        self._parked = True  # before looking: an answer that is not seen here sees this
        while self._done:
            self._end(*self._done.popleft())

    def _spawn(self, ident: int, work: Awaitable[Performed]) -> None:
        async def answer() -> None:
            try:
                result: Performed | BaseException = await work
            except asyncio.CancelledError as error:
                if ident not in self._open or self._closing:
                    raise
                result = error
            except Exception as error:  # whatever a port raises is a fact about this call
                result = error
            self._end(ident, result)

        task = self.loop.create_task(answer())
        self._tasks[ident] = task
        task.add_done_callback(lambda _: self._tasks.pop(ident, None))

    async def _on_loop(self, item: Item) -> Performed:
        """A scorer that may block goes to a thread or the executor, so that it holds up nobody else."""
        performer = self.performer
        try:
            value = await performer.ask(item)
        except Exception as error:  # as above
            return performer.raised(item, error)
        item = item._replace(value=value, answered=True)
        if performer.scores_in_thread(item.command):
            future: asyncio.Future[Performed] = self.loop.create_future()

            def done(result: Performed | BaseException) -> None:
                self._post(_settle, future, result)

            (self._executor or self._threads).submit(item, done)
            result = await future
        else:
            result = performer.call(item)
        return await result if inspect.isawaitable(result) else result

    def _end(self, ident: int, result: Performed | BaseException) -> None:
        found = self._open.get(ident)
        if found is None:  # answered before, or too late
            return
        command = found.effect.decided.command
        if isinstance(result, ExecutorLost):
            del self._open[ident]
            self._lost(result)
            return
        if isinstance(result, BaseException):
            result = failure(command, result), ""
        elif isinstance(result, Retry):
            if self._closing and self.performer.ports.repeat == "free":
                return  # given up, to be called again by whoever goes on
            after = max(PAUSE, result.after)
            if not self._stopping and self.loop.time() + after < found.expires:
                handle = self.loop.call_later(after, self._again, ident)
                self._waiting[ident] = handle, result.failed
                return
            result = result.failed, ""
        elif not isinstance(result, tuple):
            self._spawn(ident, result)
            return
        del self._open[ident]
        self._arrive(found.effect, result, self.loop.time() - found.began)

    def _again(self, ident: int) -> None:
        del self._waiting[ident]
        self._begin(self._open[ident].effect)

    def _expire(self) -> None:
        now, self._timer = self.loop.time(), None
        for ident, found in tuple(self._open.items()):
            if found.expires > now:
                self._timer = self.loop.call_at(found.expires, self._expire)
                break
            del self._open[ident]
            task = self._tasks.get(ident)
            if task is not None:
                task.cancel()
            result = Failed(ident, "timeout", f"no answer within {self._deadline:g} s"), ""
            self._arrive(found.effect, result, self.loop.time() - found.began)
