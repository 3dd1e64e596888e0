"""Scripted agents for the benches: what they answer and bill is a function of their arguments, and of nothing else.

A line of the artifact that begins with `good` solves some tasks, one with `bad` spoils some, any other does nothing;
some tasks can never be solved, so that a run ends by its budget. Every call is billed by `meter` before it returns.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable
from typing import Literal, TypeAlias

from agentdescent import Answer, CallFailed, Rate, Tariff, Task, Usage
from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import rule_key
from agentdescent.budget.tariff import worst
from agentdescent.record import Record

Mode: TypeAlias = Literal["inline", "thread", "async"]
Meter: TypeAlias = Callable[[int], None]
"""Told how many tokens a call is billed, before its answer is returned."""

TARIFF = Tariff(
    Rate(strict=True, overhead=19, bytes_per_token=64, ceiling=100),
    Rate(strict=True, overhead=49, bytes_per_token=64, ceiling=250),
    output_limit=4_096,
)
"""A rollout is at most 120 tokens, a proposal 300, while what they read is at most 64 bytes."""

START: Entries = tuple((rule_key(text), text) for text in ("start one", "start two", "start three"))
"""Rules without effect, for proposals to quarrel about."""

STUCK, SOLVED = 0.15, 0.3
GAIN, LOSS = 0.2, 0.1
TURNS = 40


def tasks(count: int) -> list[Task]:
    """Prompts of 7 to 13 bytes."""
    return [Task(f"t{n}", f"task {n:02}" + "?" * (n % 7)) for n in range(count)]


class Right:
    """The score of an output: 1 or 0. It needs no thread and costs nothing."""

    name, blocking, bills = "right", False, False

    def __call__(self, task: Task, output: str) -> float:
        return float(output.startswith("right"))


def chance(*parts: object) -> float:
    """A uniform in [0, 1) that is a function of its arguments."""
    raw = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(raw, "big") / 2.0**64


def _rules(rendered: str) -> list[str]:
    return rendered.split("\n- ")[1:]


class Script(Record, frozen=True):
    """`slot`: proposals are whole texts, all of one length, and never better. Otherwise they are rules, of which
    `useful` are good. `constant`: every call is billed its worst case, else anything up to it. `failing`: calls that
    fail after they were billed; half of them say what they used. A start without or with START can always be scored."""

    seed: int = 0
    slot: bool = False
    useful: float = 0.4
    constant: bool = True
    failing: float = 0.0

    def u(self, *parts: object) -> float:
        return chance(self.seed, *parts)

    def solve(self, rendered: str, task: Task, meter: Meter) -> Answer:
        usage = self._usage(TARIFF.solve, (rendered, task.prompt), meter)
        if any(not rule.startswith("start") for rule in _rules(rendered)):
            self._may_fail(usage, "solve", rendered, task.id)
        verdict = "right" if self._solved(rendered, task) else "wrong"
        return Answer(f"{verdict} {int(self.u('output', rendered, task.id) * 10_000)}", usage)

    def propose(self, rendered: str, task: Task, output: str, sample: int, meter: Meter) -> Answer:
        usage = self._usage(TARIFF.propose, (rendered, task.prompt, output), meter, sample)
        if sample % 2:  # never two in a row: a lone worker whose proposals all fail ends the run
            self._may_fail(usage, "propose", rendered, task.id, output, sample)
        return Answer(self._reply(rendered, task, output, sample), usage)

    def _reply(self, rendered: str, task: Task, output: str, sample: int) -> str | None:
        if self.slot:
            return f"plan {sample % 10_000:04}"
        kind, rules = self.u("kind", sample, task.id, output), _rules(rendered)
        number = f"{sample} {int(self.u('number', rendered, output) * 1_000)}"  # whoever read another output says so
        if rules and kind > 0.7:
            key = rule_key(rules[int(self.u("rule", sample) * len(rules))])
            return f"drop {key}" if kind > 0.9 else f"replace {key}: good {number}"
        if kind > 0.85:
            return None
        return f"add: {'good' if kind < self.useful else 'bad' if kind < self.useful + 0.15 else 'idle'} {number}"

    def _solved(self, rendered: str, task: Task) -> bool:
        if self.u("stuck", task.id) < STUCK:
            return False
        solved = self.u("solved", task.id) < SOLVED
        for rule in _rules(rendered):
            effect = self.u(rule, task.id)
            if rule.startswith("good") and effect < GAIN:
                solved = True
            elif rule.startswith("bad") and effect < LOSS:
                solved = False
        return solved

    def _usage(self, rate: Rate, read: tuple[str, ...], meter: Meter, *more: object) -> Usage:
        most = worst(rate, sum(len(text.encode()) for text in read), 0).tokens
        total = most if self.constant else 1 + int(self.u("cost", *read, *more) * most)
        meter(total)
        completion = min(total, rate.ceiling)
        return Usage(prompt=total - completion, completion=completion)

    def _may_fail(self, usage: Usage, *key: object) -> None:
        if self.u("fails", *key) < self.failing:
            raise CallFailed("provider", "scripted", usage if self.u("told", *key) < 0.5 else None)


class Sync:
    """An agent that answers at once: in the loop, or with `blocking` in a thread."""

    tariff = TARIFF

    def __init__(self, script: Script, meter: Meter, *, blocking: bool) -> None:
        self.name = f"scripted {script}"
        self.blocking = blocking
        self._script, self._meter = script, meter

    def solve(self, rendered: str, task: Task) -> Answer:
        return self._script.solve(rendered, task, self._meter)

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        return self._script.propose(rendered, task, output, sample, self._meter)


class Async:
    """An agent whose answers come out of order: each after 0 to TURNS turns of the loop, by `latency`."""

    tariff = TARIFF

    def __init__(self, script: Script, meter: Meter, *, latency: int) -> None:
        self.name = f"scripted {script}"
        self._script, self._meter = script, meter
        self._luck = random.Random(latency)

    async def solve(self, rendered: str, task: Task) -> Answer:
        try:
            return self._script.solve(rendered, task, self._meter)
        finally:  # billed, and in flight from here on
            await self._turns()

    async def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        try:
            return self._script.propose(rendered, task, output, sample, self._meter)
        finally:
            await self._turns()

    async def _turns(self) -> None:
        for _ in range(self._luck.randrange(TURNS + 1)):
            await asyncio.sleep(0)
