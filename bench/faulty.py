"""A provider that fails, hangs and answers late: what happens is a function of (seed, process, command), and everything
is counted here, outside of the run.

Answers are those of bench.agents.Script: functions of what was asked. What is drawn is what becomes of the call.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias, get_args

from agentdescent import Answer, CallFailed, Tariff, Task, Usage, UsageError
from agentdescent.effects import Performer
from agentdescent.engine.event import FailureKind
from agentdescent.errors import ExecutorLost
from agentdescent.ports import Item, Repeat, Result, Retry
from agentdescent.record import Record
from bench.agents import Script, chance

Fate: TypeAlias = Literal["answer", "silent", "failed", "odd", "retry", "hang", "late", "stubborn", "broken", "over"]

FAILING, HANGING = 0.10, 0.02
OVER = 100_000
KINDS = tuple(kind for kind in get_args(FailureKind) if kind != "contract")
"""A broken contract ends a run, so there are few of them: `broken`."""

command: ContextVar[int] = ContextVar("command")
"""The command that the running call belongs to."""


class Mix(Record, frozen=True):
    """Shares of calls, besides FAILING and HANGING. `broken`: violate the contract. `over`: are billed more than the
    tariff allows. `median`, `sigma`: of the lognormal latency in seconds; `deadline` in seconds."""

    seed: int
    median: float = 2.0
    sigma: float = 1.0
    deadline: float = 120.0
    late: float = 0.01
    silent: float = 0.01
    broken: float = 0.0
    over: float = 0.0
    scorer_bills: bool = False


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


ODD: tuple[Callable[[], BaseException], ...] = (
    Unprintable,
    lambda: KeyError("choices"),
    lambda: StopIteration(3),
    lambda: TimeoutError("read timed out"),
    lambda: asyncio.CancelledError(),
    lambda: ConnectionResetError("connection reset by peer"),
    lambda: ExceptionGroup("two things", [ValueError("one"), OSError("other")]),
)


class Provider:
    """What the calls of one run come to, whichever process makes them.

    `billed`: tokens by command, known to nobody else for calls that hang or fail. `asked`: commands called by this
    process. `delivered`: commands whose answer this process was given in time, or whose failure it was told for good.
    """

    def __init__(self, mix: Mix) -> None:
        self.mix = mix
        self.process = 0
        self.listening = False
        self.billed: Counter[int] = Counter()
        self.asked: Counter[int] = Counter()
        self.delivered: set[int] = set()
        self.fates: Counter[str] = Counter()
        self.refuse: Callable[[int], None] = lambda ident: None
        self._began: dict[int, float] = {}

    def restart(self) -> None:
        """Another process goes on."""
        self.process += 1
        self.asked.clear()
        self.delivered.clear()
        self._began.clear()

    def u(self, *key: object) -> float:
        return chance("fate", self.mix.seed, self.process, command.get(), *key)

    def begin(self) -> Fate:
        """A call begins; what will become of it."""
        ident = command.get()
        self.refuse(ident)
        self.asked[ident] += 1
        self._began.setdefault(ident, asyncio.get_running_loop().time())
        fate = self._draw(self.asked[ident])
        self.fates[fate] += 1
        return fate

    def _draw(self, number: int) -> Fate:
        mix, u = self.mix, self.u("fate", number)
        shares: tuple[tuple[Fate, float], ...] = (
            ("failed", 0.06),
            ("odd", 0.02),
            ("retry", FAILING - 0.08),
            ("hang", HANGING),
            ("late", mix.late / 2),
            ("stubborn", mix.late / 2),
            ("silent", mix.silent),
            ("broken", mix.broken),
            ("over", mix.over),
        )
        for fate, share in shares:
            if u < share:
                return fate
            u -= share
        return "answer"

    def bill(self, tokens: int) -> None:
        self.billed[command.get()] += tokens

    def make(self, fate: Fate, make: Callable[[], Answer]) -> Answer:
        """The answer, and its bill; a call that is turned away has neither."""
        if fate == "retry":
            return Answer(None)
        made = make()
        self.bill((made.usage or Usage()).tokens + (OVER if fate == "over" else 0))
        return made

    def latency(self) -> float:
        """Lognormal, and for one call in fifty twenty times as long."""
        number = self.asked[command.get()]
        u = max(self.u("latency", number), 2.0**-53)
        normal = math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * self.u("phase", number))
        return self.mix.median * math.exp(self.mix.sigma * normal) * (20.0 if self.u("tail", number) < 0.02 else 1.0)

    def deliver(self) -> None:
        """The answer, or the failure, is handed over at this moment."""
        ident, now = command.get(), asyncio.get_running_loop().time()
        if self.listening and now < self._began[ident] + self.mix.deadline - 1e-6:
            self.delivered.add(ident)

    def failing(self, fate: Fate, usage: Usage | None) -> BaseException | None:
        """What a call with this fate raises, if it raises."""
        match fate:
            case "failed":
                kind = KINDS[int(self.u("kind") * len(KINDS))]
                return CallFailed(kind, f"scripted {kind}", usage if self.u("told") < 0.5 else None)
            case "odd":
                return ODD[int(self.u("odd") * len(ODD))]()
            case "retry":
                after = (0.0, 1.0, 5.0, 30.0, 2 * self.mix.deadline)[int(self.u("after") * 5)]
                return CallFailed("rate-limit", "scripted 429", retry_after=after)
            case "broken":
                return UsageError("scripted contract violation")
            case "answer" | "silent" | "hang" | "late" | "stubborn" | "over":
                return None


def answered(answer: Answer, fate: Fate) -> Any:
    """The answer of a call with this fate."""
    usage = answer.usage or Usage()
    if fate == "silent":
        return answer.value
    if fate == "over":
        return Answer(answer.value, Usage(usage.prompt + OVER, usage.completion))
    return Answer(answer.value, usage)


# --- agents and scorers -----------------------------------------------------------------------------------------------


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
