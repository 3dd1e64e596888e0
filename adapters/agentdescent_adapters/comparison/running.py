"""One planned run in a directory of its own: begun, gone on with, or found finished; then measured from its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from agentdescent.arms import reported_tokens
from agentdescent.blocking import Cancellation, run_blocking
from agentdescent.errors import RunError
from agentdescent.evolution import work
from agentdescent.experiment.curves import curve
from agentdescent.experiment.results import ArmResult
from agentdescent.history.outcomes import choice_of
from agentdescent.history.summary import Spend, spend
from agentdescent.job import Options
from agentdescent.own import replay
from agentdescent.record import replace
from agentdescent.result import EvolutionResult
from agentdescent_adapters.comparison.treatments import Treatment, options_of
from agentdescent_adapters.comparison.workloads import Caps, Prepared, Workload
from agentdescent_adapters.disk import DiskLog, read_events
from agentdescent_adapters.disk.layout import EVENTS, has_bytes
from agentdescent_adapters.disk.log import Fsync

INTERRUPTED = "interrupted"
_ASKED_TO_STOP = ("cancelled", "stop_when", "max_seconds")


class Planned(msgspec.Struct, frozen=True):
    """A run that is to have a row. `rate`: of skips, for the arm `random`."""

    arm: str
    seed: int
    workload: Workload
    treatment: Treatment
    caps: Caps
    run: str
    rate: float | None = None


def prepared(planned: Planned) -> Prepared:
    treatment = options_of(planned.arm, planned.treatment, planned.seed, planned.rate)
    return planned.workload.prepare(planned.seed, planned.caps, treatment)


def perform(planned: Planned, stop: Callable[[], bool] = lambda: False) -> ArmResult:
    """Its row, whatever happens. One that ended with an error, or was interrupted, goes on; one that is finished is
    only measured. `stop` is asked while it runs."""
    row = ArmResult(planned.arm, planned.seed, run=planned.run)
    try:
        made = prepared(planned)
    except Exception as error:  # the workload is code we do not know: what it raises is why there is no run
        return replace(row, error=f"build: {_said(error)}", tokens=_spent(planned.run))
    try:
        result = _executed(planned, made, stop)
    except Exception as error:  # as above: and what had been spent is in the log
        return replace(_counted(row, planned.run), error=f"run: {_said(error)}")
    row = _counted(_used(row, result.spend), planned.run)
    row = replace(row, stop_reason=result.stop_reason, digest=result.digest)
    if result.stop_reason in _ASKED_TO_STOP:
        return replace(row, error=INTERRUPTED)
    if result.error:
        return replace(row, error=f"run: {result.error}")
    try:
        return scored(row, planned, made, result)
    except Exception as error:  # as above
        return replace(row, error=f"score: {_said(error)}")


def _executed(planned: Planned, made: Prepared, stop: Callable[[], bool]) -> EvolutionResult:
    root = Path(planned.run)
    fsync: Fsync = "interval" if made.job.ports.repeat == "free" else "always"
    begun = has_bytes(str(root / EVENTS))
    root.parent.mkdir(parents=True, exist_ok=True)
    with DiskLog.open(root, fsync=fsync) if begun else DiskLog.create(root, fsync=fsync, texts=made.texts) as log:

        async def make(cancellation: Cancellation) -> EvolutionResult:
            options: Options = {**made.options, "log": log, "cancellation": cancellation}
            options["stop_when"] = lambda state: stop()
            return await work(made.job, options)

        try:
            return run_blocking(make)
        except RunError as error:
            if isinstance(error.result, EvolutionResult):
                return error.result
            raise


def scored(row: ArmResult, planned: Planned, made: Prepared, result: EvolutionResult) -> ArmResult:
    """With its quality, and how it got there. Raises what the scoring raises."""
    steps = curve(read_events(planned.run), made.quality)
    if made.quality is not None:
        start = steps[0][1] if steps else None
        return replace(row, quality=made.quality(result.rendered), base=start, curve=steps)
    if result.test_final is None:
        raise ValueError("the test part could not be scored")
    return replace(row, quality=result.test_final, base=result.test_base, curve=steps)


def _used(row: ArmResult, used: Spend) -> ArmResult:
    return replace(row, rollouts=used.total.rollouts, calls=used.total.calls, tokens=reported_tokens(used))


def _counted(row: ArmResult, run: str) -> ArmResult:
    """With what its allocator did, and where it is not known yet, what was spent; as far as the log can be read."""
    try:
        events = list(read_events(run))
        if row.tokens is None and events:
            row = _used(row, spend(replay(events, check=False).state))
    except Exception:  # it may be why the run failed, which its error says
        return row
    reasons = Counter(choice.reason for event in events if (choice := choice_of(event)) is not None)
    own = reasons.total() - reasons["clock"] - reasons["not-tight"]
    return replace(row, consulted=own, skipped=reasons["skip"], counterfactual=reasons["counterfactual"])


def _spent(run: str) -> int | None:
    return _counted(ArmResult(""), run).tokens


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def unfinished(planned: Planned, why: str) -> ArmResult:
    """The row of a run whose process is gone."""
    return replace(_counted(ArmResult(planned.arm, planned.seed, run=planned.run), planned.run), error=f"run: {why}")
