"""Effects in flight: each ends once, by its answer or by the deadline, whichever comes first.

A port is code we do not know. Whatever it does, a call ends in an outcome: it may raise any Exception, cancel itself,
block, swallow cancellation, answer twice or never. What a deadline leaves behind runs on in a daemon thread or a
cancelled task; a second answer, and one that comes late, is dropped: the effect was charged at its reservation.

A call that the agent says was not billed and may be repeated (`CallFailed.retry_after`) is repeated within the same
deadline, until the run is told to stop.

Free calls in threads are handed over a little beyond the capacity, so that a thread that has ended one begins the next
without waiting for the loop. One that no thread has taken has not begun: its deadline does not run, and a stop gives it
back.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from agentdescent.effects import Performed, Performer, failure
from agentdescent.engine.event import Failed
from agentdescent.errors import ExecutorLost
from agentdescent.inflight import Effect, Open
from agentdescent.ports import Executor, Item, Result, Retry
from agentdescent.threads import Threads

PATIENCE = 1.0
"""Seconds that cancelled calls are given to end when a run is given up."""
PAUSE = 0.1
"""Seconds before a call is repeated, at least: a port that always says `retry_after=0` is not called without end."""


def _settle(future: asyncio.Future[Performed], result: Performed | BaseException) -> None:
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)


class Calls:
    """Starts effects of one run. `arrive(effect, result, seconds, refused)` is told on the loop, in the very step in
    which an answer comes, once for each; `lost(error)` when the executor can give no more answers."""

    def __init__(
        self,
        performer: Performer,
        deadline: float,
        capacity: int,
        arrive: Callable[[Effect, Result, float, int], None],
        lost: Callable[[ExecutorLost], None],
        executor: Executor | None,
    ) -> None:
        self.performer = performer
        self._deadline = deadline
        self._arrive = arrive
        self._lost = lost
        self._threads: Threads[Performed] = Threads(capacity, self._begins)
        self._executor = executor
        ports = performer.ports
        modes = (ports.solve_mode, ports.propose_mode)
        scored = all(one is None or one.mode != "async" for one in (ports.reward, ports.oracle))
        plain = executor is None and modes == ("thread", "thread") and scored
        self._capacity = self._room = capacity
        self._ahead = max(1, capacity // 4) if plain and ports.repeat == "free" else 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[int, Open] = {}  # in the order in which they are begun, and so in that of their expiry
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._done: deque[tuple[int, Performed | BaseException]] = deque()
        self._parked = True  # whether the next answer has to wake the loop
        self._waiting: dict[int, asyncio.TimerHandle] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._closing = False
        self._deployed = False

    def __len__(self) -> int:
        """Effects in flight, and handed over to be."""
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether no more calls may be started now. Nothing is handed over ahead before a thread has given an answer,
        nor when one has given an awaitable: that call goes on while its thread takes the next."""
        return len(self._open) >= self._room

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
        ident = effect.decided.command.id
        queued = effect.mode == "thread" and self._executor is None
        self._open[ident] = Open(effect, None if queued else self.loop.time())
        if self._timer is None:
            self._timer = self.loop.call_later(self._deadline, self._expire)
        self._begin(effect)

    def collect(self) -> bool:
        """Deliver the answers that are there; False when there were none. From here on answers wake the loop."""
        came = bool(self._done)
        self._drain()
        return came

    def attend(self) -> None:
        """Answers need not wake the loop: they will be collected before it waits again."""
        self._parked = False

    def stop(self) -> list[int]:
        """No call is repeated any more; one that waits for it has failed. The commands that have not begun and never
        will, oldest first."""
        self._stopping = True
        waiting, self._waiting = self._waiting, {}
        for handle in waiting.values():
            handle.cancel()
        unbegun = list[int]()
        recalled = self._threads.recall() if self.performer.ports.repeat == "free" else []
        for ident in (*waiting, *recalled):
            call = self._open.get(ident)
            if call is not None and call.again is not None:
                self._end(ident, call.again)
            elif call is not None:
                del self._open[ident]
                unbegun.append(ident)
        return unbegun

    async def close(self) -> None:
        """Answers that are there are delivered; calls that are not answered are given up.

        One that waits to be repeated has failed, at no cost. If it is free, it is given up too: whoever goes on repeats
        it, and comes to the log of a run that nobody disturbed.
        """
        self._closing = True
        try:
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
        call = self._open.get(ident)
        if call is None:  # answered before, or too late
            return
        if isinstance(result, ExecutorLost):
            del self._open[ident]
            self._lost(result)
            return
        if isinstance(result, BaseException):
            result = failure(call.effect.decided.command, result), ""
        elif isinstance(result, Retry):
            if self._closing and self.performer.ports.repeat == "free":
                return  # given up, to be called again by whoever goes on
            after, now = max(PAUSE, result.after), self.loop.time()
            if not self._stopping and now + after < self._expiry(call, now):
                call.again = result
                self._waiting[ident] = self.loop.call_later(after, self._again, ident)
                return
            result = result.failed, ""
        elif not isinstance(result, tuple):
            self._ahead, self._room = 0, self._capacity
            self._spawn(ident, result)
            return
        self._room = self._capacity + self._ahead
        self._close(ident, call, result)

    def _close(self, ident: int, call: Open, result: Result) -> None:
        del self._open[ident]
        self._arrive(call.effect, result, call.seconds(self.loop.time()), call.refused)

    def _begins(self, ident: int) -> bool:
        """In its thread."""
        call = self._open.get(ident)
        if call is not None and call.began is None:
            call.began = self.loop.time()
        return call is not None

    def _again(self, ident: int) -> None:
        del self._waiting[ident]
        self._begin(self._open[ident].anew())

    def _expiry(self, call: Open, now: float) -> float:
        return (now if call.began is None else call.began) + self._deadline

    def _expire(self) -> None:
        now, self._timer = self.loop.time(), None
        for ident, call in tuple(self._open.items()):
            expiry = self._expiry(call, now)
            if expiry > now:
                self._timer = self.loop.call_at(expiry, self._expire)
                break
            self._threads.leave(ident)
            task = self._tasks.get(ident)
            if task is not None:
                task.cancel()
            self._close(ident, call, (Failed(ident, "timeout", f"no answer within {self._deadline:g} s"), ""))
