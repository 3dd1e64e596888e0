"""Agents, a scorer and an executor that hand every call to a faulty Provider: on the loop, in threads, elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agentdescent import Answer, CallFailed, Tariff, Task, Usage
from agentdescent.effects import Performer
from agentdescent.errors import ExecutorLost
from agentdescent.ports import Item, Repeat, Result, Retry
from bench.agents import Script
from bench.faulty import HANGING, Fate, Provider, answered, command


class AsyncAgent:
    """Waits in the loop. `last`: nothing follows that could still fail, so that returning is delivering."""

    def __init__(self, provider: Provider, script: Script, tariff: Tariff, repeat: Repeat, *, last: bool) -> None:
        self.name = f"faulty {script}"
        self.tariff, self.repeat = tariff, repeat
        self._provider, self._script, self._last = provider, script, last

    async def solve(self, rendered: str, task: Task) -> Any:
        return await self._call(lambda: self._script.solve(rendered, task, _nobody), last=self._last)

    async def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        return await self._call(lambda: self._script.propose(rendered, task, output, sample, _nobody), last=True)

    async def _call(self, make: Callable[[], Answer], *, last: bool) -> Any:
        provider = self._provider
        fate = provider.begin()
        made = provider.make(fate, make)
        await self._wait(fate, provider.latency())
        error = provider.failing(fate, made.usage)
        if error is not None:
            if fate != "retry":
                provider.deliver()
            raise error
        if last:
            provider.deliver()
        return answered(made, fate)

    async def _wait(self, fate: Fate, latency: float) -> None:
        deadline = self._provider.mix.deadline
        if fate == "hang":
            await asyncio.get_running_loop().create_future()
        elif fate == "late":
            await asyncio.sleep(deadline + latency)
        elif fate == "retry":
            await asyncio.sleep(latency / 10)
        elif fate == "stubborn":
            try:
                await asyncio.sleep(deadline + latency)
            except asyncio.CancelledError:  # answers all the same, when nobody asks any more
                await asyncio.sleep(latency)
        else:
            await asyncio.sleep(latency)


class BlockingAgent:
    """Answers at once, where an executor calls it; how long that takes is for the executor to say."""

    def __init__(self, provider: Provider, script: Script, tariff: Tariff, repeat: Repeat) -> None:
        self.name = f"faulty {script}"
        self.tariff, self.repeat = tariff, repeat
        self._provider, self._script = provider, script

    def solve(self, rendered: str, task: Task) -> Any:
        return self._call(lambda: self._script.solve(rendered, task, _nobody))

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        return self._call(lambda: self._script.propose(rendered, task, output, sample, _nobody))

    def _call(self, make: Callable[[], Answer]) -> Any:
        fate = self._provider.begin()
        made = self._provider.make(fate, make)
        error = self._provider.failing(fate, made.usage)
        if error is not None:
            raise error
        return answered(made, fate)


def _nobody(tokens: int) -> None: ...


class Scorer:
    """1 or 0, at once; with `waits` after a while in the loop. May bill up to 90 tokens, and fail."""

    name, blocking = "right", False

    def __init__(self, provider: Provider, *, waits: bool, delivers: bool) -> None:
        self.bills = provider.mix.scorer_bills
        self._provider, self._waits, self._delivers = provider, waits, delivers

    def __call__(self, task: Task, output: str) -> Any:
        return self._later(output) if self._waits else self._score(output)

    async def _later(self, output: str) -> Any:
        await asyncio.sleep(self._provider.latency() / 4)
        return self._score(output)

    def _score(self, output: str) -> Any:
        provider = self._provider
        usage = Usage(int(provider.u("judge") * 50), int(provider.u("verdict") * 40)) if self.bills else None
        if usage is not None:
            provider.bill(usage.tokens)
        if self._delivers:
            provider.deliver()
        if provider.u("scorer") < 0.01:
            raise CallFailed("scorer", "scripted", usage) if provider.u("said") < 0.5 else RuntimeError("busy")
        score = float(output.startswith("right"))
        return score if usage is None else Answer(score, usage)


class KeyedPerformer(Performer):
    """Says which command a call belongs to while it lasts."""

    async def ask(self, item: Item) -> Any:
        command.set(item.command.id)
        return await super().ask(item)


class Scrambler:
    """An executor in simulated time, which tells too late, twice, in any order, or never, and may get lost."""

    def __init__(self, provider: Provider, *, lost_after: int | None) -> None:
        self._provider = provider
        self._left = lost_after
        self._perform: Callable[[Item], Result | Retry] | None = None
        self.closed = 0

    def open(self, perform: Callable[[Item], Result | Retry], repeat: Repeat) -> None:
        self._perform = perform

    def submit(self, item: Item, done: Callable[[Result | Retry | BaseException], None]) -> None:
        if self._perform is None:
            raise RuntimeError("not opened")
        loop, provider = asyncio.get_running_loop(), self._provider
        command.set(item.command.id)
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                loop.call_later(provider.mix.median, done, ExecutorLost("scripted: the scheduler is gone"))
                return
        try:
            result: Result | Retry | BaseException = self._perform(item)
        except asyncio.CancelledError as error:  # raised by the agent
            result = error
        after = provider.latency()
        number = provider.asked[item.command.id]
        u = provider.u("executor", number)
        if u < HANGING:
            return
        if u < HANGING + provider.mix.late:
            after += provider.mix.deadline
        loop.call_later(after, self._tell, item.command.id, result, done)
        if provider.u("twice", number) < 0.1:
            loop.call_later(after * (1 + provider.u("again", number)), done, result)

    def _tell(
        self,
        ident: int,
        result: Result | Retry | BaseException,
        done: Callable[[Result | Retry | BaseException], None],
    ) -> None:
        command.set(ident)
        if not isinstance(result, Retry):
            self._provider.deliver()
        done(result)

    def close(self) -> None:
        self.closed += 1
