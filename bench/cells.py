"""Runs of arms in worlds, on every core: which there are, how each is measured, and who performs them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from types import TracebackType
from typing import NamedTuple

from agentdescent.experiment.curves import tokens_to
from agentdescent.job import Options
from agentdescent_adapters.worlds.clairvoyant import Known, clairvoyant
from agentdescent_adapters.worlds.suite import setting
from bench.trial import Trial, trial

CHUNK = 5
"""Seeds that one process takes at once."""


class Measure(NamedTuple):
    """How a world is measured: up to `cap` tokens, which stand for a target never reached. `targets`: qualities, the
    first of which decides; () where it is the median of what the clock reaches, or in *barren* nothing can be reached
    and the cost of a proposal is what counts. `whole`: runs go on to the cap whatever they reach."""

    cap: int
    targets: tuple[float, ...]
    whole: bool = False


_THREE = (0.70, 0.85, 0.95)
MEASURES = {
    "clusters": Measure(3_000_000, _THREE),
    "noisy": Measure(3_000_000, _THREE, whole=True),
    "drift": Measure(3_000_000, _THREE),
    "jewel": Measure(3_000_000, _THREE),
    "barren": Measure(600_000, (), whole=True),
    "heavy": Measure(3_000_000, _THREE),
    "faulty": Measure(3_000_000, _THREE),
    "k-module": Measure(700_000, (), whole=True),
    "circles": Measure(1_000_000, (), whole=True),
}


def value(world: str, run: Trial | Known, target: float | None) -> float:
    """Tokens to the target, or where there is none, a proposal."""
    if target is None:
        return run.tokens / max(1, run.proposals)
    return float(tokens_to(run.path, target, MEASURES[world].cap))


def _trials(world: str, options: Options, seeds: Sequence[int], until: float | None) -> list[Trial]:
    cap = MEASURES[world].cap
    return [trial(setting(world, seed), {**options, "seed": seed}, cap, until) for seed in seeds]


def _known(world: str, seeds: Sequence[int], until: float) -> list[Known]:
    return [clairvoyant(setting(world, seed), seed, MEASURES[world].cap, until) for seed in seeds]


class Cell(NamedTuple):
    """The runs of an arm in a world, in progress."""

    parts: tuple[Future[list[Trial]], ...]

    def runs(self) -> list[Trial]:
        return [run for part in self.parts for run in part.result()]


class Cells:
    """Processes that perform runs; a context manager."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(max_workers=os.cpu_count())

    def arm(self, world: str, options: Options, seeds: Sequence[int], until: float | None) -> Cell:
        parts = [
            self._pool.submit(_trials, world, options, seeds[at : at + CHUNK], until)
            for at in range(0, len(seeds), CHUNK)
        ]
        return Cell(tuple(parts))

    def clairvoyant(self, world: str, seeds: Sequence[int], until: float) -> Future[list[Known]]:
        return self._pool.submit(_known, world, seeds, until)

    def __enter__(self) -> Cells:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
