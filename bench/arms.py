"""What bench.economy compares: ways to go about a world, as options of `evolve`, each a change of one mechanism.

Every arm samples by `Stakes`: only with it do train tasks come as the worlds say that they do, where work remains.
The per-call budget has no arm, since the replies of these worlds cost what they cost whatever their ceiling.
"""

from __future__ import annotations

from typing import NamedTuple

from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.job import Options
from agentdescent.merge.acceptance import Unpaired
from agentdescent.search import Beam, CostEfficient
from agentdescent.search.sampling import DifficultyWeighted, Stakes

FUTILITY = 0.2
"""Predicted probability of acceptance below which a gate is stopped, where that is tried."""


class Change(NamedTuple):
    """An arm by what it changes, and the arm that it changes: CLOCK, BEST or one of ON by name."""

    name: str
    over: str
    options: Options


CLOCK: Options = {
    "n_workers": 1,
    "self_verify": False,
    "curtail": False,
    "fusion": "none",
    "gate_order": "index",
    "sampling": Stakes(pending=0.0),
}
"""Every proposal before every held-out task."""

BEST: Options = {
    "n_workers": 1,
    "self_verify": True,
    "screen": True,
    "curtail": True,
    "fusion": "union",
    "gate_order": "informative",
    "sampling": Stakes(),
    "samples": 10,
    "fusion_width": "adaptive",
    "futility": FUTILITY,
}
"""Everything that was found to pay: with `self_verify`, what `thrifty=True` sets."""

SCREEN: Options = {**CLOCK, "self_verify": True, "screen": True, "curtail": True, "gate_order": "informative"}
"""What a useless proposal costs least with: verified, and hardly ever gated."""

ON: tuple[Change, ...] = (
    Change("curtailment", "clock", {"curtail": True}),
    Change("gate order", "curtailment", {"gate_order": "informative"}),
    Change("self-verify, without screen", "clock", {"self_verify": True}),
    Change("screen", "clock", {"self_verify": True, "screen": True}),
    Change("samples", "screen", {"samples": 10}),
    Change("4 workers", "clock", {"n_workers": 4}),
    Change("fusion of 4", "clock", {"fusion": "union", "fusion_width": 4}),
    Change("fusion, adaptive", "clock", {"fusion": "union", "fusion_width": "adaptive"}),
    Change("stakes, pending", "fusion of 4", {"sampling": Stakes()}),
    Change("tournament", "fusion of 4", {"tournament": True}),
    Change("futility", "gate order", {"futility": FUTILITY}),
    Change("allocator at verify", "screen", {"allocator": ValueBudgetAllocator(budget_start=2.0)}),
    Change("allocator at gate", "clock", {"allocator": ValueBudgetAllocator(stages=("gate",), budget_start=2.0)}),
    Change("unpaired acceptance", "screen", {"acceptance": Unpaired()}),
    Change("difficulty-weighted", "screen", {"sampling": DifficultyWeighted()}),
    Change("selection: beam of 2", "screen", {"selection": Beam(2)}),
    Change("selection: cost-efficient", "screen", {"selection": CostEfficient()}),
)
"""One mechanism at a time, over the clock or over what it needs to do anything at all."""

OFF: tuple[Change, ...] = (
    Change("curtailment", "best", {"curtail": False}),
    Change("gate order", "best", {"gate_order": "index"}),
    Change("screen", "best", {"screen": False}),
    Change("samples", "best", {"samples": 1}),
    Change("fusion", "best", {"fusion": "none", "fusion_width": 1}),
    Change("fusion, adaptive", "best", {"fusion_width": 4}),
    Change("stakes, pending", "best", {"sampling": Stakes(pending=0.0)}),
    Change("futility", "best", {"futility": 0.0}),
)
"""One mechanism at a time taken away from the best."""

ADDED: tuple[Change, ...] = (
    Change("tournament", "best", {"tournament": True}),
    Change("allocator at verify", "best", {"allocator": ValueBudgetAllocator(budget_start=2.0)}),
    Change("allocator at gate", "best", {"allocator": ValueBudgetAllocator(stages=("gate",), budget_start=2.0)}),
    Change("allocator at finish", "best", {"allocator": ValueBudgetAllocator(stages=("finish",), budget_start=2.0)}),
)
"""One mechanism at a time that the best does without."""


def options_of(change: Change) -> Options:
    """All options of an arm."""
    if change.over == "clock":
        return {**CLOCK, **change.options}
    if change.over == "best":
        return {**BEST, **change.options}
    return {**options_of(named(change.over)), **change.options}


def named(name: str) -> Change:
    return next(change for change in ON if change.name == name)
