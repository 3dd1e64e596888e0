"""The continuous schedule: how far workers run ahead, what a merge waits for, in which order answers are folded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Caps, Rate, Setup, Spec, State, Tariff, Wait, apply, decide, initial, seeded, vector
from agentdescent.artifact.diff import Add, Ops
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import Amended, Committed, Decided, Event, Failed, GateOpened, Outcome, Stopped
from agentdescent.engine.flow import (
    Flow,
    all_idle,
    in_progress,
    lanes,
    next_round,
    turn_began,
    turn_ended,
    within_bound,
)
from agentdescent.merge.sweep import at_work, finished
from agentdescent.record import replace
from tests.strategies import Job, any_job
from tests.world import World, any_order, calls, jobs, opened, play


def continuous(workers: int = 4) -> tuple[Spec, Setup]:
    spec, setup = jobs(40, workers=workers)
    return replace(spec, schedule="continuous", caps=Caps(rounds=12), merge_size=2, async_ratio=1), setup


# --- the flow -----------------------------------------------------------------------------------------------------


def test_every_worker_may_begin_and_none_twice() -> None:
    spec = replace(continuous(workers=4)[0], admission="ordered", window=3)
    flow = all_idle(spec)
    assert (lanes(spec), flow.idle) == (12, tuple(range(12)))
    for lane in range(4):
        assert within_bound(flow, spec, 0)
        flow = turn_began(flow, lane)
    assert (in_progress(flow, spec), within_bound(flow, spec, 0)) == (4, False)
    assert next_round(flow, spec) == 2


def test_the_window_opens_where_turns_bring_nothing_and_closes_where_they_do() -> None:
    spec = replace(continuous(workers=4)[0], window=3)
    barren, fertile = Flow(tuple(range(12)), ended=96, brought=0), Flow(tuple(range(12)), ended=96, brought=98)

    def ahead(flow: Flow, unmerged: int) -> int:
        lane = 0
        while flow.idle and within_bound(flow, spec, unmerged):
            flow, lane = turn_began(flow, lane), lane + 1
        return in_progress(flow, spec)

    assert [ahead(barren, 0), ahead(barren, 1), ahead(barren, 2)] == [12, 12, 0]
    assert [ahead(fertile, 0), ahead(fertile, 1), ahead(fertile, 2)] == [2, 1, 0]


def test_a_lane_that_ends_waits_behind_the_others() -> None:
    spec = continuous(workers=3)[0]
    flow = turn_began(turn_began(all_idle(replace(spec, window=1)), 0), 1)
    flow = turn_ended(flow, 0, brought=True, retired=False)
    assert flow == Flow((2, 0), 0, 1, 1)
    assert turn_ended(flow, 1, brought=False, retired=True) == Flow((2, 0), 1, 2, 1)


# --- whole runs ---------------------------------------------------------------------------------------------------


@given(any_job(), st.integers(0, 2**16))
def test_what_is_unmerged_stays_within_the_bound(job: Job, seed: int) -> None:
    """At the start of every turn, with the expectation that the turns so far bear out."""
    spec, setup, world = job
    spec = replace(spec, schedule="continuous")
    _, log = play(spec, setup, world, order=any_order(seed))
    state = initial(spec, setup)
    for event in log:
        if isinstance(event, Decided) and isinstance(event.command, Rollout) and event.command.purpose == "rollout":
            turn = vector.get(state.workers, event.worker).stage in ("idle", "rolled")
            unmerged = len(state.cards) + at_work(state.sweep)
            assert not turn or not state.window.count or within_bound(state.flow, spec, unmerged)
        state = apply(state, event)


def merges(spec: Spec, setup: Setup, log: list[Event]) -> list[tuple[int, bool]]:
    """For each merge that begins: the cards that waited, and whether turns in progress could bring more."""
    state, found = initial(spec, setup), list[tuple[int, bool]]()
    for event in log:
        before, state = state, apply(state, event)
        begins = state.sweep is not None and not finished(state.sweep) and state.sweep is not before.sweep
        if begins and (before.sweep is None or finished(before.sweep)):
            found.append((len(before.cards), bool(before.window.count and in_progress(before.flow, spec))))
    return found


@given(any_job(failing=False))
def test_a_merge_waits_for_its_size_while_turns_may_bring_more(job: Job) -> None:
    spec, setup, world = job
    spec = replace(spec, schedule="continuous", self_verify=False, merge_size=3, fusion="union")
    _, log = play(spec, setup, world)
    assert all(waiting >= 3 for waiting, more in merges(spec, setup, log) if more)


def test_merges_begin_while_turns_are_in_progress() -> None:
    spec, setup = continuous(workers=6)
    spec = replace(spec, self_verify=False, merge_size=3, async_ratio=2)
    _, log = play(spec, setup, World(seed=1, solved=0.0))
    sizes = [waiting for waiting, more in merges(spec, setup, log) if more]
    assert len(sizes) > 2
    assert min(sizes) >= 3


def answered(state: State, world: World, ident: int) -> Outcome:
    return next(world.answer(state, one) for one in opened(state) if one.command.id == ident)


def test_a_merge_is_answered_before_the_turns_beside_it() -> None:
    spec, setup = continuous(workers=4)
    spec = replace(spec, window=2)
    world, draw = World(solved=0.0), seeded(0)
    state, beside = initial(spec, setup), 0
    while True:
        step: Event | Wait = decide(state, draw)
        if isinstance(step, Stopped):
            break
        if isinstance(step, Wait):
            open_now = opened(state)
            others = [one.command.id for one in open_now if one.worker < 0]
            beside += 0 < len(others) < len(open_now) and others[0] > open_now[0].command.id
            assert step.admissible == ((*others, *(one.command.id for one in open_now))[0],)
            step = answered(state, world, step.admissible[0])
        state = apply(state, step)
    assert beside > 10


def test_turns_go_on_beside_the_merge_and_what_is_stale_is_rebased() -> None:
    spec, setup = continuous(workers=4)
    spec = replace(spec, merge_size=1, async_ratio=3, admission="arrival")
    _, log = play(spec, setup, World(solved=0.0, seed=3), order=any_order(3))
    assert len(calls(log, "rebase")) > 0
    commits = [n for n, event in enumerate(log) if isinstance(event, Committed)]
    turns = [n for n, event in enumerate(log) if isinstance(event, Decided) and isinstance(event.command, Propose)]
    gates = [n for n, event in enumerate(log) if isinstance(event, GateOpened)]
    assert any(gate < turn < commit for gate in gates for turn in turns for commit in commits)


@pytest.mark.parametrize("gates", [1, 2, 4])
def test_gates_side_by_side_end_in_one_head(gates: int) -> None:
    """Watched by the books of tests.world: one commit a version, the mean never falls, every card closed once."""
    widest = 0
    for seed in range(8):
        spec, setup = continuous(workers=6)
        spec = replace(spec, merge_size=5, async_ratio=2, fusion="none", open_gates=gates)
        _, log = play(spec, setup, World(seed=seed, solved=0.0), order=any_order(seed))
        state = initial(spec, setup)
        for event in log:
            state = apply(state, event)
            widest = max(widest, 0 if state.sweep is None else len(state.sweep.gates))
        commits = [event.base for event in log if isinstance(event, Committed)]
        assert commits == list(range(len(commits)))
    assert widest == gates


def test_rounds_are_n_workers_turns_and_limit_the_run() -> None:
    spec, setup = continuous(workers=4)
    state, log = play(replace(spec, caps=Caps(rounds=3)), setup, World())
    starts = [event for event in calls(log, "rollout") if event.attempt == 0]
    assert [event.round for event in starts] == [1] * 4 + [2] * 4 + [3] * 4
    assert (state.round, log[-1].reason if isinstance(log[-1], Stopped) else "") == (3, "rounds")
    assert state.cards == ()


def test_a_run_whose_proposals_all_decline_ends_with_its_rounds() -> None:
    spec, setup = continuous(workers=2)
    state, log = play(spec, setup, World(solved=0.0, menu=("decline",)))
    assert (state.round, log[-1]) == (12, Stopped("rounds"))


def test_20_when_2n_proposals_in_a_row_fail_it_ends_with_the_cause() -> None:
    spec, setup = continuous(workers=3)
    spec = replace(spec, attempts=1)
    _, log = play(spec, setup, World(solved=0.0, failing_at=(("propose", 1.0),)))
    end = log[-1]
    assert isinstance(end, Stopped)
    assert end.reason == "error"
    assert " in call " in end.error
    failed = [event for event in log if isinstance(event, Failed)]
    assert 6 <= len(failed) <= 6 + 3


@pytest.mark.parametrize("schedule", ["rounds", "continuous"])
def test_a_worker_for_which_nothing_ever_worked_gives_up(schedule: str) -> None:
    """Three turns in a row; when all have, the run ends with the cause, and may be taken up again."""
    spec, setup = jobs(40, workers=2)
    spec = replace(spec, caps=Caps(rounds=50), attempts=1, window=4, async_ratio=4)
    spec = replace(spec, schedule="rounds" if schedule == "rounds" else "continuous")
    world = World(failing_at=(("rollout", 1.0),))
    state, log = play(spec, setup, world)
    end = log[-1]
    assert isinstance(end, Stopped)
    assert (end.reason, " in call " in end.error) == ("error", True)
    assert len(calls(log, "rollout")) <= 2 * 3 + lanes(spec)
    assert {worker.stage for worker in vector.items(state.workers)} <= {"retired", "idle"}
    assert state.health.retired == 2
    again, more = play(spec, setup, World(), log=[*log, Amended(Caps(rounds=60))])
    assert len(calls(more[len(log) :], "rollout")) > 0
    assert again.stopped is not None
    assert again.stopped.reason != "error"


def test_once_a_worker_has_worked_its_failures_are_transient() -> None:
    spec, setup = jobs(40, workers=1)
    spec = replace(spec, caps=Caps(rounds=30), attempts=1)
    _, log = play(spec, setup, World(seed=5, failing_at=(("rollout", 0.6),)))
    assert sum(isinstance(event, Failed) for event in log) > 6
    assert isinstance(log[-1], Stopped)
    assert log[-1].reason != "error"


def test_one_card_that_never_fits_stops_no_merge() -> None:
    """It is parked; the others go on, and are not held up by it."""
    spec, setup = continuous(workers=4)
    spec = replace(spec, merge_size=2, async_ratio=2, fusion="none", self_verify=False)
    rate = Rate(strict=True, overhead=10, bytes_per_token=1, ceiling=50)
    setup = replace(setup, tariff=Tariff(rate, rate))

    class LongSecond(World, frozen=True):
        def ops(self, subject: int) -> Ops:
            return (Add("long", "meh " + "x" * 20_000),) if subject == 1 else super().ops(subject)

    world = LongSecond(seed=2, solved=0.0, menu=("good",))
    spec = replace(spec, caps=Caps(tokens=120_000))
    state, log = play(spec, setup, world)
    without, _ = play(spec, setup, World(seed=2, solved=0.0, menu=("good",)))
    end = log[-1]
    assert isinstance(end, Stopped)
    assert state.head.version.number >= without.head.version.number - 1 > 1
    assert 1 in end.unresolved
    assert len(end.unresolved) <= 1 + lanes(spec)


def test_after_the_target_nothing_more_is_asked_for() -> None:
    reached = 0
    for seed in range(12):
        spec, setup = continuous(workers=4)
        spec = replace(spec, merge_size=1, async_ratio=3)
        spec = replace(spec, target=0.7, open_gates=2, fusion="none", caps=Caps(rounds=60))
        _, log = play(spec, setup, World(seed=seed, solved=0.2), order=any_order(seed))
        state = initial(spec, setup)
        for event in log:
            there = state.base is None and state.head.scores.total >= 700_000 * state.head.scores.size
            reached += there and isinstance(event, Stopped)
            assert not (there and isinstance(event, Decided)), seed
            state = apply(state, event)
    assert reached > 4
