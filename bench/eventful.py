"""Runs in which everything happens: short logs that hold every kind of event and of evidence."""

from __future__ import annotations

import asyncio
import typing

from agentdescent import MemoryLog
from agentdescent.driver import Run
from agentdescent.engine.event import (
    Event,
    Interrupted,
    Judged,
)
from agentdescent.job import Options, prepare
from agentdescent.record import Record
from bench import agents
from bench.agents import Script, Sync

INTERRUPT_AT = 150
SEEDS = 500


class Recipe(Record, frozen=True):
    """A run, and the kinds of events and evidence that it must hold; with the first seed from `seed` on that does."""

    seed: int
    cap: int
    workers: int
    refresh_interval: int
    screen: bool
    wanted: tuple[str, ...]


EVENT_KINDS = tuple(kind.__name__ for kind in typing.get_args(Event))
RECIPES = (
    Recipe(220, 12_000, 4, 2, False, (*EVENT_KINDS, "GateEvidence", "SubsetEvidence", "FailureEvidence")),
    Recipe(71, 14_000, 6, 4, True, ("StaleEvidence", "VerifyEvidence", "Committed", "Stopped")),
)


def record(recipe: Recipe) -> tuple[Event, ...]:
    """The events of a run. Raises RuntimeError when no seed gives one with everything wanted."""
    for seed in range(recipe.seed, recipe.seed + SEEDS):
        events = _recorded(recipe, seed)
        kinds = {type(event).__name__ for event in events}
        kinds |= {type(event.evidence).__name__ for event in events if isinstance(event, Judged)}
        if kinds.issuperset(recipe.wanted):
            return events
    raise RuntimeError(f"no run holds everything wanted: {recipe}")


def _recorded(recipe: Recipe, seed: int) -> tuple[Event, ...]:
    """Interrupted, killed at that moment with calls open, and gone on with."""
    options = Options(
        agent=Sync(Script(seed=seed, constant=False, failing=0.03), lambda tokens: None, blocking=False),
        artifact=agents.START,
        max_tokens=recipe.cap,
        rounds=None,
        seed=seed,
        n_workers=recipe.workers,
        test_share=0.2,
        refresh_interval=recipe.refresh_interval,
        screen=recipe.screen,
        wave_min=4,
        attempts=2,
    )
    job = prepare(agents.tasks(20), agents.Right(), options)
    log = MemoryLog()
    first = Run(job.spec, job.setup, job.tasks, job.ports, log, stop_when=lambda state: state.seq >= INTERRUPT_AT)
    asyncio.run(first.drive())
    events = tuple(log.events())
    end = next(number for number, event in enumerate(events, 1) if isinstance(event, Interrupted))
    log = MemoryLog(events[:end])
    asyncio.run(Run(job.spec, job.setup, job.tasks, job.ports, log).drive())
    return tuple(log.events())
