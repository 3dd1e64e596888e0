"""A gate never rejects what could still be accepted, and asks for nothing that a rejection would not have needed."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent.budget.usage import NOTHING
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.gate import (
    Gate,
    evidence,
    fell,
    fresh_probe,
    informative,
    open_gate,
    prefix_sums,
    score,
    weigh,
    whole_wave,
)
from agentdescent.merge.probe import Probe, ask, next_slot
from agentdescent.merge.rule import accepts
from agentdescent.merge.scores import Scores, blank, record
from agentdescent.merge.unpaired import Counts, Prior
from agentdescent.merge.verdict import GateEvidence
from agentdescent.record import replace

GRID = (0, 250_000, 500_000, 1_000_000)
SOLVED = 999_000


def scores(values: tuple[int | None, ...]) -> Scores:
    made = blank(len(values))
    for position, value in enumerate(values):
        if value is not None:
            made = record(made, position, value, SOLVED)
    return made


def gate_on(
    base: tuple[int, ...],
    *,
    gain: int = 0,
    loss: int = 0,
    bar: int = 500_000,
    curtail: bool = True,
    wave_min: int = 1,
    known: tuple[int | None, ...] = (),
    prior: Prior | None = None,
) -> Gate:
    frozen = scores(base)
    order = tuple(p for p in informative(frozen) if not known or known[p] is None)
    gate = Gate(
        subject=0,
        cards=(),
        entries=(),
        artifact="",
        size=0,
        version=0,
        base=frozen,
        probe=fresh_probe(order, len(base)),
        prefix=prefix_sums(frozen, order),
        weight_gain=gain,
        weight_loss=loss,
        bar=bar,
        hold=NOTHING,
        curtail=curtail,
        wave_min=wave_min,
        prior=prior,
    )
    return open_gate(gate, scores(known) if known else None)


def wave(gate: Gate) -> tuple[Gate, list[int]]:
    """Ask for everything that the gate wants at once."""
    positions = []
    while (slot := next_slot(gate.probe)) is not None:
        positions.append(slot.position)
        gate = replace(gate, probe=ask(gate.probe, 0))
    return gate, positions


def run(gate: Gate, truth: tuple[int, ...]) -> tuple[Gate, list[list[int]]]:
    waves = []
    while gate.status == "open":
        gate, positions = wave(gate)
        assert positions, "an open gate asks for something"
        waves.append(positions)
        for position in reversed(positions):
            gate = score(gate, position, truth[position], SOLVED)
    return gate, waves


verdict = cache(accepts)


def full_verdict(gate: Gate, base: tuple[int, ...], truth: tuple[int, ...]) -> bool:
    gain = sum(max(0, after - before) for before, after in zip(base, truth, strict=True))
    loss = sum(max(0, before - after) for before, after in zip(base, truth, strict=True))
    return verdict(gate.prior, Counts(sum(base), len(base)), gain, loss, gate.weight_gain, gate.weight_loss, gate.bar)


def rejects_all(gate: Gate, base: tuple[int, ...], known: dict[int, int]) -> bool:
    """By trying every completion of what is not known yet on the grid."""
    missing = [position for position in range(len(base)) if position not in known]
    for values in product(GRID, repeat=len(missing)):
        truth = tuple({**known, **dict(zip(missing, values, strict=True))}[position] for position in range(len(base)))
        if full_verdict(gate, base, truth):
            return False
    return True


BASES = st.lists(st.sampled_from(GRID), min_size=1, max_size=5).map(tuple)
WEIGHTS = st.sampled_from([0, 0, 250_000, 1_000_000, 2_500_000])
PRIORS = st.sampled_from([None, None, Prior(), Prior(2_500_000, 250_000), Prior(300_000, 4_000_000)])
BARS = st.sampled_from([500_000, 505_386, 650_000, 800_000, 900_000, 990_000])


@settings(max_examples=300)
@given(BASES, st.data(), WEIGHTS, WEIGHTS, BARS, st.integers(1, 3), PRIORS)
def test_a_curtailed_gate_gives_the_verdict_of_the_full_sweep(
    base: tuple[int, ...], data: st.DataObject, gain: int, loss: int, bar: int, wave_min: int, prior: Prior | None
) -> None:
    """Whatever the outcomes; rejected early only when every completion is; and no wave asks for more than needed."""
    truth = tuple(data.draw(st.lists(st.sampled_from(GRID), min_size=len(base), max_size=len(base))))
    gate = gate_on(base, gain=gain, loss=loss, bar=bar, wave_min=wave_min, prior=prior)
    known: dict[int, int] = {}
    while gate.status == "open":
        gate, positions = wave(gate)
        assert len(positions) >= min(wave_min, len(base) - len(known))
        if wave_min == 1:
            # Worse than the outcomes that come is nothing: were they all 0, no fewer would have made it certain.
            worst = dict(known)
            for position in positions[:-1]:
                worst[position] = 0
                assert not rejects_all(gate, base, worst)
        for position in positions:
            known[position] = truth[position]
            gate = score(gate, position, truth[position], SOLVED)
    assert (gate.status == "accepted") == full_verdict(gate, base, truth)
    if gate.status == "accepted":
        assert len(known) == len(base)
        assert gate.probe.scores.total == sum(truth)
    else:
        assert gate.status == "rejected"
        assert rejects_all(gate, base, known)


@settings(max_examples=150)
@given(BASES, st.data(), WEIGHTS, WEIGHTS, BARS, PRIORS)
def test_an_open_gate_has_a_completion_that_is_accepted(
    base: tuple[int, ...], data: st.DataObject, gain: int, loss: int, bar: int, prior: Prior | None
) -> None:
    """Nothing more is asked once rejection is certain."""
    truth = tuple(data.draw(st.lists(st.sampled_from(GRID), min_size=len(base), max_size=len(base))))
    gate = gate_on(base, gain=gain, loss=loss, bar=bar, prior=prior)
    known: dict[int, int] = {}
    while gate.status == "open":
        assert not rejects_all(gate, base, known)
        gate, positions = wave(gate)
        for position in positions:
            known[position] = truth[position]
            gate = score(gate, position, truth[position], SOLVED)
    assert gate.status in ("accepted", "rejected")


@given(BASES, st.data(), WEIGHTS, WEIGHTS, BARS, PRIORS)
def test_without_curtailment_everything_is_asked_at_once(
    base: tuple[int, ...], data: st.DataObject, gain: int, loss: int, bar: int, prior: Prior | None
) -> None:
    truth = tuple(data.draw(st.lists(st.sampled_from(GRID), min_size=len(base), max_size=len(base))))
    gate, waves = run(gate_on(base, gain=gain, loss=loss, bar=bar, curtail=False, prior=prior), truth)
    curtailed, early = run(gate_on(base, gain=gain, loss=loss, bar=bar, prior=prior), truth)
    assert waves == [list(informative(scores(base)))]
    assert gate.status == curtailed.status
    assert sum(map(len, early)) <= len(base)


@given(BASES, st.data(), WEIGHTS, BARS, PRIORS)
def test_what_is_known_before_counts_and_is_not_asked(
    base: tuple[int, ...], data: st.DataObject, gain: int, bar: int, prior: Prior | None
) -> None:
    size = len(base)
    truth = tuple(data.draw(st.lists(st.sampled_from(GRID), min_size=size, max_size=size)))
    seen = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    known = tuple(value if was else None for value, was in zip(truth, seen, strict=True))
    gate, waves = run(gate_on(base, gain=gain, bar=bar, known=known, prior=prior), truth)
    asked = [position for positions in waves for position in positions]
    assert not any(seen[position] for position in asked)
    assert (gate.status == "accepted") == full_verdict(gate, base, truth)
    if len(asked) + sum(seen) == size:
        assert (gate.probe.scores.total, gate.probe.scores.count) == (sum(truth), size)
        assert gate.gain - gate.loss == sum(truth) - sum(base)


# --- by hand ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(GRID), min_size=1, max_size=24).map(tuple), st.data(), WEIGHTS, BARS, PRIORS)
def test_a_wave_at_once_is_the_wave_one_by_one(
    base: tuple[int, ...], data: st.DataObject, gain: int, bar: int, prior: Prior | None
) -> None:
    truth, known = (
        data.draw(st.tuples(*[values] * len(base)))
        for values in (st.sampled_from(GRID), st.sampled_from((None, *GRID)))
    )
    one = at_once = gate_on(base, gain=gain, bar=bar, wave_min=2, known=known, prior=prior)
    while one.status == "open":
        one, positions = wave(one)
        for position in positions:
            one = score(one, position, truth[position], SOLVED)
        at_once = whole_wave(at_once, tuple(truth[position] for position in positions))
        unscored = replace(one, probe=replace(one.probe, scores=at_once.probe.scores))
        assert unscored == at_once


def test_a_useless_change_costs_the_failing_tasks_only() -> None:
    base = (MILLION, 0, MILLION, 0, MILLION)
    gate, waves = run(gate_on(base), base)
    assert waves == [[1, 3]]
    assert (gate.status, fell(gate)) == ("rejected", False)
    assert evidence(gate) == GateEvidence(0, 0, 500_000, 500_000, 2, 5)


def test_a_wave_is_the_fewest_outcomes_that_could_settle_it() -> None:
    """Three failing tasks and two solved: after one gain, two losses undo it, and the third gain is still possible."""
    base = (0, 0, 0, MILLION, MILLION)
    truth = (MILLION, 0, 0, 0, 0)
    gate, waves = run(gate_on(base), truth)
    assert waves == [[0, 1, 2], [3]]
    assert (gate.status, gate.gain, gate.loss) == ("rejected", MILLION, MILLION)


def test_a_solved_base_cannot_be_improved() -> None:
    gate = gate_on((MILLION, MILLION))
    assert (gate.status, gate.probe.asked) == ("rejected", 0)
    assert evidence(gate) == GateEvidence(0, 0, 500_000, 500_000, 0, 2)


def test_a_certain_fall_is_a_regression() -> None:
    gate, waves = run(gate_on((0, MILLION, MILLION)), (MILLION, 0, 0))
    assert waves == [[0], [1]]
    assert (gate.status, fell(gate)) == ("rejected", False)
    gate, waves = run(gate_on((0, MILLION, MILLION), gain=2 * MILLION, curtail=False), (MILLION, 0, 0))
    assert (gate.status, fell(gate)) == ("rejected", True)


@pytest.mark.parametrize(("weight", "status"), [(0, "rejected"), (1_000_000, "accepted")])
def test_evidence_of_verify_counts_where_gains_and_losses_are_equal(weight: int, status: str) -> None:
    gate, _ = run(gate_on((0, MILLION), gain=weight, curtail=False), (MILLION, 0))
    assert (gate.status, gate.gain, gate.loss) == (status, MILLION, MILLION)


def test_a_high_bar_is_out_of_reach_from_the_start() -> None:
    """At version 64 and later one task gained does not suffice: P = 3/4 < 0.75."""
    gate = gate_on((0, MILLION, MILLION), bar=750_000)
    assert (gate.status, gate.probe.asked) == ("rejected", 0)
    gate = gate_on((0, 0, MILLION), bar=750_000)
    assert (gate.status, gate.probe.limit) == ("open", 1)


def test_order_is_worst_first_then_by_position() -> None:
    assert informative(scores((500_000, 0, MILLION, 0, 250_000))) == (1, 3, 4, 0, 2)
    assert prefix_sums(scores((500_000, 0, MILLION)), (1, 0, 2)) == (0, 0, 500_000, 1_500_000)


def test_a_settled_gate_stays_as_it_is() -> None:
    gate, _ = run(gate_on((0, MILLION)), (MILLION, MILLION))
    assert weigh(gate) == gate
    stale = replace(gate_on((0, MILLION)), status="stale")
    assert weigh(stale) == stale
    assert stale.probe == Probe((0, 1), 1, blank(2))
