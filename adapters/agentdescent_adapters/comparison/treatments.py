"""The arms of a comparison of allocators: off, on, and controls, which say whether it is the allocator that helped."""

from __future__ import annotations

import inspect
from typing import TypeAlias, get_args

import msgspec

from agentdescent.allocation.config import Starts, ValueBudgetAllocator
from agentdescent.allocation.features import AllocatorContext, Features, Stage, vector
from agentdescent.allocation.older import OlderAllocator
from agentdescent.allocation.policies import AllocatorPolicy, Always, Control, Lineage, Randomly, greedy
from agentdescent.errors import UsageError
from agentdescent.job import Options
from agentdescent_adapters.command.economy import make_allocator
from agentdescent_adapters.named import resolve

OFF, ON, RANDOM = "off", "on", "random"
ARMS = {
    OFF: "no allocator: the clock alone gives up optional spends",
    ON: "the allocator",
    "full": "full evaluation: every optional spend, to the end of the budget",
    RANDOM: "skips at the rate of the allocator in the run of the same seed, blind",
    "greedy": "the allocator without exploration (epsilon 0)",
    "lineage": "spends by the record of the candidate's cluster and, at half the weight, of the others",
}


Compared: TypeAlias = ValueBudgetAllocator | AllocatorPolicy | OlderAllocator


class Treatment(msgspec.Struct, frozen=True):
    """What is on in the arm `on`. None: the allocator's own."""

    allocator: str = "value"
    min_observations: int | None = None
    budget_start: float | None = None
    stages: tuple[Stage, ...] | None = None


class Early:
    """A control that is consulted as early as the allocator that it is compared with."""

    def __init__(self, control: Control, budget_start: float) -> None:
        self.control, self.stages, self.budget_start = control, control.stages, budget_start

    def features(self, stage: Stage, context: AllocatorContext) -> Features:
        return self.control.features(stage, context) if isinstance(self.control, Lineage) else vector(stage, context)

    def probability(self, stage: Stage, features: Features) -> float:
        return self.control.probability(stage, features)


def arms_of(treatment: Treatment) -> tuple[str, ...]:
    """Those that can be told apart: an allocator that is not the learning one has no epsilon to take away."""
    learns = isinstance(_allocator(treatment, 0), ValueBudgetAllocator)
    return tuple(arm for arm in ARMS if learns or arm != "greedy")


def options_of(arm: str, treatment: Treatment, seed: int, rate: float | None) -> Options:
    """Of `evolve`, by which this arm differs from `off`. `rate`: the share of skips, for the arm `random`. All draws of
    an allocator are made by the engine, of the run's seed; a class that takes `seed` is given that, too."""
    allocator = _allocator(treatment, seed)
    match arm:
        case "off":
            return {}
        case "on":
            return {"allocator": allocator}
        case "full":
            return {"allocator": _as_early(Always(), treatment, allocator), "soft_floor": 1.0, "hard_floor": 1.0}
        case "random":
            if rate is None:
                raise UsageError(f"the rate of skips is not known: the arm `{ON}` of this seed could not be measured")
            return {"allocator": _as_early(Randomly(1.0 - rate), treatment, allocator)}
        case "greedy" if isinstance(allocator, ValueBudgetAllocator):
            return {"allocator": greedy(allocator)}
        case "lineage":
            return {"allocator": _as_early(Lineage(), treatment, allocator)}
        case _:
            raise UsageError(f"there is no arm {arm!r} with this allocator: there are {', '.join(arms_of(treatment))}")


def _allocator(treatment: Treatment, seed: int) -> Compared:
    name = treatment.allocator
    made = _seeded(name, seed) or make_allocator(name)
    if made is None:
        raise UsageError("allocator 'off' is what the others are compared with: name another one")
    changes = {
        field: value
        for field in ("min_observations", "budget_start", "stages")
        if (value := getattr(treatment, field)) is not None
    }
    if isinstance(made, ValueBudgetAllocator):
        return msgspec.structs.replace(made, **changes)
    if changes:
        raise UsageError(f"{next(iter(changes))} is an option of the allocator `value`, not of {name}: leave it out")
    return made


def _seeded(name: str, seed: int) -> AllocatorPolicy | OlderAllocator | None:
    """An instance of a class of the user's own that takes the seed of the run."""
    if ":" not in name or name.startswith("random:"):
        return None
    found = resolve("allocator", name)
    if not isinstance(found, type) or "seed" not in inspect.signature(found).parameters:
        return None
    made: object = found(seed=seed)
    return made if isinstance(made, AllocatorPolicy | OlderAllocator) else None


def _as_early(control: Control, treatment: Treatment, allocator: object) -> Control | Early:
    """At the stages of the allocator, and consulted as early."""
    stages = getattr(allocator, "stages", get_args(Stage)[:1])
    control = msgspec.structs.replace(control, stages=tuple(stages))
    starts = getattr(allocator, "budget_start", Starts())
    if isinstance(starts, Starts):
        return control
    return Early(control, float(starts))
