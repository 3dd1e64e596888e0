"""Language models without one: they answer by a script, and bill what a provider at its worst would."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agentdescent import Task
from agentdescent.budget.tariff import Prices
from agentdescent.budget.usage import Usage
from agentdescent.ports import Repeat
from agentdescent_adapters.providers.model import Finish, Reply, Request, Terms

TASKS = [
    Task(f"t{i}", f"messäge {i} about topic{i % 5} 北京 {{output}}", {"label": f"topic{i % 5}", "cluster": f"c{i % 5}"})
    for i in range(30)
]
ASKED = "Expected answer"
"""Only the default templates of proposals have it."""


class Right:
    """Whether the output is the label, at once and for nothing."""

    name, blocking, bills = "right", False, False

    def __call__(self, task: Task, output: str) -> float:
        return float(output == task.meta["label"])


def student(request: Request) -> str:
    """Knows the topics that it was told to know, and proposes to know the one it was asked about."""
    topic = [word for word in request.user.split() if word.startswith("topic")][-1]
    if ASKED in request.user:
        return f"add: know {topic}"
    return topic if f"know {topic}" in request.system else "dunno"


class Scripted:
    """Takes a moment, and bills every byte and its whole ceiling. `finish`: of every reply."""

    def __init__(
        self,
        answer: Callable[[Request], str] = student,
        *,
        ceiling: int = 50,
        overhead: int = 7,
        repeat: Repeat = "charged",
        name: str = "scripted",
        finish: Finish = "stop",
        prices: Prices | None = None,
    ) -> None:
        self.name = name
        self.terms = Terms(ceiling, overhead, prices=prices)
        self.repeat = repeat
        self.asked: list[Request] = []
        self.billed = 0
        self._answer = answer
        self._finish = finish

    async def complete(self, request: Request) -> Reply:
        await asyncio.sleep(0)
        return self.reply(request)

    def reply(self, request: Request) -> Reply:
        self.asked.append(request)
        text = self._answer(request)
        prompt = self.terms.overhead + len((request.system + request.user).encode()) + len(request.schema or b"")
        usage = Usage(prompt=prompt, completion=request.ceiling or self.terms.ceiling)
        self.billed += usage.tokens
        return Reply(text, self._finish, usage)


class BlockingScripted(Scripted):
    """The same, in the thread of the caller."""

    def complete_blocking(self, request: Request) -> Reply:
        return self.reply(request)
