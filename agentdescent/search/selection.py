"""Where the next round begins: one candidate for every worker. A policy is a value; `select` is all there is to it."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from agentdescent.errors import UsageError
from agentdescent.record import Record
from agentdescent.search import archive, beam, clade, pareto, puct
from agentdescent.search.archive import Archive
from agentdescent.search.beam import Beam
from agentdescent.search.candidate import Draw, SelectionContext
from agentdescent.search.clade import CladeThompson
from agentdescent.search.pareto import ParetoFrontier
from agentdescent.search.puct import CostEfficient, FlatPuct


class SingleHead(Record, frozen=True, tag="single-head"):
    """Every worker starts at the head."""


Selection: TypeAlias = SingleHead | FlatPuct | CostEfficient | Beam | Archive | ParetoFrontier | CladeThompson


def select(policy: Selection, context: SelectionContext, draw: Draw) -> tuple[int, ...]:
    """An index into `context.candidates` for each of the `n_workers`; the same for equal arguments."""
    match policy:
        case SingleHead():
            return (context.head,) * context.n_workers
        case FlatPuct() | CostEfficient():
            return puct.picks(policy, context)
        case Beam():
            return beam.picks(policy, context)
        case Archive():
            return archive.picks(policy, context, draw)
        case ParetoFrontier():
            return pareto.picks(policy, context, draw)
        case CladeThompson():
            return clade.picks(policy, context, draw)
        case _:
            assert_never(policy)


def check(policy: Selection) -> None:
    """Raises UsageError naming the field that is impossible and what it may be."""
    match policy:
        case SingleHead():
            return
        case FlatPuct():
            _at_least_zero("c_puct", policy.c_puct)
            _at_least_zero("prior_exponent", policy.prior_exponent)
        case CostEfficient():
            _at_least_zero("c_puct", policy.c_puct)
            _at_least_zero("prior_exponent", policy.prior_exponent)
            _at_least_zero("cost_exponent", policy.cost_exponent)
        case Beam() | ParetoFrontier():
            if type(policy.k) is not int or policy.k < 1:
                raise UsageError(f"k is {policy.k!r}: it must be a whole number of candidates, at least 1")
        case Archive():
            if not 1e-3 <= policy.temperature <= 1e3:
                raise UsageError(f"temperature is {policy.temperature!r}: it must be from 0.001 to 1000")
        case CladeThompson():
            if not 1e-4 <= policy.least_remaining <= 1:
                raise UsageError(f"least_remaining is {policy.least_remaining!r}: it must be from 0.0001 to 1")
        case _:
            assert_never(policy)


def _at_least_zero(name: str, value: float) -> None:
    if not 0 <= value <= 1e6:
        raise UsageError(f"{name} is {value!r}: it must be a number from 0 to 1,000,000")
