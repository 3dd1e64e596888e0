"""Who deserves an optional spend: features, value model, allocator, controls."""

from agentdescent.allocation.choice import Choice, Facts, Reason
from agentdescent.allocation.config import Starts, Thresholds, ValueBudgetAllocator
from agentdescent.allocation.features import AllocatorContext, Features, Stage
from agentdescent.allocation.older import AllocateDecision, OlderAllocator
from agentdescent.allocation.policies import AllocatorPolicy, Always, Lineage, Never, Randomly, greedy
from agentdescent.allocation.value_model import LearningValueModel, ValueModel

__all__ = [
    "AllocateDecision",
    "AllocatorContext",
    "AllocatorPolicy",
    "Always",
    "Choice",
    "Facts",
    "Features",
    "LearningValueModel",
    "Lineage",
    "Never",
    "OlderAllocator",
    "Randomly",
    "Reason",
    "Stage",
    "Starts",
    "Thresholds",
    "ValueBudgetAllocator",
    "ValueModel",
    "greedy",
]
