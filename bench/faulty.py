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

from agentdescent import Answer, CallFailed, Usage, UsageError
from agentdescent.engine.event import FailureKind
from agentdescent.record import Record
from bench.agents import chance

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
