"""Run a job in a run directory: with progress, files beside the log, signals, and a report at the end."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from agentdescent.blocking import Cancellation, run_blocking
from agentdescent.budget.governor import Caps
from agentdescent.engine.event import Amended, Started
from agentdescent.errors import RunError, UsageError
from agentdescent.evolution import work
from agentdescent.history import recall
from agentdescent.job import Job, Options
from agentdescent.recovery import Observer
from agentdescent.result import EvolutionResult
from agentdescent_adapters.command import config as configuration
from agentdescent_adapters.command import plan
from agentdescent_adapters.command.config import RunConfig
from agentdescent_adapters.command.job import make_job
from agentdescent_adapters.disk import DiskLog, read_events
from agentdescent_adapters.rules.baseline import keyword_baseline
from agentdescent_adapters.telemetry.files import RunFiles
from agentdescent_adapters.telemetry.progress import Shown, progress_on

FAILED, MISUSED, DIFFERS = 1, 2, 3


class Ended(msgspec.Struct, frozen=True):
    """How a run ended. `code` is the exit code; `baselines`: accuracy on the test part of the most telling word of each
    label, by its precision and by its F1 (the stronger comparison)."""

    result: EvolutionResult
    run: str
    code: int
    baselines: tuple[float, float] | None


def next_run(name: str) -> str:
    """The first of runs/NAME-1, runs/NAME-2, ... that does not exist."""
    number = 1
    while os.path.exists(f"runs/{name}-{number}"):
        number += 1
    return f"runs/{name}-{number}"


def start(config: RunConfig, out: str | None, *, quiet: bool, verbose: bool) -> Ended:
    """A new run. Raises UsageError before anything is spent."""
    job, options = make_job(config)
    run = out or next_run(Path(config.tasks).stem)
    fsync = _fsync(job)
    with DiskLog.create(run, texts=config.texts, fsync=fsync) as log:
        configuration.save(run, config)
        return _execute(job, options, log, run, quiet=quiet, verbose=verbose)


def look_for_modules(run: str) -> None:
    """Where the run was started, if this command started it; else here."""
    path = configuration.load(run).path if os.path.exists(os.path.join(run, configuration.JOB)) else ""
    if path not in sys.path:
        sys.path.insert(0, path)


CAPS = ("max_tokens", "max_cost", "max_calls", "max_rollouts", "max_seconds", "rounds")


def resume(run: str, changes: dict[str, Any], *, quiet: bool, verbose: bool) -> Ended:
    """Go on with a run, perhaps under other caps or elsewhere. Raises UsageError when the job is not what it was."""
    config = configuration.load(run)
    in_force = _caps_in_force(run)
    if in_force is not None:
        config = msgspec.structs.replace(config, **in_force)
    for name, value in changes.items():
        before = getattr(config, name)
        if name in CAPS and before is not None and value < before:
            raise UsageError(f"{name} is {value}, and the run has {before}: a cap can only be raised")
    job, options = make_job(msgspec.structs.replace(config, **changes))
    with DiskLog.open(run, fsync=_fsync(job)) as log:
        for note in log.dropped:
            print(f"note: {note}", file=sys.stderr)
        return _execute(job, options, log, run, quiet=quiet, verbose=verbose)


def _caps_in_force(run: str) -> dict[str, float | int | None] | None:
    """The caps that the log names last, by the names of the flags; None when the run has not begun."""
    caps: Caps | None = None
    for event in read_events(run):
        if isinstance(event, Started):
            caps = event.spec.caps
        elif isinstance(event, Amended):
            caps = event.caps
    return None if caps is None else caps_as_flags(caps)


def caps_as_flags(caps: Caps) -> dict[str, float | int | None]:
    """By the names of the flags, money in dollars."""
    dollars = None if caps.cost is None else caps.cost / 1_000_000_000
    return dict(zip(CAPS, (caps.tokens, dollars, caps.calls, caps.rollouts, caps.seconds, caps.rounds), strict=True))


class StoppedAtOnce(Exception):
    """A second signal came. `code` is the exit code."""

    def __init__(self, number: int) -> None:
        super().__init__("stopped at once; the run can be resumed")
        self.code = 128 + number


def _fsync(job: Job) -> Any:
    return "interval" if job.ports.repeat == "free" else "always"


def _execute(job: Job, options: Options, log: DiskLog, run: str, *, quiet: bool, verbose: bool) -> Ended:
    files = RunFiles(run)
    observers: list[Observer] = [files]
    shown: Shown | None = None
    if verbose:
        from agentdescent_adapters.telemetry.structured import StructuredLines, json_logger

        observers.append(StructuredLines(json_logger()))
    elif not quiet:
        shown = progress_on(sys.stderr)
        observers.append(shown)
    for warning in job.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    seen: list[Cancellation] = []

    async def make(cancellation: Cancellation) -> EvolutionResult:
        seen.append(cancellation)
        return await work(
            job,
            {**options, "log": log, "observers": observers, "recovered": files.recovered, "cancellation": cancellation},
        )

    code = 0
    # A signal that comes when all is settled must not undo it: what is left is to say so.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result = run_blocking(make, signals=(signal.SIGINT, signal.SIGTERM))
    except RunError as error:
        if not isinstance(error.result, EvolutionResult):
            raise
        result, code = error.result, FAILED
    except KeyboardInterrupt:
        raise StoppedAtOnce(seen[0].signal or signal.SIGINT if seen else signal.SIGINT) from None
    finally:
        if shown is not None:
            shown.close()
        if not seen or seen[0].signal is None:
            signal.signal(signal.SIGINT, before)
    if seen[0].signal is not None:
        code = 128 + seen[0].signal
    return Ended(result, run, code, _baselines(job, result))


def _baselines(job: Job, result: EvolutionResult) -> tuple[float, float] | None:
    split = result.state.split
    if not split.test or any("label" not in task.meta for task in job.tasks):
        return None
    train, test = [job.tasks[i] for i in split.train], [job.tasks[i] for i in split.test]
    return keyword_baseline(train, test), keyword_baseline(train, test, "balanced")


def recall_loss(result: EvolutionResult) -> dict[str, Any] | None:
    """What stopping gates by prediction has lost, where it was done: estimate, 95 % interval, and from how many."""
    spec, found = result.state.spec, result.recall
    if not spec.futility and (spec.allocator is None or "finish" not in spec.allocator.stages):
        return None
    return {
        "estimate": recall.loss(found),
        "interval": recall.interval(found),
        "stopped": found.stopped,
        "finished": found.finished,
    }


def summary(ended: Ended) -> dict[str, Any]:
    """What `--json` prints of a run."""
    result = ended.result
    spend, budget, allocator = result.spend, result.budget, result.allocator
    return {
        "base": result.base,
        "final": result.final,
        "test_base": result.test_base,
        "test_final": result.test_final,
        "test_interval": result.test_interval,
        "keyword_baseline": ended.baselines[0] if ended.baselines is not None else None,
        "keyword_baseline_balanced": ended.baselines[1] if ended.baselines is not None else None,
        "spent": spend.total.tokens,
        "estimate": plan.expected(plan.of_run(result.state)),
        "cap": None if budget is None else budget.cap,
        "ceiling": None if budget is None else budget.ceiling,
        "assumed": spend.assumed,
        "stop_reason": result.stop_reason,
        "error": result.error or None,
        "digest": result.digest,
        "rounds": result.rounds,
        "version": result.version,
        "commits": result.commits,
        "by_purpose": {line.purpose: line.tokens for line in spend.by_purpose},
        "degraded": [] if budget is None else budget.degraded,
        "allocator": allocator,
        "recall_loss": recall_loss(result),
        "population": len(result.population) or None,
        "expected_junk": round(result.expected_junk, 3),
        "saved_by_curtailment": {
            "gates": result.saved.gates,
            "calls": result.saved.calls,
            "tokens": result.saved.tokens,
        },
        "run": ended.run,
    }
