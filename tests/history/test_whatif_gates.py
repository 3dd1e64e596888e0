"""Gates in another order, and runs under another cap: compared with runs that were really made so."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentdescent import Caps, Setup, Spec, ValueBudgetAllocator
from agentdescent.allocation.own import Own
from agentdescent.engine.event import Committed, Event, Interrupted, Started, Stopped
from agentdescent.engine.spec import Admission, GateOrder
from agentdescent.errors import CorruptLog, UsageError
from agentdescent.history.whatif_cap import under_cap
from agentdescent.history.whatif_gates import GatesAgain, gates_again
from agentdescent.record import replace
from tests.world import World, jobs, play

SEEDS = st.integers(0, 9_999)
ORDERS = st.sampled_from(("informative", "index"))
WORLDS = st.builds(
    World, seed=SEEDS, solved=st.sampled_from((0.1, 0.3, 0.6)), grain=st.sampled_from((10**6, 2 * 10**5))
)


def job(workers: int, wave: int, rounds: int = 6) -> tuple[Spec, Setup]:
    spec, setup = jobs(24, workers=workers)
    return replace(spec, wave_min=wave, caps=Caps(rounds=rounds)), setup


def told(again: GatesAgain) -> list[tuple[int, bool, int, int]]:
    return [(gate.subject, gate.accepted, gate.calls, gate.tokens) for gate in again.gates]


def foretold(again: GatesAgain) -> list[tuple[int, bool, int, int]]:
    return [(gate.subject, gate.accepted, gate.calls_low, gate.tokens_low) for gate in again.gates]


def by_artifact(world: World) -> World:
    """Usage of a call must not depend on its number, which differs between the two runs."""
    return replace(world, exact=1.0, silent=0.0)


@given(WORLDS, st.integers(1, 3), st.integers(1, 4), ORDERS, ORDERS, st.booleans())
def test_completed_gates_tell_any_order_exactly(
    world: World, workers: int, wave: int, first: GateOrder, other: GateOrder, curtail: bool
) -> None:
    """A run without curtailment foretells, gate by gate and to the token, the run that is really made otherwise."""
    world, (spec, setup) = by_artifact(world), job(workers, wave)
    _, full = play(replace(spec, curtail=False, gate_order=first), setup, world)
    _, real = play(replace(spec, curtail=curtail, gate_order=other), setup, world)
    again = gates_again(full, order=other, curtail=curtail)
    assert again.lasting
    assert again.exact == len(again.gates)
    assert foretold(again) == told(gates_again(real))


@given(WORLDS, st.integers(1, 3), ORDERS, ORDERS)
def test_gates_that_were_stopped_early_give_bounds(
    world: World, workers: int, first: GateOrder, other: GateOrder
) -> None:
    world, (spec, setup) = by_artifact(world), job(workers, 1)
    _, early = play(replace(spec, curtail=True, gate_order=first), setup, world)
    _, real = play(replace(spec, curtail=False, gate_order=other), setup, world)
    again, truth = gates_again(early, order=other, curtail=False), gates_again(real)
    assert again.bounded
    assert [(gate.subject, gate.accepted) for gate in again.gates] == [
        (gate.subject, gate.accepted) for gate in truth.gates
    ]
    for gate, really in zip(again.gates, truth.gates, strict=True):
        assert gate.calls_low <= really.calls <= gate.calls_high
        assert gate.tokens_low <= really.tokens <= gate.tokens_high
        assert gate.exact == (gate.calls == really.calls)


@given(WORLDS, st.integers(1, 3))
def test_as_recorded_is_what_was_recorded(world: World, workers: int) -> None:
    spec, setup = job(workers, 1)
    _, log = play(spec, setup, replace(world, failing=0.05))
    again = gates_again(log)
    assert foretold(again) == told(again)
    assert all(gate.exact for gate in again.gates)


def test_what_depends_on_the_budget_is_told_gate_by_gate_only() -> None:
    spec, setup = job(2, 1)
    world = World(seed=3, solved=0.1)
    assert gates_again(play(spec, setup, world)[1]).lasting
    for change in (
        replace(spec, allocator=ValueBudgetAllocator()),
        replace(spec, fusion_width="adaptive"),
        replace(spec, caps=Caps(tokens=15_000)),
    ):
        assert not gates_again(play(change, setup, world)[1]).lasting
    several = replace(job(4, 1, 20)[0], fusion="none", open_gates=3)
    assert gates_again(play(several, setup, world)[1]).left_out > 0


def test_gates_that_predictions_may_stop_are_refused() -> None:
    spec, setup = job(2, 1)
    _, log = play(replace(spec, futility=0.1), setup, World(seed=3))
    with pytest.raises(UsageError, match="may be stopped by prediction"):
        gates_again(log, order="index")
    with pytest.raises(CorruptLog, match="is empty"):
        gates_again([])
    with pytest.raises(CorruptLog, match="does not begin with Started"):
        gates_again(log[1:])


# --- caps -------------------------------------------------------------------------------------------------------------


@given(WORLDS, st.integers(1, 3), st.floats(0.2, 1.3), st.sampled_from(("ordered", "arrival")), st.booleans())
def test_another_cap_gives_the_beginning_of_the_run_under_it(
    world: World, workers: int, share: float, admission: Admission, allocated: bool
) -> None:
    spec, setup = job(workers, 1)
    spec = replace(spec, admission=admission, allocator=ValueBudgetAllocator() if allocated else None)
    spec = replace(spec, caps=Caps(tokens=10**5, rounds=6))
    state, log = play(spec, setup, world)
    assume(not state.governor.overrun)
    cap = max(1, round(share * state.governor.spent.tokens))
    shorter, real = play(replace(spec, caps=Caps(tokens=cap, rounds=6)), setup, world)
    found = under_cap(log, cap)
    assert 1 <= found.events <= len(real)
    assert found.same <= found.events
    assert real[1 : found.same] == log[1 : found.same]
    assert found.commits == sum(isinstance(event, Committed) for event in real[: found.events])
    if found.complete:
        assert found.events == len(real)
        assert isinstance(real[-1], Stopped)
        assert (found.reason, found.beyond) == (real[-1].reason, "")
        assert found.tokens == shorter.governor.spent.tokens
    else:
        assert found.beyond
    if cap >= 10**5:
        assert found.complete


def test_a_cap_that_never_binds_changes_nothing_and_a_smaller_one_does() -> None:
    spec, setup = job(1, 1)
    state, log = play(spec, setup, World(seed=3, solved=0.1, exact=1.0))
    spent = state.governor.spent.tokens
    found = under_cap(log, 10 * spent)
    assert (found.events, found.same, found.tokens, found.complete) == (len(log), len(log), spent, True)
    least = under_cap(log, 1)
    assert (least.tokens, least.commits, least.reward, least.reason) == (0, 0, None, "max_tokens")
    half = under_cap(log, spent // 2)
    assert 0 < half.tokens <= spent // 2


def test_what_cannot_be_decided_anew() -> None:
    spec, setup = job(1, 1)
    _, log = play(spec, setup, World(seed=3))
    with pytest.raises(UsageError, match="at least 1"):
        under_cap(log, 0)
    with pytest.raises(CorruptLog):
        under_cap([], 100)
    first = log[0]
    assert isinstance(first, Started)
    own: list[Event] = [replace(first, spec=replace(spec, allocator=Own("mine:Policy"))), *log[1:]]
    with pytest.raises(UsageError, match="mine:Policy cannot be asked again"):
        under_cap(own, 10**6)
    cut: list[Event] = [*log[:60], Interrupted("cancelled")]
    assert under_cap(cut, 10**6).beyond.startswith("the log was interrupted at event 60")
