"""Where to go next: selection policies, task sampling, advantage."""

from agentdescent.search.archive import Archive
from agentdescent.search.beam import Beam
from agentdescent.search.candidate import Candidate, SelectionContext
from agentdescent.search.clade import CladeThompson
from agentdescent.search.pareto import ParetoFrontier
from agentdescent.search.puct import CostEfficient, FlatPuct
from agentdescent.search.sampling import DifficultyWeighted, RoundRobin, Stakes
from agentdescent.search.selection import Selection, SingleHead, select

__all__ = [
    "Archive",
    "Beam",
    "Candidate",
    "CladeThompson",
    "CostEfficient",
    "DifficultyWeighted",
    "FlatPuct",
    "ParetoFrontier",
    "RoundRobin",
    "Selection",
    "SelectionContext",
    "SingleHead",
    "Stakes",
    "select",
]
