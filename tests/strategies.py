"""Arbitrary jobs and worlds: every field of the spec, small enough that a run is a few hundred events."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from hypothesis import strategies as st

from agentdescent import AppendRules, Caps, Components, KeyedRules, Prices, Rate, Setup, SingleSlot, Spec, Tariff
from agentdescent.allocation import Lineage, Never, Randomly, ValueBudgetAllocator
from agentdescent.artifact.strategy import Strategy
from agentdescent.budget.call_budget import CallBudget
from agentdescent.budget.governor import Purpose
from agentdescent.budget.projection import Projection
from agentdescent.budget.returns import DiminishingReturns
from agentdescent.engine.event import Amended, Event, Interrupted
from agentdescent.engine.spec import Allocator, Fusion, FusionWidth, TaskInfo
from agentdescent.engine.state import State
from agentdescent.merge.acceptance import MILLION, Acceptance, Paired, Unpaired
from agentdescent.merge.audit import Audit
from agentdescent.record import replace
from agentdescent.search import (
    Archive,
    Beam,
    CladeThompson,
    CostEfficient,
    FlatPuct,
    ParetoFrontier,
    Selection,
    SingleHead,
)
from agentdescent.search.sampling import DifficultyWeighted, RoundRobin, Sampling, Stakes
from tests.world import MENU, START, Kind, Meddler, World, abandon, chance

STRATEGIES: tuple[Strategy, ...] = (
    AppendRules(),
    AppendRules(blast_radius=0.5),
    KeyedRules(("k0", "k1"), title="Rules"),
    SingleSlot(key="k0"),
    Components(),
)
ALLOCATORS: tuple[Allocator | None, ...] = (
    None,
    None,
    None,
    ValueBudgetAllocator(),
    ValueBudgetAllocator(budget_start=2.0, min_observations=1, min_weight=0.0, max_consecutive_skips=3),
    ValueBudgetAllocator(budget_start=2.0, min_observations=1, threshold="price", min_propensity=0.1),
    Randomly(0.5),
    Never(),
    Lineage(),
)
SAMPLINGS: tuple[Sampling, ...] = (RoundRobin(), RoundRobin(), DifficultyWeighted(), Stakes(), Stakes(pending=0.0))
ACCEPTANCES: tuple[Acceptance, ...] = (
    Paired(),
    Paired(start=0.2),
    Paired(half_life=2.0),
    Unpaired(),
    Unpaired(start=0.4),
)
AUDITS = (Audit(), Audit(blast_radius=0.0), Audit(trust=2.0))
POLICIES: tuple[Selection, ...] = (
    FlatPuct(),
    CostEfficient(),
    Beam(3),
    Archive(),
    ParetoFrontier(),
    ParetoFrontier("win-frequency"),
    CladeThompson(),
)
ALL_KINDS: tuple[Kind, ...] = (*MENU, "rename", "long")
PURPOSES: tuple[Purpose, ...] = ("rollout", "propose", "verify", "rebase", "conflict", "gate", "audit", "test")


class Economy(TypedDict, total=False):
    call_budget: CallBudget
    diminishing_returns: DiminishingReturns
    projection: Projection


class Job(NamedTuple):
    spec: Spec
    setup: Setup
    world: World


def rates(*, strict: bool, priced: bool) -> st.SearchStrategy[Rate]:
    prices = st.builds(
        Prices,
        prompt=st.sampled_from([1_000, 500_000]),
        completion=st.sampled_from([4_000, 1_500_000]),
        cached=st.sampled_from([None, 100]),
    )
    return st.builds(
        Rate,
        strict=st.just(strict),
        overhead=st.sampled_from([0, 10]),
        bytes_per_token=st.sampled_from([1, 4]),
        ceiling=st.sampled_from([1, 50, 200]),
        calls=st.sampled_from([1, 1, 2]),
        prices=prices if priced else st.none(),
    )


@st.composite
def setups(draw: st.DrawFn, *, priced: bool | None = None, strict: bool | None = None) -> Setup:
    count = draw(st.integers(4, 12))
    sizes = draw(st.lists(st.sampled_from([0, 1, 20, 37, 500]), min_size=count, max_size=count))
    if draw(st.integers(0, 5)) == 0:
        sizes[draw(st.integers(0, count - 1))] = 20_000
    priced = draw(st.integers(0, 3)) == 0 if priced is None else priced
    strict = draw(st.integers(0, 3)) > 0 if strict is None else strict
    tariff = Tariff(
        draw(rates(strict=strict, priced=priced)),
        draw(rates(strict=strict, priced=priced)),
        draw(st.sampled_from([100, 65_536])),
    )
    tasks = tuple(TaskInfo(f"t{i}", size, "0" * 32, f"c{i % 3}") for i, size in enumerate(sizes))
    return Setup(tasks, draw(st.sampled_from([(), START])), tariff, oracle="oracle")


def call_cost(setup: Setup) -> int:
    """A typical call in tokens: what caps are multiples of."""
    rate = setup.tariff.solve
    return rate.overhead + rate.ceiling + (60 + sorted(task.size for task in setup.tasks)[-2]) // rate.bytes_per_token


@st.composite
def caps(draw: st.DrawFn, setup: Setup) -> Caps:
    """From what cannot pay for the base to what never binds."""
    unit, sizes = call_cost(setup), st.sampled_from([3, 8, 13, 20, 30, 45, 70, 110])
    priced = setup.tariff.solve.prices is not None
    tokens = draw(st.one_of(st.none(), sizes.map(lambda n: n * unit + n % 7)))
    cost = draw(st.one_of(st.none(), sizes.map(lambda n: n * unit * 300))) if priced else None
    calls = draw(sizes) if draw(st.integers(0, 3)) == 0 else None
    rollouts = draw(sizes) if draw(st.integers(0, 3)) == 0 else None
    return Caps(tokens=tokens, cost=cost, calls=calls, rollouts=rollouts, rounds=draw(st.integers(1, 4)))


def tight(setup: Setup) -> st.SearchStrategy[Caps]:
    """A cap that ends the run, on one unit."""
    unit, sizes = call_cost(setup), st.sampled_from([20, 30, 45, 70])
    kinds = [
        sizes.map(lambda n: Caps(tokens=n * unit, rounds=50)),
        sizes.map(lambda n: Caps(calls=n, rounds=50)),
        sizes.map(lambda n: Caps(rollouts=n, rounds=50)),
    ]
    if setup.tariff.solve.prices is not None:
        kinds.append(sizes.map(lambda n: Caps(cost=n * unit * 300, rounds=50)))
    return st.one_of(kinds)


@st.composite
def specs(draw: st.DrawFn, setup: Setup, *, limits: st.SearchStrategy[Caps] | None = None) -> Spec:
    fusion: Fusion = draw(st.sampled_from(["union", "union", "none"]))
    selection = draw(st.one_of(st.just(SingleHead()), st.sampled_from(POLICIES)))
    single = isinstance(selection, SingleHead)
    widths: list[FusionWidth] = ["all", "all", "adaptive", 2, 3]
    spec = Spec(
        caps=draw(caps(setup) if limits is None else limits),
        seed=draw(st.integers(0, 3)),
        strategy=draw(st.sampled_from(STRATEGIES)),
        n_workers=draw(st.integers(1, 8)),
        heldout_share=draw(st.sampled_from([0.3, 0.4, 0.6])),
        heldout_limit=draw(st.sampled_from([100, 3])),
        test_share=draw(st.sampled_from([0.0, 0.0, 0.2])),
        shuffle=draw(st.booleans()),
        self_verify=draw(st.sampled_from([True, True, False])),
        screen=draw(st.sampled_from([False, False, True])),
        acceptance=draw(st.sampled_from(ACCEPTANCES)),
        staleness=draw(st.sampled_from(["guarded", "full", "reflective"])),
        refresh_interval=draw(st.sampled_from([1, 1, 2, 3])) if single else 1,
        fusion=fusion,
        gate_order=draw(st.sampled_from(["informative", "index"])),
        curtail=draw(st.sampled_from([True, True, True, False])),
        wave_min=draw(st.integers(1, 3)),
        open_gates=draw(st.integers(1, 4)),
        cheap_size=draw(st.sampled_from([1, 2, 8])),
        admission=draw(st.sampled_from(["ordered", "arrival"])),
        schedule=draw(st.sampled_from(["rounds", "continuous"])),
        merge_size=draw(st.integers(1, 3)),
        async_ratio=draw(st.integers(1, 3)),
        window=draw(st.integers(1, 4)),
        attempts=draw(st.integers(1, 3)),
        target=draw(st.sampled_from([None, None, 0.9])),
        patience=draw(st.sampled_from([None, None, 1, 2])),
        hard_floor=draw(st.sampled_from([0.5, 0.9, 1.0])),
        allocator=draw(st.sampled_from(ALLOCATORS)),
        sampling=draw(st.sampled_from(SAMPLINGS)),
        samples=draw(st.sampled_from([1, 1, 2, 4])),
        fusion_width=draw(st.sampled_from(widths)) if fusion == "union" and single else "all",
        oracle_budget=draw(st.sampled_from([0, 0, 3, 12, 1_000])),
        audit=draw(st.sampled_from(AUDITS)),
        selection=selection,
        population=draw(st.sampled_from([1_000, 2, 3])),
    )
    return replace(spec, **draw(economies(setup, spec)))


@st.composite
def economies(draw: st.DrawFn, setup: Setup, spec: Spec) -> Economy:
    """Call budgets, and where there is a cap on tokens, ends before it; off in most runs."""
    most = setup.tariff.propose.ceiling
    chosen = Economy()
    if draw(st.integers(0, 2)) == 0:
        base = draw(st.integers(1, most)) if setup.tariff.propose.strict and most else draw(st.integers(1, 200))
        chosen["call_budget"] = CallBudget(base, draw(st.one_of(st.none(), st.integers(1, base))))
    if spec.caps.tokens is not None and draw(st.integers(0, 2)) == 0:
        floor, samples = draw(st.sampled_from([0.25, 0.9])), draw(st.integers(2, 4))
        chosen["diminishing_returns"] = DiminishingReturns(floor, samples)
    if spec.caps.tokens is not None and spec.schedule == "rounds" and draw(st.integers(0, 3)) == 0:
        chosen["projection"] = "round"
    return chosen


@st.composite
def worlds(draw: st.DrawFn, *, failing: bool = True, over: bool = False) -> World:
    at: tuple[tuple[Purpose, float], ...] = ()
    share = 0.0
    if failing:
        share = draw(st.sampled_from([0.0, 0.0, 0.0, 0.05, 0.15]))
        at = draw(st.lists(st.tuples(st.sampled_from(PURPOSES), st.sampled_from([0.3, 0.6])), max_size=2).map(tuple))
    return World(
        seed=draw(st.integers(0, 999)),
        failing=share,
        failing_at=at,
        silent=draw(st.sampled_from([0.0, 0.0, 0.0, 0.2])),
        exact=draw(st.sampled_from([0.0, 0.3, 1.0])),
        over=draw(st.sampled_from([0.0, 0.03])) if over else 0.0,
        solved=draw(st.sampled_from([0.1, 0.3, 0.6])),
        grain=draw(st.sampled_from([MILLION, 250_000, 1])),
        noise=draw(st.sampled_from([0.0, 0.1])),
        doubt=draw(st.sampled_from([0.0, 0.3])),
        menu=draw(st.lists(st.sampled_from(ALL_KINDS), min_size=3, max_size=8).map(tuple)),
    )


@st.composite
def any_job(draw: st.DrawFn, *, failing: bool = True, over: bool = False, strict: bool | None = None) -> Job:
    setup = draw(setups(strict=strict))
    return Job(draw(specs(setup)), setup, draw(worlds(failing=failing, over=over)))


def raised(limits: Caps, state: State) -> Caps:
    """Three times as much money, and two rounds more."""
    tokens, cost, calls, rollouts = (
        None if cap is None else 3 * cap for cap in (limits.tokens, limits.cost, limits.calls, limits.rollouts)
    )
    return Caps(tokens, cost, calls, rollouts, None, state.round + 2)


def trouble(seed: int, *, orphans: float = 0.05, stops: float = 0.01, last: int = 400) -> Meddler:
    """A driver's life: orphans abandoned, a run interrupted and amended, also after its end; calm after `last`."""

    def meddle(state: State, number: int) -> Event | None:
        if not state.started or number > last:
            return None
        dice = chance(seed, "trouble", number)
        if state.stopped is not None:
            return Amended(raised(state.governor.caps, state)) if chance(seed, "amend", state.seq) < 0.5 else None
        if state.interrupted is not None:
            return Amended(state.governor.caps) if dice < 0.1 else None
        if dice < stops:
            return Interrupted("cancelled")
        return abandon(state, seed, number) if dice < stops + orphans else None

    return meddle
