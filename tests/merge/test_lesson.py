"""What a gate teaches does not depend on how early, or whether, it is stopped; and what trust makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent.errors import UsageError
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.audit import Audit, cheap_verdict, check, missing, observe, probe_of, wanted
from agentdescent.merge.gate import Gate
from agentdescent.merge.lesson import teaches
from agentdescent.merge.unpaired import Prior
from agentdescent.record import replace
from tests.merge.test_gate import BARS, BASES, GRID, PRIORS, WEIGHTS, gate_on, run, scores


@settings(max_examples=300)
@given(BASES, st.data(), WEIGHTS, WEIGHTS, BARS, PRIORS, st.integers(1, 6), st.booleans())
def test_a_gate_teaches_what_the_earliest_curtailment_would_have_completed(
    base: tuple[int, ...],
    data: st.DataObject,
    gain: int,
    loss: int,
    bar: int,
    prior: Prior | None,
    wave_min: int,
    curtail: bool,
) -> None:
    size = len(base)
    truth = tuple(data.draw(st.lists(st.sampled_from(GRID), min_size=size, max_size=size)))
    seen = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    known = tuple(value if was else None for value, was in zip(truth, seen, strict=True)) if any(seen) else ()

    def gate(wave: int, *, early: bool) -> Gate:
        opened = gate_on(base, gain=gain, loss=loss, bar=bar, wave_min=wave, curtail=early, prior=prior, known=known)
        return run(opened, truth)[0]

    first, other = gate(1, early=True), gate(wave_min, early=curtail)
    complete = first.probe.scores.count == size
    assert teaches(first) == complete
    assert teaches(other) == complete
    assert first.status == other.status
    if complete:
        assert (first.gain, first.loss) == (other.gain, other.loss)


def test_by_hand() -> None:
    """Two failing tasks and two solved: no gain in the first two is the end, and the rest teaches nothing."""
    base = (0, 0, MILLION, MILLION)
    useless, _ = run(gate_on(base, curtail=False), base)
    assert (useless.status, teaches(useless)) == ("rejected", False)
    undone, _ = run(gate_on(base, curtail=False), (MILLION, 0, MILLION, 0))
    assert (undone.status, teaches(undone)) == ("rejected", True)
    worse, _ = run(gate_on(base, curtail=False), (MILLION, 0, 0, 0))
    assert (worse.status, teaches(worse)) == ("rejected", False)
    better, _ = run(gate_on(base), (MILLION, 0, MILLION, MILLION))
    assert (better.status, teaches(better)) == ("accepted", True)
    assert not teaches(run(gate_on(base), base)[0])
    assert not teaches(replace(gate_on(base), status="stale"))


def test_trust_by_hand() -> None:
    rule, trust = Audit(), 1.0
    seen = []
    for agree in (False, False, False, True, True, True, False):
        trust = observe(rule, trust, agree=agree)
        seen.append((trust, wanted(rule, 0.2, trust)))
    assert seen == [
        (0.5, True),
        (0.25, True),
        (0.25, True),
        (0.5, True),
        (0.75, False),
        (1.0, False),
        (0.5, True),
    ]
    assert observe(rule, 3.9, agree=True) == observe(rule, 4.0, agree=True) == 4.0


@given(st.lists(st.booleans(), max_size=60))
def test_trust_stays_in_its_range(verdicts: list[bool]) -> None:
    rule, trust = Audit(), 1.0
    for agree in verdicts:
        before, trust = trust, observe(rule, trust, agree=agree)
        assert rule.floor <= trust <= rule.top
        assert (trust >= before) if agree else (trust <= before)


@pytest.mark.parametrize(("radius", "expected"), [(0.0, False), (0.3, False), (0.31, True), (1.0, True)])
def test_a_large_blast_radius_is_always_looked_at(radius: float, expected: bool) -> None:
    assert wanted(Audit(), radius, 4.0) is expected
    assert wanted(Audit(), radius, 0.74)


def test_the_cheap_verdict_is_about_the_cheap_subset() -> None:
    own, base = scores((MILLION, 0, 250_000, 0)), scores((0, 0, 250_000, MILLION))
    assert cheap_verdict(own, base, (0, 1))
    assert not cheap_verdict(own, base, (1, 2))
    assert not cheap_verdict(own, base, (0, 1, 2, 3))
    assert not cheap_verdict(base, own, (0,))


def test_what_is_known_of_the_head_is_not_asked_again() -> None:
    known = scores((None, MILLION, None, 0))
    assert missing(None, (0, 1, 3)) == (0, 1, 3)
    assert missing(known, (0, 1, 3)) == (0,)
    probe = probe_of(known, (0, 1, 3), 4)
    assert (probe.order, probe.limit, probe.scores) == ((0,), 1, known)
    assert probe_of(None, (1,), 4).scores.count == 0


@pytest.mark.parametrize(
    "rule",
    [
        Audit(blast_radius=1.5),
        Audit(blast_radius=float("nan")),
        Audit(floor=0.0),
        Audit(start=0.2),
        Audit(start=5.0),
        Audit(gain=-0.1),
        Audit(trust=float("nan")),
    ],
)
def test_a_rule_out_of_range_is_refused(rule: Audit) -> None:
    check(Audit())
    with pytest.raises(UsageError, match="audit"):
        check(rule)
