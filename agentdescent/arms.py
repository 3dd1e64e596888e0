"""Ways to spend one budget on one workload, each run through `evolve` and reported in the same units.

results = [arm(workload, Budget(tokens=300_000), seed=seed) for seed in range(10) for arm in (serial, merge_of_n)]
print(compare(results, fixed="tokens").to_markdown())
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from agentdescent.artifact.strategy import AppendRules, Strategy
from agentdescent.engine.draw import seeded
from agentdescent.engine.split import make_split
from agentdescent.errors import RunError, UsageError
from agentdescent.evolution import evolve
from agentdescent.experiment.budget import Budget
from agentdescent.experiment.results import ArmResult
from agentdescent.history.summary import Spend
from agentdescent.job import Options, prepare
from agentdescent.ports import Task
from agentdescent.result import EvolutionResult
from agentdescent.wiring import name_of

_OF_ONE_RUN = ("log", "seed", "max_tokens", "max_calls", "max_rollouts", "rounds", "n_workers")


class Workload(msgspec.Struct, frozen=True):
    """What every arm runs. `options`: of `evolve`, the same for all; what an arm sets itself is not among them."""

    tasks: Sequence[Task | Mapping[str, Any]]
    reward: Callable[..., Any]
    agent: object
    strategy: Strategy = AppendRules()
    options: Options = Options()


def serial(workload: Workload, budget: Budget, *, seed: int = 0, name: str = "serial") -> ArmResult:
    """One worker spends all of it."""
    return _reported(name, seed, [_run(workload, _options(workload, budget, seed, 1))])


def merge_of_n(workload: Workload, budget: Budget, n: int = 4, *, seed: int = 0, name: str = "") -> ArmResult:
    """`n` workers spend it on one artifact, into which what they find is merged."""
    return _reported(name or f"merge of {n}", seed, [_run(workload, _options(workload, budget, seed, n))])


def best_of_n_fork(workload: Workload, budget: Budget, n: int = 4, *, seed: int = 0, name: str = "") -> ArmResult:
    """`n` runs that know nothing of one another, each with its share of it; the one with the highest held-out reward,
    the first of equals, is the result.

    All have the held-out and test tasks of the arm's seed. Each has a seed of its own, by which all its draws and the
    order of its train tasks differ, and sample numbers of its own: an agent that is a function of its arguments, asked
    twice about one failure, proposes two things, where its `propose` takes `sample`.
    """
    draw = seeded(seed)
    seeds = [int(draw("fork", i) * 2**53) for i in range(n)]
    shares = budget.split(n)
    forks = [_forked(workload, seed, own, i, n) for i, own in enumerate(seeds)]
    given = [_options(fork, share, own, 1) for fork, share, own in zip(forks, shares, seeds, strict=True)]
    for fork, options in zip(forks, given, strict=True):
        prepare(fork.tasks, fork.reward, options)  # what the last share cannot pay is said before the first is spent
    made = [_run(fork, options) for fork, options in zip(forks, given, strict=True)]
    return _reported(name or f"best of {n} forks", seed, made)


def _options(workload: Workload, budget: Budget, seed: int, n_workers: int) -> Options:
    taken = next((name for name in _OF_ONE_RUN if name in workload.options), None)
    if taken is not None:
        raise UsageError(f"{taken} is among the options of the workload: it is for the arm, or its budget, to say")
    options: Options = {
        "strategy": workload.strategy,
        "agent": workload.agent,
        **workload.options,
        "seed": seed,
        "n_workers": n_workers,
        "max_tokens": budget.tokens,
        "max_calls": budget.calls,
        "max_rollouts": budget.rollouts,
    }
    if budget != Budget():
        options["rounds"] = None
    return options


def _run(workload: Workload, options: Options) -> EvolutionResult | str:
    """The result, of a run that failed what there is of it; in words why there is none."""
    try:
        return evolve(workload.tasks, workload.reward, **options)
    except RunError as error:
        return error.result if isinstance(error.result, EvolutionResult) else str(error)


def _reported(name: str, seed: int, runs: Sequence[EvolutionResult | str]) -> ArmResult:
    made = [run for run in runs if isinstance(run, EvolutionResult)]
    errors = [run if isinstance(run, str) else run.error for run in runs]
    chosen = max(made, key=lambda run: -1.0 if run.final is None else run.final, default=None)
    totals = [run.spend.total for run in made]
    tokens = [reported_tokens(run.spend) for run in made]
    known = [value for value in tokens if value is not None]
    whole = len(made) == len(runs)
    return ArmResult(
        name,
        seed,
        quality=None if chosen is None else _quality(chosen),
        base=None if chosen is None else chosen.base,
        rollouts=sum(total.rollouts for total in totals) if whole else None,
        calls=sum(total.calls for total in totals) if whole else None,
        tokens=sum(known) if whole and len(known) == len(runs) else None,
        error="; ".join(error for error in errors if error),
        stop_reason="" if chosen is None else chosen.stop_reason,
        digest="" if chosen is None else chosen.digest,
    )


def _quality(run: EvolutionResult) -> float | None:
    """On the test part where there is one; else on the held-out tasks, by which it was selected."""
    return run.final if not run.state.split.test else run.test_final


def reported_tokens(spend: Spend) -> int | None:
    """None where no call reported any: then there are none, or only reservations."""
    reported = spend.total.tokens - spend.assumed
    return spend.total.tokens if reported > 0 or spend.total.calls == 0 else None


# --- forks ------------------------------------------------------------------------------------------------------------


def _forked(workload: Workload, seed: int, own: int, number: int, forks: int) -> Workload:
    agent = _Fork(workload.agent, number, forks)
    options: Options = {"strategy": workload.strategy, "agent": agent, **workload.options, "seed": seed}
    job = prepare(workload.tasks, workload.reward, options)
    if not job.spec.shuffle:
        return msgspec.structs.replace(workload, agent=agent)
    split, draw = make_split(job.spec, job.setup, seeded(seed)), seeded(own)
    train = sorted(split.train, key=lambda index: draw("fork-order", index))
    tasks = [job.tasks[index] for index in (*split.test, *split.heldout, *train)]
    return msgspec.structs.replace(workload, agent=agent, tasks=tasks, options={**workload.options, "shuffle": False})


class _Fork:
    """An agent whose samples are numbered apart from those of the other forks."""

    def __init__(self, agent: object, number: int, forks: int) -> None:
        self.name = f"{name_of(agent)}, fork {number + 1} of {forks}"
        self.propose = _shifted(getattr(agent, "propose", None), number, forks)
        self._agent = agent

    def __getattr__(self, name: str) -> object:
        if name == "_agent":  # not set yet, in a copy that is being made
            raise AttributeError(name)
        return getattr(self._agent, name)


class _Shifted:
    def __init__(self, propose: Callable[..., Any], number: int, forks: int) -> None:
        self.__signature__ = inspect.signature(propose)
        self._propose, self._number, self._forks = propose, number, forks

    def __call__(self, rendered: str, task: Task, output: str, score: float, *sample: int, **named: Any) -> Any:
        numbers = (self._forks * one + self._number for one in sample)
        return self._propose(rendered, task, output, score, *numbers, **named)


class _ShiftedAsync(_Shifted):
    async def __call__(self, rendered: str, task: Task, output: str, score: float, *sample: int, **named: Any) -> Any:
        return await super().__call__(rendered, task, output, score, *sample, **named)


def _shifted(propose: object, number: int, forks: int) -> object:
    if not callable(propose):
        return propose
    given = cast("Callable[..., Any]", propose)
    waits = inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(type(given).__call__)
    return (_ShiftedAsync if waits else _Shifted)(given, number, forks)
