"""What the agents of all worlds share: what a call costs and how long it takes, that it may fail or hang, and a count.

Everything is a function of (seed, artifact, task), and of the sample number for a proposal; a failure or a hang also of
how often the same was asked before.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal, NoReturn, TypeAlias

from agentdescent.artifact.diff import digest
from agentdescent.budget.tariff import Rate, Tariff
from agentdescent.budget.usage import Usage
from agentdescent.engine.draw import seeded
from agentdescent.ports import Answer, CallFailed, Repeat, Task

MILLION = 1_000_000
MEDIAN_TOKENS = 1800
SIGMA_TOKENS = 0.4
PARETO_TOKENS, PARETO_SHAPE = 700, 1.5
MOST_TOKENS = 10_000
PROPOSAL_COSTS = 1.4
_SMALLEST = 2.0**-53

Purpose: TypeAlias = Literal["solve", "propose"]
Latency: TypeAlias = Callable[[str, int], float]


def number(*parts: object) -> int:
    """A key for draws that is a function of its parts."""
    return int(digest("/".join(map(str, parts)).encode())[:15], 16)


async def _never() -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets this event")


class WorldAgent(ABC):
    """An agent whose answers are a script. A world gives `true_scores`, `output` and `reply`.

    A call costs lognormal(ln 1800, 0.4) tokens, `heavy`: Pareto(700, 1.5), at most 10,000; a proposal 1.4 times that.
    Shares `failing` and `hanging` of the calls fail, charged, and hang for ever. With `latency(purpose, key) ->
    seconds` a call takes that long on the running loop. `calls` counts what was begun.

    `answer` and `propose_now` are the same calls without a loop: what hangs raises TimeoutError there.
    """

    repeat: Repeat = "free"
    tariff = Tariff(
        Rate(strict=True, bytes_per_token=64, ceiling=MOST_TOKENS),
        Rate(strict=True, bytes_per_token=64, ceiling=round(MOST_TOKENS * PROPOSAL_COSTS)),
    )

    def __init__(
        self,
        name: str,
        seed: int,
        heldout: Sequence[Task],
        latency: Latency | None = None,
        *,
        heavy: bool = False,
        failing: float = 0.0,
        hanging: float = 0.0,
    ) -> None:
        self.name = name
        self.heldout = tuple(heldout)
        self.calls = 0
        self._draw = seeded(seed)
        self._latency = latency
        self._heavy = heavy
        self._hangs, self._fails = hanging, hanging + failing
        self._position = {task.id: position for position, task in enumerate(self.heldout)}
        self._asked: dict[int, int] = {}

    # --- the world ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def true_scores(self, rendered: str) -> tuple[int, ...]:
        """What an artifact scores on the held-out tasks, in their order and without noise, in millionths."""

    def quality(self, rendered: str) -> float:
        """The score in which the world states its targets: the true mean over the held-out tasks."""
        return sum(self.true_scores(rendered)) / (MILLION * len(self.heldout))

    @abstractmethod
    def output(self, rendered: str, task: Task) -> str:
        """What the agent says to a task."""

    @abstractmethod
    def reply(self, rendered: str, task: Task, sample: int) -> str | None:
        """What it proposes when it has failed one; None: nothing."""

    # --- what calls cost ----------------------------------------------------------------------------------------------

    def tokens(self, purpose: Purpose, key: int) -> int:
        """What a call costs; at most 10,000, a proposal 14,000."""
        u = max(self._draw(f"{purpose}-u", key), _SMALLEST)
        if self._heavy:
            used = PARETO_TOKENS * math.pow(u, -1 / PARETO_SHAPE)
        else:
            normal = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * self._draw(f"{purpose}-v", key))
            used = MEDIAN_TOKENS * math.exp(SIGMA_TOKENS * normal)
        capped = min(MOST_TOKENS, round(min(used, float(MOST_TOKENS))))
        return capped if purpose == "solve" else round(capped * PROPOSAL_COSTS)

    def solve_tokens(self, rendered: str, task: Task) -> int:
        return self.tokens("solve", number(rendered, task.id))

    def propose_tokens(self, rendered: str, task: Task, sample: int) -> int:
        return self.tokens("propose", number(rendered, task.id, sample))

    # --- the ports ----------------------------------------------------------------------------------------------------

    def answer(self, rendered: str, task: Task) -> Answer:
        key = number(rendered, task.id)
        usage = Usage(prompt=self.tokens("solve", key))
        self._begin("solve", key, usage)
        return Answer(self.output(rendered, task), usage)

    def propose_now(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        key = number(rendered, task.id, sample)
        usage = Usage(prompt=self.tokens("propose", key))
        self._begin("propose", key, usage)
        return Answer(self.reply(rendered, task, sample), usage)

    async def solve(self, rendered: str, task: Task) -> Answer:
        await self._take_time("solve", number(rendered, task.id))
        try:
            return self.answer(rendered, task)
        except TimeoutError:
            return await _never()

    async def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        await self._take_time("propose", number(rendered, task.id, sample))
        try:
            return self.propose_now(rendered, task, output, score, sample)
        except TimeoutError:
            return await _never()

    async def _take_time(self, purpose: Purpose, key: int) -> None:
        if self._latency is not None:
            await asyncio.sleep(self._latency(purpose, key))

    def _begin(self, purpose: Purpose, key: int, usage: Usage) -> None:
        """Count the call; raise where it fails or hangs, by another draw each time that the same is asked."""
        self.calls += 1
        if not self._fails:
            return
        asked = self._asked[key] = self._asked.get(key, 0) + 1
        u = self._draw(f"{purpose}-fault", number(key, asked))
        if u < self._hangs:
            raise TimeoutError("scripted")
        if u < self._fails:
            raise CallFailed("provider", "scripted", usage)


class Immediate:
    """A WorldAgent whose calls return at once: for a loop of `decide` and `apply` without an event loop."""

    blocking = False
    repeat: Repeat = "free"

    def __init__(self, agent: WorldAgent) -> None:
        self.agent = agent
        self.name = agent.name
        self.tariff = agent.tariff

    def solve(self, rendered: str, task: Task) -> Answer:
        return self.agent.answer(rendered, task)

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        return self.agent.propose_now(rendered, task, output, score, sample)


class Stated:
    """The scorer of worlds whose outputs are their score in millionths."""

    name = "stated"
    blocking = False
    bills = False

    def __call__(self, task: Task, output: str) -> float:
        return int(output) / MILLION


stated = Stated()
