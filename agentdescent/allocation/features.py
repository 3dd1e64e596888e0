"""What is known of a candidate before an optional spend, and the vector on which each stage decides and learns.

Every column lies in about [-3, 3], most in [0, 1], so that none drowns another. A vector is frozen into the decision
and used unchanged when its outcome is learned; what is known only later never enters.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, assert_never

from agentdescent.record import Record

Stage: TypeAlias = Literal["verify", "tournament", "gate", "finish"]
Features: TypeAlias = tuple[float, ...]

STAGES: tuple[Stage, ...] = ("verify", "tournament", "gate", "finish")
_LARGE = math.log1p(100)
_VERIFY = ("advantage", "size", "blast_radius")
_GATE = (*_VERIFY, "delta", "verified", "commit_rate", "base_score")


class AllocatorContext(Record, frozen=True):
    """One candidate as an allocator may see it. A union has its own vector: its size is that of the union, its
    advantage and delta are those of its first contributor.

    Before any spend:
      advantage         z-score of the rollout that prompted the proposal, None where its group is too small
      size              ops of the diff, at least 1
      blast_radius      of the strategy, [0, 1]
      entrants          proposals that would be fused or compared (tournament), at least 1
    From the gate on:
      before_after_delta  gain of self-verify in [-1, 1], None where it was not made
      commits, closed     proposals of the candidate's cluster that committed / that have a learned outcome
      base_score          mean of the head on the held-out tasks of the cluster, [0, 1], None where it has none
    At finish:
      acceptance        predictive probability, in [0, 1], that the open gate would end in acceptance
      answered          share of its held-out tasks that were answered, [0, 1]
    For a lineage rule:
      kin_commits, kin_closed   as commits and closed, of the proposals of other clusters
    Only for the audit trail, never in a vector:
      p_improve, uncertainty, stable_distance
    """

    advantage: float | None = None
    size: int = 1
    blast_radius: float = 0.2
    entrants: int = 1
    before_after_delta: float | None = None
    commits: int = 0
    closed: int = 0
    base_score: float | None = None
    acceptance: float = 0.5
    answered: float = 0.0
    kin_commits: int = 0
    kin_closed: int = 0
    p_improve: float | None = None
    uncertainty: float | None = None
    stable_distance: float = 0.0

    def features(self, stage: Stage = "verify") -> Features:
        return vector(stage, self)


def vector(stage: Stage, context: AllocatorContext) -> Features:
    """The columns named by `columns(stage)`. An unknown advantage or delta counts as 0, an unknown score as 1/2; a
    commit rate is (commits + 1) / (closed + 2), so that a cluster without history stands at 1/2.

    Sizes are log1p(n) / log1p(100): 0.15 for one op, 1 for a hundred.
    """
    known = 0.0 if context.advantage is None else context.advantage
    size, radius = math.log1p(context.size) / _LARGE, context.blast_radius
    if stage == "verify":
        return known, size, radius
    if stage == "tournament":
        return known, size, radius, math.log1p(context.entrants) / _LARGE
    delta = context.before_after_delta
    gate = (
        known,
        size,
        radius,
        0.0 if delta is None else delta,
        0.0 if delta is None else 1.0,
        (context.commits + 1) / (context.closed + 2),
        0.5 if context.base_score is None else context.base_score,
    )
    return gate if stage == "gate" else (*gate, context.acceptance, context.answered)


def columns(stage: Stage) -> tuple[str, ...]:
    """The name of each column of `vector(stage, ...)`."""
    match stage:
        case "verify":
            return _VERIFY
        case "tournament":
            return (*_VERIFY, "entrants")
        case "gate":
            return _GATE
        case "finish":
            return (*_GATE, "acceptance", "answered")
        case _:
            assert_never(stage)
