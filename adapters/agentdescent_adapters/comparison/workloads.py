"""What the arms run: a world by name, or the job of a config. The same for every arm, but for the allocator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec

from agentdescent.budget.tariff import Rate, Tariff
from agentdescent.budget.usage import Usage
from agentdescent.errors import UsageError
from agentdescent.job import Job, Options, prepare
from agentdescent.ports import Answer, CallFailed, Task
from agentdescent.search.sampling import Stakes
from agentdescent_adapters.command.config import RunConfig
from agentdescent_adapters.command.job import make_job
from agentdescent_adapters.disk.texts import Texts
from agentdescent_adapters.worlds.calls import PROPOSAL_COSTS, Immediate, WorldAgent
from agentdescent_adapters.worlds.suite import NAMES, setting

TEST_SHARE = 0.25
"""Of the tasks of a config that sets no part aside to measure with."""


MOST_TOKENS = 4_000
"""That a call of a world costs in a comparison: 2 % of them would cost more, and with the 10,000 of the worlds
themselves the worst case of one gate is more than the whole budget that an allocator is to be tried at."""


class Bounded(Immediate):
    """A world whose calls cost MOST_TOKENS at most, a proposal PROPOSAL_COSTS times that."""

    tariff = Tariff(
        Rate(strict=True, bytes_per_token=64, ceiling=MOST_TOKENS),
        Rate(strict=True, bytes_per_token=64, ceiling=round(MOST_TOKENS * PROPOSAL_COSTS)),
    )

    def __init__(self, agent: WorldAgent) -> None:
        self.agent = agent
        self.name = f"{agent.name}, at most {MOST_TOKENS} tokens a call"

    def solve(self, rendered: str, task: Task) -> Answer:
        return _bounded(lambda: self.agent.answer(rendered, task), self.tariff.solve.ceiling)

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        ask = self.agent.propose_now
        return _bounded(lambda: ask(rendered, task, output, score, sample), self.tariff.propose.ceiling)


def _bounded(call: Callable[[], Answer], most: int) -> Answer:
    def less(usage: Usage | None) -> Usage | None:
        return usage and msgspec.structs.replace(usage, prompt=min(most, usage.prompt))

    try:
        answer = call()
    except CallFailed as error:
        raise CallFailed(error.kind, str(error), less(error.usage)) from None
    return Answer(answer.value, less(answer.usage))


class Prepared(msgspec.Struct, frozen=True):
    """A checked job. `quality`: of a rendered artifact, where the truth is known; None: its test part says it. `texts`:
    what the log keeps of outputs."""

    job: Job
    options: Options
    quality: Callable[[str], float] | None = None
    texts: Texts = "keep"


class Caps(msgspec.Struct, frozen=True):
    """What every run may use at most."""

    tokens: int
    rollouts: int | None = None


class Workload(Protocol):
    """Makes the job of a run: the same for every arm, but for `treatment`, the options by which the arm differs."""

    def prepare(self, seed: int, caps: Caps, treatment: Options) -> Prepared: ...


class WorldWorkload(msgspec.Struct, frozen=True, tag="world"):
    """A world with known truth, at the seed of the run. Train tasks are sampled where work remains, as the worlds say
    that they come."""

    world: str
    thrifty: bool = False

    @property
    def name(self) -> str:
        return self.world

    def prepare(self, seed: int, caps: Caps, treatment: Options) -> Prepared:
        made = setting(self.world, seed)
        options: Options = {
            **made.options,
            "n_workers": 1,
            "thrifty": self.thrifty,
            "sampling": Stakes(),
            **treatment,
            "seed": seed,
            "agent": Bounded(made.agent),
            "max_tokens": caps.tokens,
            "max_rollouts": caps.rollouts,
            "rounds": None,
        }
        return Prepared(prepare(made.tasks, made.scorer, options), options, made.agent.quality)


class ConfigWorkload(msgspec.Struct, frozen=True, tag="config"):
    """The job of a config. Its allocator, seed, `max_tokens` and `max_rollouts` give way to those of the comparison;
    what else limits it limits every arm."""

    config: RunConfig
    name: str

    def prepare(self, seed: int, caps: Caps, treatment: Options) -> Prepared:
        config = msgspec.structs.replace(
            self.config,
            seed=seed,
            allocator="off",
            max_tokens=caps.tokens,
            max_rollouts=caps.rollouts,
            test_share=self.config.test_share or TEST_SHARE,
        )
        job, options = make_job(config)
        given: Options = {**options, **treatment}
        return Prepared(prepare(job.tasks, job.ports.reward.call, given), given, texts=self.config.texts)


Stated: TypeAlias = WorldWorkload | ConfigWorkload
"""Those that can be written down, and read back when a comparison goes on."""


def world_named(name: str, *, thrifty: bool) -> WorldWorkload:
    if name not in NAMES:
        raise UsageError(f"world {name!r}: there is no such world; there are {', '.join(NAMES)}")
    return WorldWorkload(name, thrifty)
