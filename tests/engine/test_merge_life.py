"""The life of candidates between proposal and verdict, told by hand: whole sequences of verdicts and commits.

Tasks 0 to 3 (of 8) decide, 4 to 7 train, worker w of n on 4 + w first. A rule "up3" solves task 3, "down3" unsolves it.
"""

from __future__ import annotations

from typing import Any

import pytest

from agentdescent import Caps, Setup, Usage
from agentdescent.artifact.diff import Add, Drop, Entries, Ops, Replace
from agentdescent.artifact.strategy import Strategy
from agentdescent.budget.governor import Purpose
from agentdescent.engine.command import Command
from agentdescent.engine.event import (
    Amended,
    Committed,
    Decided,
    Event,
    Failed,
    GateOpened,
    Interrupted,
    Judged,
    Outcome,
    Promoted,
    Skipped,
    SkipReason,
    Stopped,
)
from agentdescent.engine.state import State
from agentdescent.history.outcomes import outcomes
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.verdict import (
    FailureEvidence,
    GateEvidence,
    StaleEvidence,
    SubsetEvidence,
    VerifyEvidence,
)
from agentdescent.record import replace
from tests.world import Order, World, calls, jobs, oldest_first, opened, play


class Script(World, frozen=True):
    """`solved_first`: tasks the start solves. `proposals`: by number, none after the last. `lost`: ids of calls that
    fail."""

    solved_first: tuple[int, ...] = ()
    proposals: tuple[Ops, ...] = ()
    lost: tuple[int, ...] = ()
    exact: float = 1.0

    def score(self, task: int, rendered: str) -> int:
        solved = task in self.solved_first
        for word in rendered.split():
            solved = (solved or word == f"up{task}") and word != f"down{task}"
        return solved * MILLION

    def ops(self, subject: int) -> Ops:
        return self.proposals[subject] if subject < len(self.proposals) else ()

    def reply(self, setup: Setup, strategy: Strategy, command: Command, entries: Entries) -> Outcome:
        if command.id in self.lost:
            return Failed(command.id, "provider", f"no answer to {command.id}", Usage(3, 0))
        return super().reply(setup, strategy, command, entries)


def a(text: str, key: str = "a") -> Ops:
    return (Add(key, text),)


def tell(
    *proposals: Ops,
    workers: int = 2,
    rounds: int = 1,
    tasks: int = 8,
    solved: tuple[int, ...] = (),
    lost: tuple[int, ...] = (),
    order: Order = oldest_first,
    caps: Caps | None = None,
    start: Entries = (),
    **fields: Any,
) -> tuple[State, list[Event]]:
    spec, setup = jobs(tasks, workers=workers)
    spec = replace(spec, shuffle=False, heldout_share=0.5, self_verify=False, caps=caps or Caps(rounds=rounds))
    for name, value in fields.items():
        assert hasattr(spec, name)
        spec = replace(spec, **{name: value})
    return play(
        spec,
        replace(setup, artifact=start),
        Script(solved_first=solved, proposals=proposals, lost=lost),
        order=order,
    )


def verdicts(log: list[Event]) -> list[Event]:
    """What became of every candidate, in order."""
    return [event for event in log if isinstance(event, Judged | Committed)]


def asked(log: list[Event], *purposes: Purpose) -> list[tuple[int, int, int]]:
    """(command, subject, task) of every rollout asked for these purposes."""
    return [
        (one.command.id, one.subject, one.command.task)
        for one in log
        if isinstance(one, Decided) and any(one in calls([one], purpose) for purpose in purposes)
    ]


def gates(log: list[Event]) -> list[tuple[int, tuple[int, ...], int]]:
    return [(event.subject, event.contributors, event.version) for event in log if isinstance(event, GateOpened)]


def gate(gain: int, loss: int, p: int, bar: int = 500_000, *, answered: int = 4, split: bool = False) -> GateEvidence:
    return GateEvidence(gain * MILLION, loss * MILLION, p, bar, answered, 4, split)


def committed(subject: int, base: int, artifact_of: list[Event], solved: int) -> Committed:
    """With the digest that the gate named."""
    opened_gate = next(
        event
        for event in reversed(artifact_of)
        if isinstance(event, GateOpened) and (event.subject, event.version) == (subject, base)
    )
    return Committed(subject, base, opened_gate.artifact, solved * MILLION)


# --- fusion -----------------------------------------------------------------------------------------------------------


def test_a_union_of_two_commits_and_labels_the_first_contributor() -> None:
    state, log = tell(a("up0", "a"), a("up1", "b"))
    assert gates(log) == [(2, (0, 1), 0)]
    assert verdicts(log) == [
        Judged(2, "committed", (0, 1), gate(2, 0, 875_000)),
        committed(2, 0, log, 2),
    ]
    assert outcomes(log) == {0: "committed", 1: "co-contributor", 2: "committed"}
    assert state.head.version.entries == (("a", "up0"), ("b", "up1"))


def test_a_union_that_is_one_of_its_members_is_no_union() -> None:
    """What proposes all that the others do goes first, and alone; what it brings is then in the head already."""
    state, log = tell(a("up0", "a"), (*a("up0", "a"), *a("up1", "b")))
    assert gates(log) == [(1, (1,), 0)]
    assert verdicts(log) == [
        Judged(1, "committed", (), gate(2, 0, 875_000)),
        committed(1, 0, log, 2),
        Judged(0, "duplicate"),
    ]
    assert state.head.version.entries == (("a", "up0"), ("b", "up1"))


def test_a_rejected_union_is_split_older_half_first() -> None:
    """s0 and s1 together lose; apart, s0 commits. What is left is rebased on it and judged on its own."""
    state, log = tell(
        a("up3", "a"), a("down0 down1", "b"), a("same", "c"), a("down2", "d"), workers=4, solved=(0, 1, 2)
    )
    assert gates(log) == [
        (4, (0, 1, 2, 3), 0),
        (5, (0, 1), 0),
        (0, (0,), 0),
        (1, (1,), 1),
        (6, (2, 3), 1),
        (2, (2,), 1),
        (3, (3,), 1),
    ]
    full = gate(0, 0, 500_000, 505_386, answered=0)
    assert verdicts(log) == [
        Judged(4, "below-threshold", (), gate(1, 1, 500_000, answered=2, split=True)),
        Judged(5, "below-threshold", (), gate(1, 1, 500_000, answered=2, split=True)),
        Judged(0, "committed", (), gate(1, 0, 750_000)),
        committed(0, 0, log, 4),
        Judged(1, "below-threshold", (), full),
        Judged(6, "below-threshold", (), replace(full, split=True)),
        Judged(2, "below-threshold", (), full),
        Judged(3, "below-threshold", (), full),
    ]
    assert asked(log, "rebase") == [(20, 1, 5), (21, 1, 5), (22, 2, 6), (23, 2, 6), (24, 3, 7), (25, 3, 7)]
    assert outcomes(log)[4] == "below-threshold"
    assert state.head.version.entries == (("a", "up3"),)


def test_without_fusion_each_goes_alone() -> None:
    _, log = tell(a("up0", "a"), a("up1", "b"), fusion="none", staleness="full")
    assert gates(log) == [(0, (0,), 0), (1, (1,), 1)]
    assert verdicts(log) == [
        Judged(0, "committed", (), gate(1, 0, 750_000)),
        committed(0, 0, log, 1),
        Judged(1, "committed", (), gate(1, 0, 750_000, 505_386)),
        committed(1, 1, log, 2),
    ]


def test_what_was_rejected_against_this_head_is_not_paid_for_again() -> None:
    down0, down1 = a("down0", "a"), a("down1", "b")
    _, log = tell(down0, down1, (), down1, down0, rounds=2, solved=(0, 1, 2))
    assert gates(log) == [(2, (0, 1), 0), (0, (0,), 0), (1, (1,), 0)]
    alone = gate(0, 0, 500_000, answered=1)
    assert verdicts(log) == [
        Judged(2, "below-threshold", (), replace(alone, split=True)),
        Judged(0, "below-threshold", (), alone),
        Judged(1, "below-threshold", (), alone),
        Judged(3, "duplicate"),
        Judged(4, "duplicate"),
    ]


# --- conflicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "loser", "own", "rival"),
    [
        ("up0", "up0 up1", 0, 1, 2),
        ("up0 up1", "up0", 1, 1, 2),
        ("up0", "up1", 1, 1, 1),
    ],
    ids=["a better newcomer evicts", "a worse newcomer is dropped", "a tie is for who was there"],
)
def test_of_two_that_contradict_the_better_on_the_cheap_subset_stays(
    first: str, second: str, loser: int, own: int, rival: int
) -> None:
    _, log = tell(a(first), a(second))
    winner = 1 - loser
    best = max(own, rival)
    assert verdicts(log) == [
        Judged(loser, "lost-conflict", (), SubsetEvidence(own * MILLION, rival * MILLION, winner)),
        Judged(winner, "committed", (), gate(best, 0, 875_000 if best == 2 else 750_000)),
        committed(winner, 0, log, best),
    ]
    assert asked(log, "conflict") == [(8 + n, n // 4, n % 4) for n in range(8)]
    assert asked(log, "gate") == []


def test_a_gate_asks_only_what_the_duel_did_not() -> None:
    _, log = tell(a("up0 up1 up2 up3"), a("up0"), cheap_size=2)
    duel, rest = asked(log, "conflict"), asked(log, "gate")
    cheap = [task for _, subject, task in duel if subject == 0]
    assert len(cheap) == 2
    assert [task for _, subject, task in duel if subject == 1] == cheap
    assert sorted((*cheap, *(task for _, _, task in rest))) == [0, 1, 2, 3]
    assert [event for event in verdicts(log) if isinstance(event, Judged)][1:] == [
        Judged(0, "committed", (), gate(4, 0, 968_750)),
    ]


def test_a_drop_contradicts_what_sets_the_same_key() -> None:
    _, log = tell((Drop("k"),), (Replace("k", "up1"),), start=(("k", "down0"),), solved=(0,))
    assert verdicts(log) == [
        Judged(0, "lost-conflict", (), SubsetEvidence(MILLION, 2 * MILLION, 1)),
        Judged(1, "committed", (), gate(2, 0, 875_000)),
        committed(1, 0, log, 2),
    ]


def test_a_third_that_contradicts_two_must_beat_each() -> None:
    _, log = tell(
        a("up0", "a"),
        a("up1", "b"),
        (Add("a", "up0 up1"), Add("b", "up2")),
        workers=3,
        tasks=10,
        heldout_share=0.4,
    )
    assert [event for event in verdicts(log) if isinstance(event, Judged)] == [
        Judged(0, "lost-conflict", (), SubsetEvidence(MILLION, 3 * MILLION, 2)),
        Judged(1, "lost-conflict", (), SubsetEvidence(MILLION, 3 * MILLION, 2)),
        Judged(2, "committed", (), gate(3, 0, 937_500)),
    ]
    assert [subject for _, subject, _ in asked(log, "conflict")] == [0] * 4 + [2] * 4 + [1] * 4


# --- staleness --------------------------------------------------------------------------------------------------------


FIRST = (a("up0", "a"), (), ())
"""Worker 0 commits in round 1; in round 2 worker 1 still holds version 0 when its copies live for two rounds."""


@pytest.mark.parametrize(("policy", "measured"), [("guarded", 2), ("reflective", 2), ("full", 0)])
def test_a_stale_card_is_rebased_and_kept(policy: str, measured: int) -> None:
    _, log = tell(*FIRST, a("up1", "b"), rounds=2, refresh_interval=2, staleness=policy)
    assert len(asked(log, "rebase")) == measured
    assert verdicts(log)[3:] == [
        Judged(2, "declined"),
        Judged(3, "committed", (), gate(1, 0, 750_000, 505_386)),
        committed(3, 1, log, 2),
    ]


def test_a_stale_card_that_hurts_the_head_is_discarded() -> None:
    """Rule a also solves worker 1's task, which its own change would lose again."""
    _, log = tell(a("up0 up7", "a"), (), (), a("up1 down7", "b"), rounds=2, refresh_interval=2)
    assert asked(log, "rebase") == [(16, 3, 7), (17, 3, 7)]
    assert verdicts(log)[3:] == [
        Judged(2, "declined"),
        Judged(3, "all-stale", (), StaleEvidence(1, MILLION, 0)),
    ]


def test_a_card_two_versions_behind_is_discarded_unmeasured() -> None:
    commits = (a("up0", "a"), (), (), (), a("up1", "b"), (), (), (), a("up2", "c"), (), (), a("up3", "d"))
    _, log = tell(*commits, tasks=12, heldout_share=0.5, workers=4, rounds=3, refresh_interval=4)
    assert [event for event in verdicts(log) if isinstance(event, Judged) and event.outcome == "all-stale"] == [
        Judged(8, "all-stale", (), StaleEvidence(2)),
        Judged(11, "all-stale", (), StaleEvidence(2)),
    ]
    assert [subject for _, subject, _ in asked(log, "rebase")] == [4, 4]


def test_a_stale_card_already_in_the_head_is_a_duplicate() -> None:
    _, log = tell(*FIRST, a("up0", "a"), rounds=2, refresh_interval=2)
    assert verdicts(log)[3:] == [Judged(2, "declined"), Judged(3, "duplicate")]


def test_a_change_of_keys_that_reads_the_same_is_no_change() -> None:
    """Its rendering is the head's: there is nothing to measure, before and after a commit."""
    renamed = (Drop("k"), Add("l", "down3"))
    _, log = tell(*FIRST, renamed, rounds=2, refresh_interval=2, start=(("k", "down3"),))
    assert verdicts(log)[3:] == [Judged(2, "declined"), Judged(3, "declined")]
    beside = (Drop("k"), Add("l", "down3"), Add("a", "up0"))
    _, log = tell(a("up0", "a"), (), (), beside, rounds=2, refresh_interval=2, start=(("k", "down3"),))
    assert verdicts(log)[3:] != []


# --- what is closed before it costs -----------------------------------------------------------------------------------


def test_oversized_and_empty_proposals_cost_nothing_more() -> None:
    many = tuple(Add(f"k{n}", "x") for n in range(7))
    _, log = tell(many, a("x" * 32_001), (), (Drop("absent"),), workers=4)
    assert verdicts(log) == [
        Judged(0, "oversized"),
        Judged(1, "oversized"),
        Judged(2, "declined"),
        Judged(3, "declined"),
    ]
    assert asked(log, "verify", "gate", "conflict") == []


def test_the_largest_allowed_is_not_oversized() -> None:
    six = (*(Add(f"k{n}", "x") for n in range(5)), Add("k", "x" * 32_000))
    _, log = tell(six, (), workers=1)
    assert [event.outcome for event in verdicts(log) if isinstance(event, Judged)] == ["below-threshold"]


def test_duplicates_of_an_open_card_and_of_a_rejected_diff() -> None:
    _, log = tell(a("x"), a("x"), a("x"), a("x"), rounds=2)
    assert verdicts(log) == [
        Judged(1, "duplicate"),
        Judged(0, "below-threshold", (), gate(0, 0, 500_000)),
        Judged(2, "duplicate"),
        Judged(3, "duplicate"),
    ]
    assert gates(log) == [(0, (0,), 0)]


# --- self-verify ------------------------------------------------------------------------------------------------------


def test_the_screen_stops_what_did_not_gain() -> None:
    _, log = tell(
        a("up0 up4", "a"),
        a("x", "b"),
        a("down6", "c"),
        a("up7 up1", "d"),
        workers=4,
        self_verify=True,
        screen=True,
    )
    assert asked(log, "verify") == [(12, 0, 4), (13, 1, 5), (14, 2, 6), (15, 3, 7)]
    assert verdicts(log) == [
        Judged(1, "not-worth-gating", (), VerifyEvidence(0)),
        Judged(2, "not-worth-gating", (), VerifyEvidence(0)),
        Judged(4, "committed", (0, 3), gate(2, 0, 968_750)),
        committed(4, 0, log, 2),
    ]
    weights = [(event.weight_gain, event.weight_loss) for event in log if isinstance(event, GateOpened)]
    assert weights == [(2 * MILLION, 0)]


CALL = 10 + 8 + 50
"""Of the start (10 bytes) on a task (20 bytes): overhead, a token for four bytes, the ceiling."""


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("off", {"self_verify": False}),
        ("clock", {"self_verify": True, "hard_floor": 0.1, "caps": Caps(tokens=3_000, rounds=1)}),
        ("unaffordable", {"self_verify": True, "hard_floor": 1.0, "caps": Caps(tokens=4 * CALL + 458, rounds=1)}),
    ],
)
def test_a_verify_that_is_not_made_says_why(reason: SkipReason, fields: dict[str, Any]) -> None:
    _, log = tell(a("up0"), workers=1, **fields)
    assert [event for event in log if isinstance(event, Skipped)] == [Skipped("verify", 0, reason)]
    assert asked(log, "verify") == []
    assert verdicts(log) == [Judged(0, "committed", (), gate(1, 0, 750_000)), committed(0, 0, log, 1)]


def test_a_verify_that_fails_for_good_leaves_the_card_without_evidence() -> None:
    _, log = tell(a("up0 up4"), workers=1, self_verify=True, attempts=2, lost=(6, 7))
    assert asked(log, "verify") == [(6, 0, 4), (7, 0, 4)]
    assert [event.weight_gain for event in log if isinstance(event, GateOpened)] == [0]
    assert verdicts(log) == [Judged(0, "committed", (), gate(1, 0, 750_000)), committed(0, 0, log, 1)]


# --- failures ---------------------------------------------------------------------------------------------------------


def no_answer(ident: int) -> FailureEvidence:
    return FailureEvidence("provider", f"no answer to {ident}")


def test_a_gate_asks_a_failed_task_again_and_then_has_failed() -> None:
    _, log = tell(a("up0", "a"), a("up1", "b"), attempts=2, lost=(9,))
    assert asked(log, "gate") == [(8, 2, 0), (9, 2, 1), (10, 2, 2), (11, 2, 3), (12, 2, 1)]
    assert [event.outcome for event in verdicts(log) if isinstance(event, Judged)] == ["committed"]
    _, log = tell(a("up0", "a"), a("up1", "b"), attempts=2, lost=(9, 12))
    assert verdicts(log) == [Judged(2, "failed", (0, 1), no_answer(12))]
    assert outcomes(log) == {0: "failed", 1: "co-contributor", 2: "failed"}


def test_a_rebase_that_fails_for_good_closes_the_card() -> None:
    _, log = tell(*FIRST, a("up1", "b"), rounds=2, refresh_interval=2, attempts=2, lost=(16, 18))
    assert asked(log, "rebase") == [(16, 3, 7), (17, 3, 7), (18, 3, 7)]
    assert verdicts(log)[4:] == [Judged(3, "failed", (), no_answer(18))]


@pytest.mark.parametrize(("lost", "failed"), [(9, 0), (13, 1)])
def test_a_duel_that_fails_for_good_closes_the_one_that_could_not_be_scored(lost: int, failed: int) -> None:
    _, log = tell(a("up0"), a("up0 up1"), attempts=1, lost=(lost,))
    assert verdicts(log)[0] == Judged(failed, "failed", (), no_answer(lost))
    assert [event.subject for event in verdicts(log) if isinstance(event, Committed)] == [1 - failed]


def test_a_proposal_that_fails_for_good_is_closed_by_the_failure() -> None:
    _, log = tell(workers=1, attempts=2, lost=(5, 6))
    assert verdicts(log) == [Judged(0, "failed", (), no_answer(6))]


# --- several gates on one head ----------------------------------------------------------------------------------------


def starving(victim: int) -> tuple[Order, list[State]]:
    """Answers calls of stale gates first, then of any other than the victim's: its gate never ends."""
    seen: list[State] = []

    def order(admissible: tuple[int, ...], number: int) -> int:
        state = seen[-1]
        stale = {one.subject for one in (state.sweep.gates if state.sweep is not None else ()) if one.status == "stale"}
        open_now = {decided.command.id: decided.subject for decided in opened(state)}
        return min(admissible, key=lambda ident: (open_now[ident] not in stale, open_now[ident] == victim, ident))

    return order, seen


def starve(victim: int, *proposals: Ops) -> list[Event]:
    order, seen = starving(victim)

    def watch(state: State, number: int) -> Event | None:
        seen.append(state)
        return None

    spec, setup = jobs(16, workers=len(proposals))
    spec = replace(
        spec,
        shuffle=False,
        heldout_share=0.5,
        self_verify=False,
        caps=Caps(rounds=1),
        open_gates=2,
        fusion="none",
        admission="arrival",
    )
    return play(spec, setup, Script(proposals=proposals), order=order, meddle=watch)[1]


def test_a_gate_under_which_the_head_moved_is_rebased_and_reopened() -> None:
    log = starve(0, a("up0", "a"), a("up1", "b"))
    assert gates(log) == [(0, (0,), 0), (1, (1,), 0), (0, (0,), 1)]
    first, second = (event for event in log if isinstance(event, Judged))
    assert (first.subject, first.outcome, second.subject, second.outcome) == (1, "committed", 0, "committed")
    assert [subject for _, subject, _ in asked(log, "rebase")] == [0, 0]
    assert [event.subject for event in log if isinstance(event, Committed)] == [1, 0]


def test_after_three_reopenings_it_is_a_conflict() -> None:
    log = starve(0, *(a(f"up{n}", f"k{n}") for n in range(8)))
    assert [version for subject, _, version in gates(log) if subject == 0] == [0, 2, 4, 6]
    closed = {event.subject: event.outcome for event in log if isinstance(event, Judged)}
    assert closed == {0: "cas-conflict", **dict.fromkeys(range(1, 8), "committed")}
    assert [event.subject for event in log if isinstance(event, Committed)] == [1, 2, 3, 4, 5, 6, 7]


def test_a_stale_union_is_judged_and_its_cards_go_through_the_merge_again() -> None:
    """Answered newest first: the younger half commits while the older one is open. `cas-conflict` closes the union,
    not its cards."""
    _, log = tell(
        a("up3", "a"),
        a("x", "b"),
        a("down0", "c"),
        a("up2 down1", "d"),
        workers=4,
        solved=(0, 1),
        open_gates=2,
        curtail=False,
        staleness="full",
        admission="arrival",
        order=lambda admissible, number: admissible[-1],
    )
    assert gates(log) == [
        (4, (3, 2, 1, 0), 0),
        (5, (3, 2), 0),
        (6, (1, 0), 0),
        (7, (3, 2), 1),
        (3, (3,), 1),
        (2, (2,), 1),
    ]
    assert verdicts(log) == [
        Judged(4, "below-threshold", (), gate(2, 2, 500_000, split=True)),
        Judged(6, "committed", (1, 0), gate(1, 0, 750_000)),
        committed(6, 0, log, 3),
        Judged(5, "cas-conflict"),
        Judged(7, "regression", (), gate(1, 2, 312_500, 505_386, split=True)),
        Judged(2, "regression", (), gate(0, 1, 250_000, 505_386)),
        Judged(3, "below-threshold", (), gate(1, 1, 500_000, 505_386)),
    ]


def test_once_interrupted_a_gate_that_needs_no_more_is_judged_behind_one_that_does() -> None:
    """Both ask for the one failing task first. Gate 0 would go on, gate 1 is hopeless."""
    spec, setup = jobs(8, workers=2)
    spec = replace(spec, shuffle=False, heldout_share=0.5, self_verify=False, open_gates=2, fusion="none")

    def interrupt(state: State, number: int) -> Event | None:
        both = state.sweep is not None and len(state.sweep.gates) == 2 and state.window.count == 2
        return Interrupted("cancelled") if both and state.interrupted is None else None

    world = Script(proposals=(a("up3", "a"), a("same", "b")), solved_first=(0, 1, 2))
    _, log = play(replace(spec, caps=Caps(rounds=1)), setup, world, meddle=interrupt)
    assert verdicts(log) == [Judged(1, "below-threshold", (), gate(0, 0, 500_000, answered=1))]
    assert log[-1] == Stopped("cancelled", "", (0,))
    _, log = play(spec, setup, world, log=[*log, Amended(Caps(rounds=1))])
    assert verdicts(log)[1:] == [Judged(0, "committed", (), gate(1, 0, 750_000)), committed(0, 0, log, 4)]


# --- cards that wait for money ----------------------------------------------------------------------------------------


def test_a_card_whose_gate_does_not_fit_waits_while_others_are_judged() -> None:
    """A text of 2,000 bytes makes a gate of 2,276 tokens. With more money, and no more rounds, it is judged."""
    proposals = (a("x" * 2_000, "a"), a("up0", "b"))
    _, log = tell(*proposals, caps=Caps(tokens=1_500, rounds=1))
    first = [Judged(1, "committed", (), gate(1, 0, 750_000)), committed(1, 0, log, 1)]
    assert (verdicts(log), log[-1]) == (first, Stopped("rounds", "", (0,)))
    spec, setup = jobs(8, workers=2)
    world = Script(proposals=proposals)
    _, log = play(spec, setup, world, log=[*log, Amended(Caps(tokens=9_000, rounds=1))])
    assert verdicts(log) == [*first, Judged(0, "below-threshold", (), gate(0, 0, 500_000, 505_386, answered=3))]
    assert asked(log, "rebase") != []
    assert log[-1] == Stopped("rounds")


# --- promotion --------------------------------------------------------------------------------------------------------


def test_the_head_is_promoted_after_three_quiet_merges_and_at_the_end() -> None:
    state, log = tell(a("up0"), workers=1, rounds=6)
    numbers = [event for event in log if isinstance(event, Promoted | Stopped)]
    assert numbers == [Promoted(1), Stopped("rounds")]
    assert state.stable == state.head.version
