"""Contract checks for allocators of one's own. Plain functions: a broken contract is an AssertionError.

def test_my_policy():
    check_policy(MyPolicy())
"""

from __future__ import annotations

from collections.abc import Callable

from agentdescent.allocation.choice import Facts
from agentdescent.allocation.features import STAGES, AllocatorContext, Features, Stage, vector
from agentdescent.allocation.older import Counts, OlderAllocator, consult, report
from agentdescent.allocation.policies import AllocatorPolicy, OwnFeatures
from agentdescent.errors import UsageError

CONTEXTS = (
    AllocatorContext(),
    AllocatorContext(advantage=-3.0, size=1, blast_radius=0.0, base_score=0.0, acceptance=0.0),
    AllocatorContext(advantage=3.0, size=100, blast_radius=1.0, entrants=16, before_after_delta=1.0, base_score=1.0),
    AllocatorContext(before_after_delta=-1.0, commits=0, closed=1_000, kin_commits=0, kin_closed=1_000, answered=1.0),
    AllocatorContext(commits=1_000, closed=1_000, kin_commits=1_000, kin_closed=1_000, acceptance=1.0),
)
"""The corners of what a policy may be asked about."""


def check_policy(policy: AllocatorPolicy, stages: tuple[Stage, ...] = STAGES) -> None:
    """What the engine relies on: a probability for every vector of these stages, the same when asked again."""
    asked = [(stage, _features(policy, stage, context)) for stage in stages for context in CONTEXTS]
    answers = [policy.probability(stage, x) for stage, x in asked]
    for (stage, x), answer in zip(asked, answers, strict=True):
        right = type(answer) in (int, float) and 0.0 <= answer <= 1.0
        _expect(right, f"probability({stage!r}, {x}) is {answer!r}: it is a number from 0 to 1")
    for (stage, x), answer in reversed(list(zip(asked, answers, strict=True))):
        same = policy.probability(stage, x) == answer
        _expect(same, f"probability({stage!r}, {x}) changes: it is a function of its arguments alone")


def check_older(make: Callable[[], OlderAllocator]) -> None:
    """What `older` relies on: decisions that say whether to spend, and an `observe` that takes a label. `make`: a new
    allocator."""
    allocator, counts = make(), Counts()
    for context in CONTEXTS * 4:
        try:
            choice, counts = consult(allocator, counts, Facts("verify", context, 0.0), 1.0)
        except UsageError as error:
            raise AssertionError(str(error)) from error
        counts = report(allocator, counts, context, choice, "committed" if choice.choice else "regression")
    _expect(counts.n_observed == 4 * len(CONTEXTS), "every label is counted")
    _expect(counts.n_committed + counts.n_skipped == counts.n_observed, "a decision spends or skips")


def _features(policy: AllocatorPolicy, stage: Stage, context: AllocatorContext) -> Features:
    return policy.features(stage, context) if isinstance(policy, OwnFeatures) else vector(stage, context)


def _expect(holds: bool, contract: str) -> None:
    """Raise AssertionError; unlike `assert` also under `python -O`."""
    if not holds:
        raise AssertionError(contract)
