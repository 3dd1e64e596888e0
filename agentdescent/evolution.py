"""`evolve`: the whole job in one call, and the same as a coroutine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from agentdescent.blocking import Cancellation, run_blocking
from agentdescent.driver import DEADLINE, Run
from agentdescent.engine.event import Event
from agentdescent.engine.state import State
from agentdescent.errors import RunError
from agentdescent.history.memory import MemoryLog
from agentdescent.job import Job, Options, prepare
from agentdescent.ports import Task
from agentdescent.result import EvolutionResult, Watcher, result_of


async def async_evolve(
    tasks: Sequence[Task | Mapping[str, Any]], reward: Callable[..., Any], **options: Unpack[Options]
) -> EvolutionResult:
    """Evolve a text artifact so that an agent using it scores higher on `tasks`, within every limit given.

    `reward(task, output)` is a number in [0, 1], higher is better. With a `log` that holds a run already, that run
    goes on where it ended. Raises UsageError before anything is spent, RunError (with `result`) when the run ended
    with an error, OSError when the log cannot be written, CorruptLog when it was damaged.
    """
    job = prepare(tasks, reward, options)
    return await work(job, options)


def evolve(
    tasks: Sequence[Task | Mapping[str, Any]], reward: Callable[..., Any], **options: Unpack[Options]
) -> EvolutionResult:
    """`async_evolve`, run to its end. Ctrl-C once settles what is open and returns; twice stops at once."""
    job = prepare(tasks, reward, options)

    async def make(cancellation: Cancellation) -> EvolutionResult:
        return await work(job, {"cancellation": cancellation, **options})

    return run_blocking(make)


async def work(job: Job, options: Options) -> EvolutionResult:
    """Run a prepared job. Only the options of the shell are read."""
    log = options.get("log") or MemoryLog()
    watcher = Watcher(options.get("on_round"))
    told = options.get("recovered")

    def recovered(event: Event, state: State) -> None:
        watcher.fold(event, state)
        if told is not None:
            told(event, state)

    run = Run(
        job.spec,
        job.setup,
        job.tasks,
        job.ports,
        log,
        max_concurrency=options.get("max_concurrency"),
        deadline=options.get("deadline", DEADLINE),
        executor=options.get("executor"),
        observers=(watcher, *options.get("observers", ())),
        recovered=recovered,
        stop_when=options.get("stop_when"),
        cancellation=options.get("cancellation"),
        allocator=job.allocator,
    )
    state = await run.drive()
    result = result_of(state, log, watcher, job.warnings)
    if result.error:
        raise RunError(result.error, result)
    return result
