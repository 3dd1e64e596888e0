"""What evolves, by what a config says."""

from __future__ import annotations

from agentdescent.artifact.strategy import AppendRules, SingleSlot, Strategy
from agentdescent_adapters.command.config import RunConfig


def make_strategy(config: RunConfig) -> Strategy:
    return SingleSlot() if config.strategy == "single-slot" else AppendRules()
