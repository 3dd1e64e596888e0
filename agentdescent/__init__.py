"""Evolve a prompt, rule list or skill on your tasks, under a token ceiling that holds.

`evolve` does the whole job. The four functions `initial`, `decide`, `apply` and `due` are the engine: a state machine
over immutable records that wants effects and folds what comes back, and performs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentdescent.artifact.strategy import AppendRules, KeyedRules, SingleSlot
from agentdescent.budget.governor import Caps
from agentdescent.budget.tariff import Prices, Rate, Tariff
from agentdescent.budget.usage import Usage
from agentdescent.engine.decision import Wait, decide
from agentdescent.engine.draw import seeded
from agentdescent.engine.spec import Setup, Spec
from agentdescent.engine.state import State, due, initial
from agentdescent.engine.transition import apply
from agentdescent.errors import AgentDescentError, CorruptLog, IllegalEvent, RunError, UsageError
from agentdescent.history.memory import MemoryLog
from agentdescent.history.replay import replay
from agentdescent.ports import Answer, CallFailed, Task

if TYPE_CHECKING:
    from agentdescent.blocking import Cancellation
    from agentdescent.evolution import async_evolve, evolve
    from agentdescent.result import EvolutionResult

__version__ = "0.1.0"

__all__ = [
    "AgentDescentError",
    "Answer",
    "AppendRules",
    "CallFailed",
    "Cancellation",
    "Caps",
    "CorruptLog",
    "EvolutionResult",
    "IllegalEvent",
    "KeyedRules",
    "MemoryLog",
    "Prices",
    "Rate",
    "RunError",
    "Setup",
    "SingleSlot",
    "Spec",
    "State",
    "Tariff",
    "Task",
    "Usage",
    "UsageError",
    "Wait",
    "__version__",
    "apply",
    "async_evolve",
    "decide",
    "due",
    "evolve",
    "initial",
    "replay",
    "seeded",
]

_LATER = {
    "Cancellation": "agentdescent.blocking",
    "EvolutionResult": "agentdescent.result",
    "async_evolve": "agentdescent.evolution",
    "evolve": "agentdescent.evolution",
}


def __getattr__(name: str) -> Any:
    """The driver imports asyncio, which costs as much as all the rest: it is loaded when it is used."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
