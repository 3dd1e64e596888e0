"""Audits told by hand: what the oracle is asked, what it costs, and what becomes of the candidate.

Tasks 0 to 3 (of 8) decide and are the cheap subset. A rule "up3" solves task 3 by both scorers, "fake3" by the first
alone.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent import Caps, replay
from agentdescent.allocation.allocator import observe
from agentdescent.allocation.choice import Choice
from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.artifact.diff import Ops
from agentdescent.budget.usage import NOTHING
from agentdescent.engine import allotting
from agentdescent.engine.event import (
    Amended,
    Committed,
    Decided,
    Event,
    GateOpened,
    Interrupted,
    Judged,
    Promoted,
    Skipped,
    Stopped,
)
from agentdescent.engine.state import State
from agentdescent.history.outcomes import outcomes
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.audit import Audit
from agentdescent.merge.verdict import FailureEvidence, OracleEvidence
from agentdescent.record import replace
from tests.engine.test_merge_life import Script, a
from tests.strategies import Job, any_job, trouble
from tests.world import Meddler, Order, any_order, calls, jobs, oldest_first, play

ALWAYS = Audit(blast_radius=0.0)


class Fooled(Script, frozen=True):
    """The first scorer takes a fake for the real thing."""

    def score(self, task: int, rendered: str) -> int:
        return max(super().score(task, rendered), MILLION * (f"fake{task}" in rendered.split()))

    def oracle(self, task: int, rendered: str) -> int:
        return super().score(task, rendered)


def tell(
    *proposals: Ops,
    workers: int = 1,
    rounds: int | None = None,
    budget: int = 100,
    lost: tuple[int, ...] = (),
    solved: tuple[int, ...] = (),
    failing: float = 0.0,
    order: Order = oldest_first,
    meddle: Meddler | None = None,
    caps: Caps | None = None,
    **fields: Any,
) -> tuple[State, list[Event]]:
    spec, setup = jobs(8, workers=workers)
    spec = replace(spec, shuffle=False, heldout_share=0.5, self_verify=False, audit=ALWAYS, oracle_budget=budget)
    spec = replace(spec, caps=caps or Caps(rounds=rounds or len(proposals)))
    for name, value in fields.items():
        assert hasattr(spec, name)
        spec = replace(spec, **{name: value})
    world = Fooled(proposals=proposals, lost=lost, solved_first=solved, failing_at=(("audit", failing),))
    state, log = play(spec, replace(setup, oracle="oracle"), world, order=order, meddle=meddle)
    assert replay(log).divergence is None
    return state, log


def asked(log: list[Event]) -> list[tuple[int, str, int]]:
    """(subject, whether it is about the head or the candidate, task) of every call to the oracle."""
    found, heads = [], {event.subject: event.base for event in log if isinstance(event, GateOpened)}
    for one in calls(log, "audit"):
        who = "head" if one.command.artifact == heads[one.subject] else "own"
        found.append((one.subject, who, one.command.task))
    return found


def labels(log: list[Event]) -> list[tuple[int, str, tuple[int, ...]]]:
    return [(event.subject, event.outcome, event.contributors) for event in log if isinstance(event, Judged)]


# --- agreement and veto -----------------------------------------------------------------------------------------------


def test_an_oracle_that_agrees_lets_it_commit_and_is_asked_about_the_head_once() -> None:
    state, log = tell(a("up0"), a("up1", "b"))
    assert labels(log) == [(0, "committed", ()), (1, "committed", ())]
    assert asked(log) == [
        *((0, "head", task) for task in range(4)),
        *((0, "own", task) for task in range(4)),
        *((1, "own", task) for task in range(4)),
    ]
    opened = [event for event in log if isinstance(event, GateOpened)]
    assert [(event.audit, event.held.rollouts) for event in opened] == [(8, 12), (4, 8)]
    assert state.head.version.number == 2
    line = next(line for line in state.governor.ledger if line.purpose == "audit")
    assert line.used.rollouts == 12
    first = next(n for n, event in enumerate(log) if isinstance(event, Committed))
    assert isinstance(log[first - 1], Judged)


def test_an_oracle_that_sees_no_gain_vetoes_it() -> None:
    state, log = tell(a("fake0"), a("fake0"), a("up1 fake2", "b"))
    assert labels(log) == [(0, "oracle-rejected", ()), (1, "duplicate", ()), (2, "committed", ())]
    veto = next(event for event in log if isinstance(event, Judged))
    assert veto.evidence == OracleEvidence(0, 0, 4)
    # What the oracle said of the head is still known after the veto.
    assert [one[:2] for one in asked(log)] == [(0, "head")] * 4 + [(0, "own")] * 4 + [(2, "own")] * 4
    assert state.head.version.number == 1


def test_a_loss_by_the_oracle_is_a_veto_and_a_tie_too() -> None:
    _, worse = tell(a("fake0 fake1 down3"), solved=(3,))
    _, tied = tell(a("fake0 fake1 up2 down3"), solved=(3,))
    assert [event.evidence for event in worse if isinstance(event, Judged)] == [OracleEvidence(0, MILLION, 4)]
    assert [event.evidence for event in tied if isinstance(event, Judged)] == [OracleEvidence(MILLION, MILLION, 4)]
    assert labels(worse) == labels(tied) == [(0, "oracle-rejected", ())]


def test_a_vetoed_union_is_closed_as_a_whole() -> None:
    """Although it has a part that the oracle would like: the first contributor takes the veto."""
    state, log = tell(a("fake0"), a("fake1", "b"), workers=2, rounds=1)
    assert labels(log) == [(2, "oracle-rejected", (0, 1))]
    assert outcomes(log) == {0: "oracle-rejected", 1: "co-contributor", 2: "oracle-rejected"}
    assert [event.contributors for event in log if isinstance(event, GateOpened)] == [(0, 1)]
    assert (state.head.version.number, state.governor.held) == (0, NOTHING)


# --- when it is asked -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "times"),
    [
        ({"audit": Audit()}, 0),  # a blast radius of 0.2, and trust is 1
        ({"audit": Audit(blast_radius=0.19)}, 1),
        ({"audit": Audit(blast_radius=0.2)}, 0),
        ({"audit": Audit(trust=1.01)}, 1),
        ({"audit": Audit(start=0.7)}, 1),
        ({"audit": ALWAYS, "budget": 0}, 0),
    ],
)
def test_it_is_asked_about_what_is_wide_or_not_trusted(fields: dict[str, Any], times: int) -> None:
    _, log = tell(a("up0"), **fields)
    assert labels(log) == [(0, "committed", ())]
    assert len(asked(log)) == 8 * times
    assert not any(isinstance(event, Skipped) and event.purpose == "audit" for event in log)


def test_trust_falls_when_the_cheap_subset_and_the_gate_differ() -> None:
    """The cheap subset is one task; what the candidate gains elsewhere it does not foretell."""
    fields: dict[str, Any] = {"audit": Audit(), "cheap_size": 1}
    first, log = tell(a("up0"), **fields)
    (cheap,) = first.split.cheap
    other = (cheap + 1) % 4
    agreed, _ = tell(a(f"up{cheap}"), **fields)
    assert agreed.trust == 1.25
    state, log = tell(a(f"up{other}"), a(f"fake{(cheap + 2) % 4}", "b"), a(f"fake{cheap}", "c"), **fields)
    assert [outcome for _, outcome, _ in labels(log)] == ["committed", "oracle-rejected", "oracle-rejected"]
    assert [event.audit for event in log if isinstance(event, GateOpened)] == [None, 2, 1]
    assert state.trust == 0.5  # 1 / 2 for the commit, / 2 for the first veto, + 0.25 for the second


def test_a_rejected_candidate_is_not_audited() -> None:
    _, log = tell(a("down3"), a("nothing", "b"), solved=(3,))
    assert [outcome for _, outcome, _ in labels(log)] == ["below-threshold", "below-threshold"]
    assert asked(log) == []


# --- the oracle's budget ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "audits"), [(7, [0, 0]), (8, [8, 0]), (11, [8, 0]), (12, [8, 4])])
def test_without_calls_left_it_commits_and_that_is_said(budget: int, audits: list[int]) -> None:
    _, log = tell(a("up0"), a("up1", "b"), budget=budget)
    assert labels(log) == [(0, "committed", ()), (1, "committed", ())]
    assert [event.audit for event in log if isinstance(event, GateOpened)] == audits
    assert len(asked(log)) == sum(audits)
    skipped = [event for event in log if isinstance(event, Skipped) and event.purpose == "audit"]
    unlooked = [subject for subject, calls_ in enumerate(audits) if not calls_]
    assert skipped == [Skipped("audit", subject, "unaffordable") for subject in unlooked]
    for event in skipped:
        following = log[log.index(event) + 1]
        assert isinstance(following, Judged)
        assert (following.subject, following.outcome) == (event.subject, "committed")


def test_a_call_that_failed_is_asked_again() -> None:
    _, straight = tell(a("up0"))
    first = calls(straight, "audit")[0].command.id
    state, log = tell(a("up0"), lost=(first,))
    assert labels(log) == [(0, "committed", ())]
    again = [one for one in calls(log, "audit") if one.attempt]
    assert [(one.attempt, one.command.task) for one in again] == [(1, 0)]
    assert (len(asked(log)), state.governor.held) == (9, NOTHING)
    # With no call left beyond those set aside it cannot be: what was to be looked at does not commit unseen.
    state, log = tell(a("up0"), lost=(first,), budget=8)
    (verdict,) = [event for event in log if isinstance(event, Judged)]
    assert verdict == Judged(
        0, "failed", (), FailureEvidence("budget", "asking the oracle about task t0 does not fit the budget")
    )
    assert (len(asked(log)), state.head.version.number, state.governor.held) == (8, 0, NOTHING)


def test_an_oracle_that_is_down_is_no_oracle_that_agrees() -> None:
    state, log = tell(a("up0"), a("up1", "b"), workers=2, rounds=1, failing=1.0, attempts=2)
    (verdict,) = [event for event in log if isinstance(event, Judged)]
    assert (verdict.outcome, verdict.contributors) == ("failed", (0, 1))
    assert isinstance(verdict.evidence, FailureEvidence)
    assert verdict.evidence.message.startswith(("timeout", "rate", "provider", "empty", "trunc", "malf", "scorer"))
    assert (state.head.version.number, state.governor.held) == (0, NOTHING)


def test_a_candidate_whose_audit_does_not_fit_is_not_gated() -> None:
    """Money: 4 calls for the base, a rollout, 4 for the gate, 8 for the audit."""
    _, enough = tell(a("up0"), caps=Caps(rollouts=17, rounds=1))
    assert labels(enough) == [(0, "committed", ())]
    state, short = tell(a("up0"), caps=Caps(rollouts=16, rounds=1))
    assert (labels(short), asked(short)) == ([], [])
    assert state.governor.spent.rollouts == 4
    _, unaudited = tell(a("up0"), caps=Caps(rollouts=9, rounds=1), audit=Audit())
    assert labels(unaudited) == [(0, "committed", ())]


# --- learning and promotion -------------------------------------------------------------------------------------------


def test_a_veto_teaches_the_allocator_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One negative label, with the whole vector of the decision, at the first contributor; the other is a record."""
    seen: list[tuple[Choice, str]] = []
    real = observe

    def spy(config: Any, learned: Any, choice: Choice, outcome: Any, *, screen: bool, learns: bool) -> Any:
        seen.append((choice, outcome))
        return real(config, learned, choice, outcome, screen=screen, learns=learns)

    monkeypatch.setattr(allotting, "observe", spy)
    spec, setup = jobs(8, workers=2)
    spec = replace(spec, shuffle=False, heldout_share=0.5, audit=ALWAYS, oracle_budget=8, caps=Caps(rounds=1))
    spec = replace(spec, allocator=ValueBudgetAllocator(), strategy=replace(spec.strategy, blast_radius=0.4))
    pair: Ops = (*a("fake1", "b"), *a("nothing", "c"))
    state, log = play(spec, setup, Fooled(proposals=(a("fake0"), pair)))
    made = {event.subject: event.choice for event in log if isinstance(event, Decided | Skipped) and event.choice}
    assert labels(log) == [(2, "oracle-rejected", (0, 1))]
    assert seen == [(made[0], "oracle-rejected"), (made[1], "co-contributor")]
    assert made[0].features == (0.0, math.log1p(1) / math.log1p(100), 0.4)
    assert (state.learned.verify.weights.observed, state.learned.verify.committed) == (1, 0)
    assert state.learned.verify.weights.bias < 0
    seen.clear()
    assert replay(log).state.learned == state.learned


def test_a_veto_puts_promotion_off() -> None:
    """Three merges without a commit or a veto make the head stable; the second of these is a veto."""

    def promoted(*proposals: Ops) -> int:
        """After how many verdicts."""
        _, log = tell(a("up0"), *proposals, fusion="none")
        at = next(n for n, event in enumerate(log) if isinstance(event, Promoted))
        return sum(isinstance(event, Judged) for event in log[:at])

    def useless(n: int) -> Ops:
        return a(f"nothing{n}", f"q{n}")

    assert promoted(*(useless(n) for n in range(6))) == 4
    assert promoted(useless(0), a("fake1", "f"), *(useless(n) for n in range(1, 6))) == 6


# --- beside other gates, and interrupted ------------------------------------------------------------------------------


def test_a_second_gate_waits_for_the_audit_in_progress() -> None:
    """Two gates on one head: the oracle is asked about the head once; when the first commits, the second is stale."""
    state, log = tell(a("up0"), a("up1", "b"), workers=2, rounds=1, fusion="none", open_gates=2, staleness="full")
    assert asked(log) == [
        *((0, "head", task) for task in range(4)),
        *((0, "own", task) for task in range(4)),
        *((1, "own", task) for task in range(4)),
    ]
    assert [event.version for event in log if isinstance(event, GateOpened)] == [0, 0, 1]
    assert state.head.version.number == 2
    _, vetoed = tell(a("fake0"), a("up1", "b"), workers=2, rounds=1, fusion="none", open_gates=2)
    assert labels(vetoed) == [(0, "oracle-rejected", ()), (1, "committed", ())]
    assert [one[:2] for one in asked(vetoed)] == [(0, "head")] * 4 + [(0, "own")] * 4 + [(1, "own")] * 4
    # Together they set aside no more than there is.
    # Together they set aside no more than there is; one that is not audited waits all the same.
    for first in (a("fake0"), a("up0")):
        _, short = tell(first, a("up1", "b"), workers=2, rounds=1, fusion="none", open_gates=2, budget=12)
        assert [event.audit for event in short if isinstance(event, GateOpened)][:2] == [8, 0]
        assert [subject for subject, _, _ in labels(short)] == [0, 1]


def test_an_interrupted_audit_is_gone_on_with() -> None:
    _, straight = tell(a("up0"))
    first = straight.index(calls(straight, "audit")[0])

    for at in range(first, first + 20):

        def stop(state: State, number: int, at: int = at) -> Event | None:
            if number == at and state.interrupted is None and state.stopped is None:
                return Interrupted("cancelled")
            return Amended(Caps(rounds=1)) if state.stopped is not None and state.interrupted is not None else None

        state, log = tell(a("up0"), meddle=stop)
        ends = [event for event in log if isinstance(event, Stopped)]
        assert len(ends) <= 2
        assert labels(log) == [(0, "committed", ())]
        assert len(asked(log)) == 8
        assert state.governor.held == NOTHING


# --- arbitrary runs ---------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(any_job(over=True), st.integers(0, 9_999), st.integers(1, 40), st.booleans())
def test_books_balance_where_everything_is_audited(job: Job, seed: int, budget: int, troubled: bool) -> None:
    """`world.Watch` holds the oracle's budget, its verdicts and every skip against books of its own."""
    spec, setup, world = job
    spec = replace(spec, audit=ALWAYS, oracle_budget=budget, caps=replace(spec.caps, rounds=3))
    world = replace(world, menu=("good", "good", "clash", "pair"), doubt=0.2)
    state, log = play(spec, setup, world, order=any_order(seed), meddle=trouble(seed) if troubled else None)
    assert len(calls(log, "audit")) <= budget or troubled  # an orphan that never started costs nothing
    found = replay(log)
    assert (found.divergence, found.state) == (None, state)


@given(any_job(failing=False), st.integers(0, 9_999))
def test_an_oracle_without_calls_changes_no_decision(job: Job, seed: int) -> None:
    """But that the audits left out are told."""
    spec, setup, world = job
    off, on = (replace(spec, oracle_budget=budget, audit=ALWAYS) for budget in (0, 1))
    _, without = play(off, setup, world)
    _, told = play(on, setup, world)
    skipped = [event for event in told if isinstance(event, Skipped) and event.purpose == "audit"]
    rest = [event for event in told if event not in skipped]
    plain = [replace(event, audit=None) if isinstance(event, GateOpened) else event for event in rest[1:]]
    assert plain == without[1:]
