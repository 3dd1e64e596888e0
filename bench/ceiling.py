"""Not one token over, and almost none left: what a token cap is worth, counted outside.

Scripted agents under a strict tariff (a rollout of the start is at most 120 tokens, a proposal 300) run until nothing
fits any more, for 1 to 64 workers, caps from 10,000 to 180,000, costs that are always the worst case, random, or of
calls that fail after they were billed, agents in the loop, in threads and asynchronous, with answers admitted in order
and as they come. Compared: the cap, with the sum that a process outside was billed, call by call, before the call
returned; and what was free when the run decided to end, with the cheapest path of a new proposal to its verdict. Not
free is what was earmarked for testing the head: that is asked once, at the end, and what it then did not use has
nothing left to be spent on.

    python -m bench.ceiling --json      # {"max_over": 0, "max_unspent_in_paths": <1, "cells": ..}
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Literal, TypeAlias, Unpack

from agentdescent import AppendRules, EvolutionResult, MemoryLog, RunError, SingleSlot, Task, evolve
from agentdescent.engine.event import Decided, Event, Stopped
from agentdescent.engine.path import cheapest_path
from agentdescent.engine.spec import Admission
from agentdescent.engine.state import State
from agentdescent.job import Options
from agentdescent.record import Record
from bench import agents, harness
from bench.agents import Async, Script, Sync

Costs: TypeAlias = Literal["constant", "random", "failing"]
Proposals: TypeAlias = Literal["never", "sometimes"]

WORKERS = (1, 4, 16, 64)
CAPS = (10_000, 30_000, 90_000, 180_000)
COSTS: tuple[Costs, ...] = ("constant", "random", "failing")
PROPOSALS: tuple[Proposals, ...] = ("never", "sometimes")
AGENTS: tuple[tuple[agents.Mode, Admission], ...] = (
    ("inline", "ordered"),
    ("thread", "ordered"),
    ("async", "ordered"),
    ("async", "arrival"),
)
TASKS = 40
FAILING = 0.015


class Cell(Record, frozen=True):
    """`proposals`: how often they are accepted. With `sometimes` the artifact grows, and with it what a call costs, and
    a fifth of the tasks are the test part; with `never` every rollout is at most 120 tokens, every proposal 300."""

    workers: int
    cap: int
    costs: Costs
    proposals: Proposals
    mode: agents.Mode
    admission: Admission


class Measured(Record, frozen=True):
    """`over`, `over_log` in tokens. In cheapest paths to a verdict, `unspent`: what was free when the run decided to
    end; `left`: what was not spent after all, the earmark of the test included."""

    over: int
    over_log: int
    unspent: float
    left: float
    stop_reason: str
    commits: int


class _End:
    """Observes what is free when the end is decided: at the first call of the closing test, else at Stopped."""

    def __init__(self) -> None:
        self.unspent: float | None = None

    def __call__(self, event: Event, state: State) -> None:
        closing = isinstance(event, Decided) and event.closing is not None
        if self.unspent is None and (closing or isinstance(event, Stopped)):
            governor = state.governor
            claimed = governor.spent.tokens + governor.due.tokens + governor.held.tokens
            self.unspent = ((governor.caps.tokens or 0) - claimed) / cheapest_path(state).tokens


def cells(workers: Iterable[int], caps: Iterable[int]) -> Iterator[Cell]:
    for count, cap, costs, proposals, (mode, admission) in itertools.product(workers, caps, COSTS, PROPOSALS, AGENTS):
        yield Cell(count, cap, costs, proposals, mode, admission)


def _ended(tasks: list[Task], **options: Unpack[Options]) -> EvolutionResult:
    """A run, however it ended: an error is a stop reason that `main` does not accept."""
    try:
        return evolve(tasks, agents.Right(), **options)
    except RunError as error:
        if not isinstance(error.result, EvolutionResult):
            raise
        return error.result


def measure(cell: Cell, seed: int, counter: harness.Counter) -> Measured:
    never = cell.proposals == "never"
    account = f"ceiling-{seed}"
    script = Script(
        seed=seed,
        slot=never,
        constant=cell.costs == "constant",
        failing=FAILING if cell.costs == "failing" else 0.0,
    )
    meter = partial(counter.bill, account)
    asynchronous = cell.mode == "async"
    agent = Async(script, meter, latency=seed) if asynchronous else Sync(script, meter, blocking=cell.mode == "thread")
    end = _End()
    result = _ended(
        agents.tasks(TASKS),
        agent=agent,
        strategy=SingleSlot() if never else AppendRules(),
        artifact="plan 0000" if never else (),
        max_tokens=cell.cap,
        rounds=None,
        n_workers=cell.workers,
        test_share=0.0 if never else 0.2,
        seed=seed,
        admission=cell.admission,
        log=MemoryLog(keep=False),
        observers=(end,),
    )
    outside, spent = counter.take(account).tokens, result.spend.total.tokens
    return Measured(
        over=outside - cell.cap,
        over_log=outside - spent,
        unspent=math.inf if end.unspent is None else end.unspent,
        left=(cell.cap - spent) / cheapest_path(result.state).tokens,
        stop_reason=result.stop_reason,
        commits=result.version,
    )


def main() -> int:
    parser = harness.options(__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=list(WORKERS), metavar="N")
    parser.add_argument("--caps", type=int, nargs="+", default=list(CAPS), metavar="TOKENS")
    given = parser.parse_args()
    began, done = time.monotonic(), list[tuple[Cell, Measured]]()
    with harness.Counter() as counter:
        for seed, cell in enumerate(cells(given.workers, given.caps)):
            measured = measure(cell, seed, counter)
            done.append((cell, measured))
            if measured.stop_reason != "max_tokens":
                harness.progress(f"{cell} ended by {measured.stop_reason}")
            if seed % 24 == 23:
                harness.progress(f"{seed + 1} cells, {time.monotonic() - began:.0f} s")
    result = {
        "max_over": max(0, *(measured.over for _, measured in done)),
        "max_unspent_in_paths": round(max(measured.unspent for _, measured in done), 4),
        "cells": len(done),
        "max_left_in_paths": round(max(measured.left for _, measured in done), 4),
        "max_over_log": max(0, *(measured.over_log for _, measured in done)),
        "not_ended_by_cap": sum(measured.stop_reason != "max_tokens" for _, measured in done),
        "commits": sum(measured.commits for _, measured in done),
        "seconds": round(time.monotonic() - began, 1),
    }
    rows = [_row(done, workers, cap) for workers in given.workers for cap in given.caps]
    met = not (result["max_over"] or result["max_over_log"] or result["not_ended_by_cap"])
    return harness.finish("ceiling", given, result, met=met and result["max_unspent_in_paths"] < 1, rows=rows)


def _row(done: Iterable[tuple[Cell, Measured]], workers: int, cap: int) -> dict[str, object]:
    """The worst of the cells with so many workers and this cap. Negative: under the cap."""
    chosen = [measured for cell, measured in done if (cell.workers, cell.cap) == (workers, cap)]
    return {
        "workers": workers,
        "cap": cap,
        "cells": len(chosen),
        "max_over": max(measured.over for measured in chosen),
        "max_unspent_in_paths": round(max(measured.unspent for measured in chosen), 4),
        "commits": sum(measured.commits for measured in chosen),
    }


if __name__ == "__main__":
    sys.exit(main())
