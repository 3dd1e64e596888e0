"""Calls of a model, in the thread of the caller or on the loop: the only code here that does anything."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from agentdescent.ports import Answer, Task
from agentdescent_adapters.llm.proposing import Proposing, propose_request, read_proposal
from agentdescent_adapters.llm.rates import FREE
from agentdescent_adapters.llm.solving import Solving, read_solution, solve_request
from agentdescent_adapters.providers.calling import BlockingModel
from agentdescent_adapters.providers.model import Model, Reply


class Solver(msgspec.Struct, frozen=True):
    """Awaits a model."""

    model: Model
    solving: Solving

    async def solve(self, rendered: str, task: Task) -> Answer:
        return read_solution(self.solving, await self.model.complete(solve_request(self.solving, rendered, task)))


class BlockingSolver(msgspec.Struct, frozen=True):
    """Waits for a model."""

    model: BlockingModel
    solving: Solving

    def solve(self, rendered: str, task: Task) -> Answer | Awaitable[Answer]:
        reply = self.model.complete_blocking(solve_request(self.solving, rendered, task))
        return _read(reply, lambda found: read_solution(self.solving, found))


class Proposer(msgspec.Struct, frozen=True):
    """Awaits a model. `unbounded`: of one that cannot be told a ceiling."""

    model: Model
    proposing: Proposing

    async def propose(
        self, rendered: str, task: Task, output: str, score: float, sample: int, ceiling: int | None = None
    ) -> Answer:
        request = propose_request(self.proposing, rendered, task, output, score, sample, ceiling)
        return read_proposal(self.proposing, rendered, await self.model.complete(request))

    async def unbounded(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        return await self.propose(rendered, task, output, score, sample)


class BlockingProposer(msgspec.Struct, frozen=True):
    """Waits for a model. `unbounded`: of one that cannot be told a ceiling."""

    model: BlockingModel
    proposing: Proposing

    def propose(
        self, rendered: str, task: Task, output: str, score: float, sample: int, ceiling: int | None = None
    ) -> Answer | Awaitable[Answer]:
        request = propose_request(self.proposing, rendered, task, output, score, sample, ceiling)
        reply = self.model.complete_blocking(request)
        return _read(reply, lambda found: read_proposal(self.proposing, rendered, found))

    def unbounded(
        self, rendered: str, task: Task, output: str, score: float, sample: int
    ) -> Answer | Awaitable[Answer]:
        return self.propose(rendered, task, output, score, sample)


class Function(msgspec.Struct, frozen=True):
    """Proposes by a function that calls no model: what it returns bare costs nothing."""

    function: Callable[..., Any]
    samples: bool

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer | Awaitable[Answer]:
        value = self._call(rendered, task, output, score, sample)
        return self._later(value) if inspect.isawaitable(value) else _free(value)

    async def propose_later(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        return _free(await self._call(rendered, task, output, score, sample))

    def _call(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        return self.function(rendered, task, output, score, *((sample,) if self.samples else ()))

    async def _later(self, value: Awaitable[Any]) -> Answer:
        return _free(await value)


def _free(value: Any) -> Answer:
    return value if isinstance(value, Answer) else Answer(value, FREE)


def _read(reply: Reply | Awaitable[Reply], read: Callable[[Reply], Answer]) -> Answer | Awaitable[Answer]:
    async def later(awaited: Awaitable[Reply]) -> Answer:
        return read(await awaited)

    return read(reply) if isinstance(reply, Reply) else later(reply)
