"""Contract checks for adapters and allocators of one's own, and simulated time for tests of what waits.

The checks are plain functions: a broken contract is an AssertionError.

def test_my_log(tmp_path):
    check_log(lambda: MyLog(tmp_path / "run"), lambda log: MyLog.reopen(log.path))

def test_my_policy():
    check_policy(MyPolicy())  # probability(stage, features); check_older(MyAllocator): decide and observe
"""

from agentdescent.allocation.checks import check_older, check_policy
from agentdescent.simulation import NotSimulated, Scripted, clock, lognormal, simulate
from agentdescent.testing.agents import check_agent, check_scorer
from agentdescent.testing.executors import check_executor
from agentdescent.testing.logs import check_log

__all__ = [
    "NotSimulated",
    "Scripted",
    "check_agent",
    "check_executor",
    "check_log",
    "check_older",
    "check_policy",
    "check_scorer",
    "clock",
    "lognormal",
    "simulate",
]
