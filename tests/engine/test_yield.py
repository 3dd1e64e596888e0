"""Which task a turn takes, how many proposals a rollout leads to, how many go into one gate."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Beam, Caps, Spec, Unpaired, UsageError, evolve
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import Decided, Event, GateOpened, Judged, Started, Stopped
from agentdescent.engine.spec import FusionWidth, Schedule
from agentdescent.engine.state import State, initial
from agentdescent.engine.tasking import cluster_weights
from agentdescent.engine.transition import apply
from agentdescent.job import Options, prepare
from agentdescent.merge.scores import score_at
from agentdescent.record import replace
from agentdescent.search.sampling import DifficultyWeighted, RoundRobin, Stakes, stakes
from agentdescent_adapters.worlds.clusters import ClusterAgent, Clusters, cluster_tasks, right
from tests.world import World, any_order, calls, jobs, play

WORLDS = st.builds(World, seed=st.integers(0, 999))


def run(
    world: World, *, tasks: int = 24, order: int | None = None, rounds: int = 6, **fields: Any
) -> tuple[State, list[Event]]:
    spec, setup = jobs(tasks)
    spec = replace(spec, caps=Caps(rounds=rounds), **fields)
    if order is None:
        return play(spec, setup, world)
    return play(replace(spec, admission="arrival"), setup, world, order=any_order(order))


# --- stakes -----------------------------------------------------------------------------------------------------------


def test_stakes_are_the_train_tasks_the_unsolved_share_and_what_waits() -> None:
    assert stakes(0.9, [10, 10, 4], [0.5, 0.0, 1.0], [0, 0, 1]) == [5.0, 0.0, pytest.approx(0.4)]
    assert stakes(0.0, [10, 10, 4], [0.5, 0.0, 1.0], [7, 7, 7]) == [5.0, 0.0, 4.0]


@given(WORLDS, st.integers(0, 99), st.sampled_from(["rounds", "continuous"]))
def test_only_unsolved_clusters_are_drawn_and_their_tasks_in_turn(world: World, order: int, schedule: Schedule) -> None:
    """Every turn's task is of a cluster with something to win, and none is known to be solved while another is not."""
    spec, setup = jobs(24)
    spec = replace(spec, caps=Caps(rounds=6), sampling=Stakes(), schedule=schedule, admission="arrival")
    _, log = play(spec, setup, world, order=any_order(order))
    state = initial(spec, setup)
    for event in log:
        if isinstance(event, Decided) and isinstance(event.command, Rollout) and event.command.purpose == "rollout":
            weights, cluster = cluster_weights(state), state.clusters.of[event.command.task]
            assert weights[cluster] > 0 or not any(weights)
            part = state.clusters.train[cluster]
            unknown = [one for one in part if score_at(state.head.train, state.position[one]) < state.solved_at]
            assert event.attempt or not any(weights) or not unknown or event.command.task in unknown
        state = apply(state, event)


def test_the_law_of_stakes_is_kept() -> None:
    spec, setup = jobs(60, workers=1)
    spec = replace(spec, caps=Caps(rounds=400), sampling=Stakes(pending=0.0), self_verify=False)
    state, log = play(spec, setup, World(seed=3, menu=("decline",), solved=0.4), watched=False)
    started = next(event for event in log if isinstance(event, Started))
    drawn = Counter(
        state.clusters.of[one.command.task] for one in calls(log, "rollout") if isinstance(one.command, Rollout)
    )
    weights = cluster_weights(state)
    turns = sum(drawn.values())
    assert turns == 400
    assert started.spec.sampling == Stakes(pending=0.0)
    for cluster, weight in enumerate(weights):
        share = weight / sum(weights)
        assert abs(drawn[cluster] / turns - share) < 4 * (share * (1 - share) / turns) ** 0.5 + 0.01


@given(WORLDS, st.integers(0, 99))
def test_difficulty_comes_from_the_attempts_of_the_run(world: World, order: int) -> None:
    state, log = run(world, order=order, sampling=DifficultyWeighted())
    again = initial(state.spec, state.setup)
    changes = 0
    for event in log:
        before, again = again, apply(again, event)
        changes += before.tallies != again.tallies
    seen = sum(tally.seen for chunk in state.tallies for tally in chunk)
    assert seen == changes - 1 > 0  # the first made them


# --- several proposals a rollout --------------------------------------------------------------------------------------


@given(WORLDS, st.integers(0, 99), st.integers(1, 4), st.sampled_from(["rounds", "continuous"]))
def test_a_rollout_leads_to_another_proposal_only_when_the_last_was_not_worth_merging(
    world: World, order: int, samples: int, schedule: Schedule
) -> None:
    _, log = run(world, order=order, samples=samples, screen=True, schedule=schedule)
    outcome = {event.subject: event.outcome for event in log if isinstance(event, Judged)}
    made: dict[int, list[int]] = {}
    for decided in calls(log, "propose"):
        assert isinstance(decided.command, Propose)
        subjects = made.setdefault(decided.command.rollout, [])
        if decided.subject not in subjects:
            subjects.append(decided.subject)
    for subjects in made.values():
        assert len(subjects) <= samples
        for before, after in pairwise(subjects):
            assert before < after
            assert outcome[before] in ("oversized", "duplicate", "not-worth-gating")


def test_samples_are_asked_for_until_one_gains() -> None:
    """In a world where every proposal is useless, each failing rollout leads to all of them."""
    world = World(seed=1, menu=("bad",), solved=0.0)
    _, log = run(world, samples=5, screen=True, rounds=2, tasks=30)
    rollouts, proposals = len(calls(log, "rollout")), len(calls(log, "propose"))
    assert rollouts == 4
    assert proposals == 20
    assert not [event for event in log if isinstance(event, GateOpened)]


def test_another_sample_is_asked_for_only_with_money_for_its_gate() -> None:
    spec, setup = jobs(30)
    spec = replace(spec, samples=50, screen=True, caps=Caps(tokens=3_000, rounds=50))
    state, log = play(spec, setup, World(seed=1, menu=("bad",), solved=0.0, exact=1.0))
    assert state.governor.spent.tokens <= 3_000
    assert isinstance(log[-1], Stopped)
    assert log[-1].reason == "max_tokens"


# --- width ------------------------------------------------------------------------------------------------------------


@given(WORLDS, st.integers(0, 99), st.integers(1, 5), st.sampled_from(["rounds", "continuous"]))
def test_no_gate_is_wider_than_it_may_be_and_nothing_is_left_waiting(
    world: World, order: int, width: int, schedule: Schedule
) -> None:
    _, log = run(world, order=order, fusion_width=width, schedule=schedule)
    gates = [event for event in log if isinstance(event, GateOpened)]
    assert all(len(gate.contributors) <= width for gate in gates)
    assert isinstance(log[-1], Stopped)
    assert log[-1].unresolved == ()


@given(WORLDS, st.integers(0, 99), st.sampled_from(["rounds", "continuous"]))
def test_an_adaptive_width_merges_everything_before_the_end(world: World, order: int, schedule: Schedule) -> None:
    _, log = run(world, order=order, fusion_width="adaptive", sampling=Stakes(), schedule=schedule)
    assert isinstance(log[-1], Stopped)
    assert log[-1].unresolved == ()


def first_gate(width: FusionWidth) -> tuple[int, int]:
    """(round, proposals) of the first gate in a world of useful proposals only."""
    spec, setup = jobs(60, workers=1, clusters=6)
    spec = replace(spec, caps=Caps(rounds=12), fusion_width=width, self_verify=False)
    _, log = play(spec, setup, World(seed=5, menu=("good",), solved=0.1))
    at = next(n for n, event in enumerate(log) if isinstance(event, GateOpened))
    begun = sum(1 for one in calls(log[:at], "rollout"))
    gate = log[at]
    assert isinstance(gate, GateOpened)
    return begun, len(gate.contributors)


def test_a_merge_waits_for_the_width() -> None:
    assert first_gate("all") == (1, 1)
    assert first_gate(3)[1] == 3
    begun, width = first_gate("adaptive")
    assert 1 < width <= begun


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"samples": 0}, "samples is 0"),
        ({"fusion_width": 0}, "fusion_width is 0"),
        ({"fusion_width": 2, "fusion": "none"}, 'fusion_width is 2 and fusion "none"'),
        ({"sampling": Stakes(pending=1.0)}, "sampling.pending is 1.0"),
    ],
)
def test_what_cannot_be_is_refused(fields: Options, message: str) -> None:
    tasks = cluster_tasks(0, heldout=8, train=8)
    options: Options = {**fields, "agent": ClusterAgent(Clusters(), tasks)}
    with pytest.raises(UsageError, match=message):
        evolve(tasks, right, **options)


def test_the_defaults_are_inert() -> None:
    assert (Spec().sampling, Spec().samples, Spec().fusion_width) == (RoundRobin(), 1, "all")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ("adaptive", 0.2, 10)),
        ({"samples": 3}, ("adaptive", 0.2, 3)),
        ({"acceptance": Unpaired()}, ("adaptive", 0.0, 10)),
        ({"selection": Beam(2)}, ("all", 0.2, 10)),
        ({"fusion": "none"}, ("all", 0.2, 10)),
    ],
)
def test_thrifty_sets_what_goes_with_the_other_choices(fields: Options, expected: tuple[object, ...]) -> None:
    tasks = cluster_tasks(0, heldout=8, train=8)
    options: Options = {**fields, "agent": ClusterAgent(Clusters(), tasks), "thrifty": True}
    spec = prepare(tasks, right, options).spec
    assert (spec.fusion_width, spec.futility, spec.samples) == expected
    assert (spec.screen, spec.sampling) == (True, Stakes())


def test_thrifty_reaches_the_target_for_less() -> None:
    """Three seeds of the world in which bench.economy measures how much less; one seed says nothing."""
    spent = [0, 0]
    for thrifty in (False, True):
        for seed in range(3):
            tasks = cluster_tasks(seed, heldout=40, train=400)
            agent = ClusterAgent(Clusters(seed), tasks)
            fields: Options = {"agent": agent, "heldout_limit": 40, "shuffle": False, "rounds": 100, "thrifty": thrifty}
            fields = {**fields, "target_reward": 0.7, "max_tokens": 3_000_000}
            result = evolve(tasks, right, **fields)
            spent[thrifty] += result.spend.total.tokens
    assert spent[True] < 0.6 * spent[False]
