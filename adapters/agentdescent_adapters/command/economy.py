"""What a config says of where the budget goes: the allocator, the economic stop, the ceiling of one reply."""

from __future__ import annotations

from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.allocation.older import OlderAllocator
from agentdescent.allocation.policies import AllocatorPolicy, Always, Lineage, Never, Randomly
from agentdescent.budget.call_budget import CallBudget
from agentdescent.budget.returns import DiminishingReturns
from agentdescent.errors import UsageError
from agentdescent_adapters.command.config import RunConfig
from agentdescent_adapters.named import resolve

NAMES = "off, value, always, never, lineage, random:RATE, or module:object"


def make_allocator(name: str) -> ValueBudgetAllocator | AllocatorPolicy | OlderAllocator | None:
    """The allocator of that name. Raises UsageError that lists what there is."""
    match name:
        case "off":
            return None
        case "value":
            return ValueBudgetAllocator()
        case "always":
            return Always()
        case "never":
            return Never()
        case "lineage":
            return Lineage()
        case _:
            kind, colon, rate = name.partition(":")
    if kind == "random" and colon:
        try:
            return Randomly(float(rate))
        except ValueError as error:
            raise UsageError(f"allocator {name!r}: the rate is a number from 0 to 1") from error
    if not colon:
        raise UsageError(f"allocator {name!r}: it is one of {NAMES}")
    found = resolve("allocator", name)
    if isinstance(found, type):
        try:
            found = found()
        except Exception as error:  # a class is code we do not know: whatever it raises, it cannot be used
            raise UsageError(f"allocator {name!r}: it cannot be made without arguments: {error}") from error
    if not isinstance(found, ValueBudgetAllocator | AllocatorPolicy | OlderAllocator):
        raise UsageError(f"allocator {name!r}: it needs `probability(stage, features)`, or `decide` and `observe`")
    return found


def economic_stop(config: RunConfig) -> DiminishingReturns | None:
    if not config.diminishing_returns:
        return None
    return DiminishingReturns(config.efficiency_floor, config.efficiency_samples)


def call_budget(config: RunConfig) -> CallBudget | None:
    if config.call_budget is None:
        if config.call_floor is not None:
            raise UsageError(f"call_floor is {config.call_floor}, and there is no call_budget: give both, or neither")
        return None
    return CallBudget(config.call_budget, config.call_floor)
