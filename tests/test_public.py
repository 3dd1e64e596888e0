"""The public surface is a list, and every name on it says what it is."""

from __future__ import annotations

import inspect

import agentdescent

PUBLIC = {
    *("AgentDescentError", "AllocateDecision", "AllocatorContext", "AllocatorPolicy", "Always", "Answer"),
    *("AppendRules", "Archive", "Audit", "Beam", "BudgetGovernor", "CallBudget", "CallFailed", "Cancellation"),
    *("Candidate", "Caps", "CladeThompson", "Components", "CorruptLog", "CostEfficient", "DifficultyWeighted"),
    *("DiminishingReturns", "EvolutionResult", "FlatPuct", "IllegalEvent", "KeyedRules", "LearningValueModel"),
    *("Lineage", "MemoryLog", "Never", "Paired", "ParetoFrontier", "Prices", "Randomly", "Rate", "RoundRobin"),
    *("RunError", "SelectionContext", "Setup", "SingleHead", "SingleSlot", "Spec", "Stakes", "Starts", "State"),
    *("Tariff", "Task", "Thresholds", "Unpaired", "Usage", "UsageError", "ValueBudgetAllocator", "Wait"),
    *("__version__", "apply", "async_evolve", "budgeted_completion", "decide", "due", "evolve", "initial", "replay"),
    "seeded",
}


def test_the_public_names_are_these() -> None:
    assert set(agentdescent.__all__) == PUBLIC
    assert all(hasattr(agentdescent, name) for name in PUBLIC)
    assert set(dir(agentdescent)) >= PUBLIC


def test_every_public_name_is_documented() -> None:
    for name in PUBLIC - {"__version__"}:
        value = getattr(agentdescent, name)
        doc = inspect.getdoc(value)
        assert doc, name
        assert not doc.startswith(f"{name}("), f"{name} has the docstring that a record is given by default"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(agentdescent, "evolv")
