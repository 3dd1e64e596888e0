"""Comparisons at equal budgets, as pure functions over records: what arms used, pairs by seed, intervals, curves."""

from agentdescent.experiment.budget import Budget
from agentdescent.experiment.comparison import Comparison, compare
from agentdescent.experiment.intervals import Interval, bca_interval, t_interval
from agentdescent.experiment.pairing import PairedComparison, paired, pairs
from agentdescent.experiment.results import ArmResult
from agentdescent.experiment.verdict import Decided, Verdict, decided

__all__ = [
    "ArmResult",
    "Budget",
    "Comparison",
    "Decided",
    "Interval",
    "PairedComparison",
    "Verdict",
    "bca_interval",
    "compare",
    "decided",
    "paired",
    "pairs",
    "t_interval",
]
