"""Language models as agents: prompts, replies read for what they are, and proposals without a model."""

from __future__ import annotations

from agentdescent_adapters.llm.agent import LLMAgent
from agentdescent_adapters.llm.operators import Operators
from agentdescent_adapters.llm.templates import CLASSIFY, PROPOSE, SOLVE, Template
from agentdescent_adapters.providers.calling import as_model

__all__ = ["CLASSIFY", "PROPOSE", "SOLVE", "LLMAgent", "Operators", "Template", "as_model"]
