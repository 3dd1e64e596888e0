"""The rule agent: a solver without a model, for demonstrations, tests and benchmarks."""

from __future__ import annotations

from agentdescent_adapters.rules.agent import RuleAgent

__all__ = ["RuleAgent"]
