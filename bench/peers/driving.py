"""What the drivers of all peers share: a plan on the command line, one JSON line on stdout. Standard library only."""

from __future__ import annotations

import importlib
import json
import resource
import sys
import warnings
from collections.abc import Callable
from importlib import metadata
from typing import NamedTuple

from bench.peers.world import World


class Plan(NamedTuple):
    """One process of one run. `directory`: of the peer's own files, empty at the first process of a run and as it was
    left at the next. `bills`: the file of calls, outside of it. `variant`: "" for the peer's defaults."""

    seed: int
    cap: int
    directory: str
    bills: str
    variant: str = ""
    kill_after: int | None = None


Search = Callable[[Plan, World], str]
"""Spend the cap of the plan in the world, and return the text that the peer found best."""


def drive(search: Search, *packages: str) -> None:
    """Run the plan given as the one argument. `packages`: that the peer is made of, by the names that they are imported
    by: they are, before anything is measured, and their versions are told."""
    for name in packages:
        importlib.import_module(name)
    print(json.dumps(outcome(search, Plan(**json.loads(sys.argv[1])), *packages)))


def outcome(search: Search, plan: Plan, *packages: str) -> dict[str, object]:
    world = World(plan.seed, plan.bills, plan.kill_after)
    with warnings.catch_warnings(action="ignore"):  # that a run ends at its cap is what was asked for
        before = _cpu()
        best = search(plan, world)
        used = _cpu() - before
    world.show(best)
    return {
        "candidate": best,
        "quality": world.quality(best),
        "curve": world.curve,
        "calls": world.calls,
        "tokens": world.tokens,
        "engine_seconds": used - world.seconds,
        "versions": {name: metadata.version(name) for name in packages},
    }


def _cpu() -> float:
    """Seconds of this process and of those that it waited for."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, whose))
