"""Evolve a prompt, rule list or skill on your tasks, under a token ceiling that holds.

`evolve` does the whole job. The four functions `initial`, `decide`, `apply` and `due` are the engine: a state machine
over immutable records that wants effects and folds what comes back, and performs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentdescent.allocation import (
    AllocateDecision,
    AllocatorContext,
    AllocatorPolicy,
    LearningValueModel,
    ValueBudgetAllocator,
)
from agentdescent.artifact.strategy import AppendRules, Components, KeyedRules, SingleSlot
from agentdescent.budget.call_budget import CallBudget
from agentdescent.budget.governor import Caps
from agentdescent.budget.returns import DiminishingReturns
from agentdescent.budget.tariff import Prices, Rate, Tariff
from agentdescent.budget.usage import Usage
from agentdescent.engine.decision import Wait, decide
from agentdescent.engine.draw import seeded
from agentdescent.engine.spec import Setup, Spec
from agentdescent.engine.state import State, due, initial
from agentdescent.engine.transition import apply
from agentdescent.errors import AgentDescentError, CorruptLog, IllegalEvent, RunError, UsageError
from agentdescent.history.memory import MemoryLog
from agentdescent.own import replay
from agentdescent.ports import Answer, CallFailed, Task

if TYPE_CHECKING:
    from agentdescent.allocation import Always, Lineage, Never, Randomly, Starts, Thresholds
    from agentdescent.blocking import Cancellation
    from agentdescent.budget.degrading import BudgetGovernor
    from agentdescent.budgeted import budgeted_completion
    from agentdescent.evolution import async_evolve, evolve
    from agentdescent.merge.acceptance import Paired, Unpaired
    from agentdescent.merge.audit import Audit
    from agentdescent.result import EvolutionResult
    from agentdescent.search import (
        Archive,
        Beam,
        Candidate,
        CladeThompson,
        CostEfficient,
        DifficultyWeighted,
        FlatPuct,
        ParetoFrontier,
        RoundRobin,
        SelectionContext,
        SingleHead,
        Stakes,
    )

__version__ = "0.1.0"

__all__ = [
    "AgentDescentError",
    "AllocateDecision",
    "AllocatorContext",
    "AllocatorPolicy",
    "Always",
    "Answer",
    "AppendRules",
    "Archive",
    "Audit",
    "Beam",
    "BudgetGovernor",
    "CallBudget",
    "CallFailed",
    "Cancellation",
    "Candidate",
    "Caps",
    "CladeThompson",
    "Components",
    "CorruptLog",
    "CostEfficient",
    "DifficultyWeighted",
    "DiminishingReturns",
    "EvolutionResult",
    "FlatPuct",
    "IllegalEvent",
    "KeyedRules",
    "LearningValueModel",
    "Lineage",
    "MemoryLog",
    "Never",
    "Paired",
    "ParetoFrontier",
    "Prices",
    "Randomly",
    "Rate",
    "RoundRobin",
    "RunError",
    "SelectionContext",
    "Setup",
    "SingleHead",
    "SingleSlot",
    "Spec",
    "Stakes",
    "Starts",
    "State",
    "Tariff",
    "Task",
    "Thresholds",
    "Unpaired",
    "Usage",
    "UsageError",
    "ValueBudgetAllocator",
    "Wait",
    "__version__",
    "apply",
    "async_evolve",
    "budgeted_completion",
    "decide",
    "due",
    "evolve",
    "initial",
    "replay",
    "seeded",
]

_LATER = {
    "Always": "agentdescent.allocation",
    "Archive": "agentdescent.search",
    "Audit": "agentdescent.merge.audit",
    "Beam": "agentdescent.search",
    "BudgetGovernor": "agentdescent.budget.degrading",
    "Cancellation": "agentdescent.blocking",
    "Candidate": "agentdescent.search",
    "CladeThompson": "agentdescent.search",
    "CostEfficient": "agentdescent.search",
    "DifficultyWeighted": "agentdescent.search",
    "EvolutionResult": "agentdescent.result",
    "FlatPuct": "agentdescent.search",
    "Lineage": "agentdescent.allocation",
    "Never": "agentdescent.allocation",
    "Paired": "agentdescent.merge.acceptance",
    "ParetoFrontier": "agentdescent.search",
    "Randomly": "agentdescent.allocation",
    "RoundRobin": "agentdescent.search",
    "SelectionContext": "agentdescent.search",
    "SingleHead": "agentdescent.search",
    "Stakes": "agentdescent.search",
    "Starts": "agentdescent.allocation",
    "Thresholds": "agentdescent.allocation",
    "Unpaired": "agentdescent.merge.acceptance",
    "async_evolve": "agentdescent.evolution",
    "budgeted_completion": "agentdescent.budgeted",
    "evolve": "agentdescent.evolution",
}


if not TYPE_CHECKING:  # the checker would take any name to be here

    def __getattr__(name: str) -> Any:
        """The driver imports asyncio, which costs as much as all the rest: it is loaded when it is used."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
