"""Simulated time: hours of latency in milliseconds, every interleaving reproducible.

`simulate(main())` runs a coroutine on an event loop whose clock stands still while anything can run and jumps to the
next timer when nothing can. No thread, socket or process may take part: what never comes by the clock never comes.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

from agentdescent.artifact.diff import digest
from agentdescent.budget.tariff import Tariff
from agentdescent.engine.draw import seeded
from agentdescent.errors import AgentDescentError
from agentdescent.ports import Repeat, Task

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class NotSimulated(AgentDescentError):
    """Everything waits for something that the simulated clock does not bring: a thread, or nothing at all."""


class _Jump(selectors.SelectSelector):
    """Selects nothing; waiting moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.broken = ""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.broken:
            raise NotSimulated(self.broken)
        if timeout is None:
            raise NotSimulated("every task waits for something that no timer will bring")
        self.now += max(0.0, timeout)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop in simulated time; `time()` starts at 0."""

    def __init__(self) -> None:
        self._jump = _Jump()
        self._thread = threading.get_ident()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now

    def give_up(self) -> None:
        """Cancel what is left, and give it a simulated second to end."""
        self._jump.broken = ""
        left = asyncio.all_tasks(self)
        for task in left:
            task.cancel()
        if left:
            self.run_until_complete(asyncio.wait(left, timeout=1.0))

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if threading.get_ident() != self._thread:
            self._jump.broken = (
                "a thread takes part: give the agent and the scorer `blocking = False`, or make them async"
            )
        return super().call_soon_threadsafe(callback, *args, context=context)


def simulate(main: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """The result of a coroutine, and the simulated seconds that it took."""
    loop = SimulatedLoop()
    try:
        return loop.run_until_complete(main), loop.time()
    finally:
        loop.give_up()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def clock() -> float:
    """Simulated seconds since the start; call it inside `simulate`."""
    return asyncio.get_running_loop().time()


class Scripted:
    """An agent in simulated time: functions that return at once, whose answers come after a latency.

    `run(rendered, task)` and `propose(rendered, task, output, score, sample)` return or raise what a port may;
    `latency(purpose, key)` gives seconds for "solve" or "propose", `key` a number that is a function of the arguments
    (math.inf: the call hangs). `calls` counts what was begun.
    """

    def __init__(
        self,
        run: Callable[[str, Task], Any],
        propose: Callable[[str, Task, str, float, int], Any],
        latency: Callable[[str, int], float],
        *,
        tariff: Tariff | None = None,
        repeat: Repeat = "free",
        name: str = "scripted",
    ) -> None:
        self.name = name
        self.tariff = tariff
        self.repeat = repeat
        self.calls = 0
        self._run, self._propose, self._latency = run, propose, latency

    async def solve(self, rendered: str, task: Task) -> Any:
        await self._take("solve", rendered, task.id)
        return self._run(rendered, task)

    async def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        await self._take("propose", rendered, task.id, output, str(sample))
        return self._propose(rendered, task, output, score, sample)

    async def _take(self, purpose: str, *arguments: str) -> None:
        self.calls += 1
        seconds = self._latency(purpose, int(digest("\0".join(arguments).encode())[:15], 16))
        if math.isinf(seconds):
            await asyncio.Event().wait()
        await asyncio.sleep(seconds)


def lognormal(seed: int, median: float, sigma: float) -> Callable[[str, int], float]:
    """Latencies in seconds, lognormal(ln median, sigma), each a function of (seed, purpose, key)."""
    draw = seeded(seed)

    def latency(purpose: str, key: int) -> float:
        u = max(draw(purpose, 2 * key), 2.0**-53)
        normal = math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * draw(purpose, 2 * key + 1))
        return median * math.exp(sigma * normal)

    return latency
