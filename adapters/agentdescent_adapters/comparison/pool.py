"""Performs planned runs side by side, each in a process that does nothing else meanwhile."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.synchronize import Event as Flag

import msgspec

from agentdescent.experiment.results import ArmResult
from agentdescent_adapters.comparison.running import INTERRUPTED, Planned, perform, unfinished
from agentdescent_adapters.comparison.treatments import ON, RANDOM

TRIES = 3
"""Pools that are begun, when processes die."""
Told = Callable[[ArmResult], None]
_stop: list[Flag] = []


def perform_all(plan: Sequence[Planned], jobs: int, told: Told) -> list[ArmResult]:
    """A row for each, in the order of the plan. `jobs` 1: in this process. Raises KeyboardInterrupt when it is asked to
    stop, once every run in progress has settled."""
    rows: dict[str, ArmResult] = {}

    def keep(planned: Planned, row: ArmResult) -> None:
        rows[planned.run] = row
        told(row)

    if jobs == 1:
        _one_by_one(plan, rows, keep)
    else:
        for _ in range(TRIES):
            left = [planned for planned in plan if planned.run not in rows]
            if not left:
                break
            _side_by_side(left, jobs, rows, keep)
        for planned in plan:
            if planned.run not in rows:
                keep(planned, unfinished(planned, f"its process died, {TRIES} times"))
    return [rows[planned.run] for planned in plan]


Keep = Callable[[Planned, ArmResult], None]


def _one_by_one(plan: Sequence[Planned], rows: dict[str, ArmResult], keep: Keep) -> None:
    for planned in sorted(plan, key=lambda planned: planned.arm == RANDOM):
        row = perform(_at_rate(planned, rows.values()))
        if row.error == INTERRUPTED:
            raise KeyboardInterrupt
        keep(planned, row)


def _side_by_side(plan: Sequence[Planned], jobs: int, rows: dict[str, ArmResult], keep: Keep) -> None:
    """Until all have a row, or a process died."""
    context = get_context("spawn")  # a fork would take threads, locks and handlers along
    stop = context.Event()
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(stop,))
    try:
        running: dict[Future[ArmResult], Planned] = {}
        left, awaited = list(plan), {planned.seed for planned in plan if planned.arm == ON}
        while left or running:
            ready, left = _parted(left, awaited)
            with _deaf():
                running |= {pool.submit(_perform, _at_rate(planned, rows.values())): planned for planned in ready}
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                planned = running.pop(future)
                keep(planned, future.result())
                awaited -= {planned.seed} if planned.arm == ON else set()
    except BrokenProcessPool:
        pass
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _deaf() -> Iterator[None]:
    """Ctrl-C waits until it is over; a process begun within does not hear it, also before it can say so itself."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _parted(plan: Sequence[Planned], awaited: set[int]) -> tuple[list[Planned], list[Planned]]:
    """What can begin, and what waits for the rate of the allocator."""
    ready, later = list[Planned](), list[Planned]()
    for planned in plan:
        (later if planned.arm == RANDOM and planned.seed in awaited else ready).append(planned)
    return ready, later


def _at_rate(planned: Planned, rows: Iterable[ArmResult]) -> Planned:
    """With the rate of skips of the allocator, where it was measured."""
    if planned.arm != RANDOM:
        return planned
    on = next((row for row in rows if row.arm == ON and row.seed == planned.seed and row.scored), None)
    rate = None if on is None else on.skipped / on.consulted if on.consulted else 0.0
    return msgspec.structs.replace(planned, rate=rate)


# --- in a process of the pool -----------------------------------------------------------------------------------------


def _begin(stop: Flag) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells everyone; the first process tells when to stop
    _stop.append(stop)


def _perform(planned: Planned) -> ArmResult:
    return perform(planned, _stop[0].is_set)
