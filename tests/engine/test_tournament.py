"""Tournaments told by hand: who is scored, who wins, and what becomes of a comparison that cannot be had."""

from __future__ import annotations

from typing import Any

from agentdescent import Caps
from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.engine.event import Committed, Decided, Event, Judged, Skipped
from agentdescent.history.outcomes import outcomes
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.verdict import GateEvidence, SubsetEvidence
from tests.engine.test_attribution import SCHEDULES, Schedule
from tests.engine.test_merge_life import a, asked, gates, tell, verdicts
from tests.world import calls

ON: dict[str, Any] = {"tournament": True, "cheap_size": 2}
"""With this seed the cheap tasks are 1 and 2."""
PAIR = (a("up1", "a"), a("up2", "b"))


def test_the_union_is_scored_first_and_each_position_once() -> None:
    """What the union was scored on counts in its gate, and what a single was scored on in its own."""
    state, log = tell(*PAIR, **ON)
    cheap = [state.split.heldout[position] for position in state.split.cheap]
    assert [(subject, task) for _, subject, task in asked(log, "tournament")] == [
        (subject, task) for subject in (2, 0, 1) for task in cheap
    ]
    assert gates(log) == [(2, (0, 1), 0)]
    assert {task for _, _, task in asked(log, "gate")} == set(state.split.heldout) - set(cheap)
    assert outcomes(log) == {0: "committed", 1: "co-contributor", 2: "committed"}


@SCHEDULES
def test_the_first_maximum_wins_and_singles_before_the_union(schedule: Schedule) -> None:
    """Both singles and the union solve one cheap task more: the first single goes forward, the others have lost."""
    _, log = tell(
        a("up0", "a"), a("up0 x", "b"), schedule=schedule, merge_size=2, self_verify=True, tournament=True, cheap_size=4
    )
    ended = [event for event in log if isinstance(event, Judged) and event.subject < 3]
    lost = SubsetEvidence(MILLION, MILLION, 0)
    assert [(one.subject, one.outcome, one.contributors) for one in ended] == [
        (1, "lost-tournament", ()),
        (2, "lost-tournament", ()),
        (0, "committed", ()),
    ]
    assert [one.evidence for one in ended[:2]] == [lost, lost]
    assert gates(log) == [(0, (0,), 0)]
    assert asked(log, "gate") == [], "it was scored on every held-out task"


def test_three_entrants_lose_each_by_its_own_score() -> None:
    _, log = tell(
        a("x", "a"), a("up0 up1", "b"), a("down2", "c"), workers=3, solved=(2,), tournament=True, cheap_size=4
    )
    assert [event for event in verdicts(log) if isinstance(event, Judged)][:3] == [
        Judged(0, "lost-tournament", (), SubsetEvidence(MILLION, 3 * MILLION, 1)),
        Judged(2, "lost-tournament", (), SubsetEvidence(0, 3 * MILLION, 1)),
        Judged(3, "lost-tournament", (), SubsetEvidence(2 * MILLION, 3 * MILLION, 1)),
    ]


def test_a_rejected_winner_is_not_split() -> None:
    _, log = tell(a("up0 down2 down3", "a"), a("down0 down1", "b"), solved=(1, 2, 3), tournament=True, cheap_size=1)
    labels = outcomes(log)
    assert sorted(labels.values()) == ["below-threshold", "lost-tournament", "lost-tournament"]


def test_a_task_that_cannot_be_scored_decides_nothing() -> None:
    """The union goes forward, with what was scored."""
    _, straight = tell(*PAIR, attempts=1, **ON)
    at = asked(straight, "tournament")[2][0]
    _, log = tell(*PAIR, attempts=1, lost=(at,), **ON)
    assert "lost-tournament" not in outcomes(log).values()
    assert gates(log) == [(2, (0, 1), 0)]
    assert not {task for _, _, task in asked(log, "gate")} & {
        task for _, subject, task in asked(log, "tournament") if subject == 2
    }
    assert [event.subject for event in log if isinstance(event, Committed)] == [2]


def test_a_failed_task_is_asked_again() -> None:
    _, straight = tell(*PAIR, **ON)
    at = asked(straight, "tournament")[0][0]
    _, log = tell(*PAIR, lost=(at,), **ON)
    attempts = [event.attempt for event in calls(log, "tournament")]
    assert sorted(attempts) == [0] * 6 + [1]
    assert gates(log) == gates(straight)


def skips(log: list[Event]) -> list[tuple[int, str]]:
    return [
        (event.subject, event.reason) for event in log if isinstance(event, Skipped) and event.purpose == "tournament"
    ]


def test_a_budget_turns_it_off_and_never_on() -> None:
    free, log = tell(*PAIR, **ON)
    spent = free.governor.spent.tokens
    before = sum(
        one.command.reserve.tokens
        for one in log
        if isinstance(one, Decided) and one.command.id < asked(log, "tournament")[0][0]
    )
    assert skips(log) == []
    cap = round(before / 0.75)
    _, late = tell(*PAIR, caps=Caps(tokens=max(cap, spent), rounds=1), soft_floor=before / max(cap, spent), **ON)
    assert skips(late) == [(2, "clock")]
    assert gates(late) == [(2, (0, 1), 0)], "the union has the number it was skipped by"
    _, off = tell(*PAIR, caps=Caps(tokens=10**9, rounds=1))
    assert calls(off, "tournament") == []
    assert skips(off) == []


def test_the_whole_worst_case_has_to_fit_with_the_gate() -> None:
    _, log = tell(*PAIR, **ON)
    first = asked(log, "tournament")[0][0]
    used = first - 1 + 1  # rollouts and proposals so far, one call each
    needed = used + 6 + 4  # every entrant on two tasks, and the gate on four
    for calls_left, reason in ((needed, []), (needed - 1, [(2, "unaffordable")])):
        _, capped = tell(*PAIR, caps=Caps(calls=calls_left, rounds=1), **ON)
        assert skips(capped) == reason
        assert [event.subject for event in capped if isinstance(event, Committed)] == [2]


@SCHEDULES
def test_the_allocator_may_skip_it(schedule: Schedule) -> None:
    """Its choice stays with the union, which is put forward as it is."""
    config = ValueBudgetAllocator(
        stages=("tournament",),
        budget_start=2.0,
        min_observations=0,
        min_weight=-1.0,
        epsilon_start=0.0,
        epsilon_end=0.0,
    )
    nothing = (a("down1 x", "a"), a("down1 y", "b"), (), a("up1", "c"), a("up2", "d"))
    fields = {**ON, "schedule": schedule, "merge_size": 2, "rounds": 2, "self_verify": True, "staleness": "full"}
    state, log = tell(*nothing, solved=(1,), allocator=config, **fields)
    assert skips(log) == [(5, "allocator")]
    assert outcomes(log)[5] == "committed"
    assert (state.learned.tournament.skipped, state.learned.tournament.committed) == (1, 1)


def test_the_gate_of_a_union_that_lost_nothing_says_so() -> None:
    _, log = tell(a("x", "a"), a("y", "b"), tournament=True, cheap_size=4)
    evidence = [
        event.evidence for event in log if isinstance(event, Judged) and isinstance(event.evidence, GateEvidence)
    ]
    assert [one.answered for one in evidence] == [one.total for one in evidence]
