"""Which decision an outcome teaches, on both schedules: the whole observed vector, the label, and how often.

The cases are those in which allocators of this kind went wrong before. Tasks 0 to 3 of 8 decide, as in test_merge_life;
every proposal is verified, and the allocator is asked from the first token on.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeAlias

import pytest

from agentdescent import AppendRules, Caps, State
from agentdescent.allocation.choice import Choice
from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.allocation.features import AllocatorContext, Features, Stage, vector
from agentdescent.allocation.outcomes import Outcome
from agentdescent.allocation.value_model import predict
from agentdescent.artifact.diff import Add, Ops
from agentdescent.engine.event import Decided, Event, GateOpened, Judged, Skipped
from agentdescent.history.outcomes import outcomes
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.verdict import SubsetEvidence
from agentdescent.record import replace
from tests.engine.spends import choices_of, spied
from tests.engine.test_merge_life import Script, a, gates, starving, tell
from tests.world import Order, any_order, jobs, play

Schedule: TypeAlias = Literal["rounds", "continuous"]
SCHEDULES = pytest.mark.parametrize("schedule", ["rounds", "continuous"])
Seen: TypeAlias = tuple[Stage, Features, Outcome]
ALWAYS = ValueBudgetAllocator(budget_start=2.0)


def told(*proposals: Ops, schedule: Schedule = "rounds", **fields: Any) -> tuple[State, list[Event], list[Seen]]:
    """A run in which a merge takes all proposals of a round together."""
    workers = fields.get("workers", 2)
    defaults: dict[str, Any] = {"self_verify": True, "allocator": ALWAYS, "cheap_size": 4}
    seen: list[tuple[Choice, Outcome]] = []
    with spied(seen):
        state, log = tell(*proposals, **{**defaults, "schedule": schedule, "merge_size": workers, **fields})
    return state, log, [(choice.stage, choice.features, outcome) for choice, outcome in seen]


def size(ops: int, radius: float = 0.2) -> Features:
    """The vector of a proposal with so many ops, before anything is known of its group."""
    return (0.0, math.log1p(ops) / math.log1p(100), radius)


@SCHEDULES
def test_a_run_of_rejections_alone_leaves_the_warm_up(schedule: Schedule) -> None:
    proposals = (a("nothing", "n"), a("down0", "d"), a("null", "m"), a("down0 x", "e"), a("void", "o"), a("zilch", "p"))
    state, log, seen = told(*proposals, schedule=schedule, workers=1, rounds=6, solved=(0,), curtail=False)
    labels = [(event.subject, event.outcome) for event in log if isinstance(event, Judged) and event.subject < 5]
    assert labels == [
        (0, "below-threshold"),
        (1, "regression"),
        (2, "below-threshold"),
        (3, "regression"),
        (4, "below-threshold"),
    ]
    assert seen[:5] == [("verify", size(1), outcome) for _, outcome in labels]
    assert state.learned.verify.weights.observed == len(seen) == 6
    assert state.learned.verify.committed == 0
    last = choices_of(log)[-1][1]
    assert last.p < 0.5
    assert last.reason in ("skip", "counterfactual"), "it has an opinion"


@SCHEDULES
def test_a_mixed_run_learns_every_verdict_once(schedule: Schedule) -> None:
    state, _, seen = told(
        a("up0", "a"), a("nothing", "n"), a("up1", "b"), schedule=schedule, workers=1, rounds=3, staleness="full"
    )
    assert sorted(one[2] for one in seen) == ["below-threshold", "committed", "committed"]
    assert {one[:2] for one in seen} == {("verify", size(1))}
    assert (state.learned.verify.weights.observed, state.learned.verify.committed) == (3, 2)


@SCHEDULES
def test_a_fused_pair_of_sizes_one_and_two_teaches_the_first_with_its_own_vector(schedule: Schedule) -> None:
    two = (Add("b", "up1"), Add("c", "pad"))
    state, log, seen = told(a("up0"), two, schedule=schedule, strategy=AppendRules(blast_radius=0.4))
    assert gates(log) == [(2, (0, 1), 0)]
    assert outcomes(log)[2] == "committed"
    assert seen == [("verify", size(1, 0.4), "committed"), ("verify", size(2, 0.4), "co-contributor")]
    assert (state.learned.verify.weights.observed, state.learned.verify.committed) == (1, 1)
    assert ("verify", size(3, 0.4)) not in [one[:2] for one in seen], "no decision saw the size of the union"


@SCHEDULES
def test_the_second_entrant_wins_the_tournament_and_is_taught_alone(schedule: Schedule) -> None:
    bad, good = a("down0", "bad"), (Add("good", "up1"), Add("pad", "pad"))
    stages: tuple[Stage, ...] = ("verify", "tournament")
    state, log, seen = told(
        bad,
        good,
        schedule=schedule,
        solved=(0,),
        tournament=True,
        strategy=AppendRules(blast_radius=0.4),
        allocator=replace(ALWAYS, stages=stages),
    )
    assert gates(log) == [(1, (1,), 0)], "the single goes forward, not the union"
    ended = [event for event in log if isinstance(event, Judged) and event.subject < 3]
    assert [(event.subject, event.outcome) for event in ended] == [
        (0, "lost-tournament"),
        (2, "lost-tournament"),
        (1, "committed"),
    ]
    assert [event.evidence for event in ended[:2]] == [
        SubsetEvidence(0, 2 * MILLION, 1),
        SubsetEvidence(MILLION, 2 * MILLION, 1),
    ]
    entrants = vector("tournament", AllocatorContext(size=3, blast_radius=0.4, entrants=2))
    assert seen == [
        ("verify", size(1, 0.4), "lost-tournament"),
        ("verify", size(2, 0.4), "committed"),
        ("tournament", entrants, "committed"),
    ]
    assert (state.learned.verify.weights.observed, state.learned.verify.committed) == (2, 1)
    assert (state.learned.tournament.weights.observed, state.learned.tournament.committed) == (1, 1)


@SCHEDULES
def test_a_union_that_wins_the_tournament_is_taught_by_its_own_verdict(schedule: Schedule) -> None:
    """The cheap subset says that it is the best; its gate, here, that it is none the less no improvement."""
    stages: tuple[Stage, ...] = ("tournament", "gate")
    state, log, seen = told(
        a("up0", "a"), a("up1", "b"), schedule=schedule, tournament=True, allocator=replace(ALWAYS, stages=stages)
    )
    assert gates(log) == [(2, (0, 1), 0)]
    asked = [event for event in log if isinstance(event, Decided) and getattr(event.command, "purpose", "") == "gate"]
    assert asked == [], "what the tournament has scored is not paid for again"
    context = AllocatorContext(size=2, entrants=2, before_after_delta=0.0, base_score=0.0)
    bare = replace(context, base_score=None)
    assert [(one[0], one[2]) for one in seen] == [("tournament", "committed"), ("gate", "committed")]
    assert seen[0][1] == vector("tournament", context)
    assert seen[1][1] in (vector("gate", context), vector("gate", bare))
    assert (state.learned.gate.committed, state.learned.tournament.committed) == (1, 1)


@SCHEDULES
def test_a_split_union_labels_its_own_gate_and_its_parts_by_theirs(schedule: Schedule) -> None:
    state, log, seen = told(
        a("up0", "a"),
        a("down1 down2", "b"),
        schedule=schedule,
        solved=(1, 2),
        curtail=False,
        allocator=replace(ALWAYS, stages=("verify", "gate")),
    )
    assert gates(log)[:2] == [(2, (0, 1), 0), (0, (0,), 0)]
    labels = outcomes(log)
    assert (labels[2], labels[0]) == ("regression", "committed")
    union = next(one for one in seen if one[0] == "gate")
    assert (union[1][1], union[2]) == (size(2)[1], "regression")
    first = [one for one in seen if one[2] == "committed"]
    assert [(one[0], one[1][:3]) for one in first] == [("verify", size(1)), ("gate", size(1))]
    assert (state.learned.gate.committed, state.learned.verify.committed) == (1, 1)


def starved(schedule: Schedule) -> tuple[State, list[Event], list[Seen]]:
    """Two gates at a time. The gate of proposal 0 is answered last, so that the head moves under it each time."""
    order, states = starving(0)

    def watch(state: State, number: int) -> None:
        states.append(state)

    spec, setup = jobs(16, workers=8)
    spec = replace(spec, shuffle=False, heldout_share=0.5, caps=Caps(rounds=1), open_gates=2, fusion="none")
    stages: tuple[Stage, ...] = ("verify", "gate")
    spec = replace(
        spec,
        admission="arrival",
        staleness="reflective",
        schedule=schedule,
        merge_size=8,
        allocator=replace(ALWAYS, stages=stages),
    )
    script = Script(proposals=tuple(a(f"up{n}", f"k{n}") for n in range(8)))
    seen: list[tuple[Choice, Outcome]] = []
    with spied(seen):
        state, log = play(spec, setup, script, order=order, meddle=watch)
    return state, log, [(choice.stage, choice.features, outcome) for choice, outcome in seen]


@SCHEDULES
def test_a_conflict_is_one_negative_label_a_decision(schedule: Schedule) -> None:
    state, log, seen = starved(schedule)
    victims = [subject for subject, outcome in outcomes(log).items() if outcome == "cas-conflict"]
    assert len(victims) == 1
    lost = [one for one in seen if one[2] == "cas-conflict"]
    assert [(one[0], one[1][:3]) for one in lost] == [("verify", size(1)), ("gate", size(1))]
    assert len([one for one in gates(log) if one[0] == victims[0]]) == 4, "reopened three times, and asked about once"
    assert len([one for one in seen if one[2] == "committed"]) == 2 * 7
    assert (state.learned.verify.committed, state.learned.verify.weights.observed) == (7, 8)


@SCHEDULES
def test_a_large_diff_does_not_drown_the_other_columns(schedule: Schedule) -> None:
    """Small ones commit, large ones never do; a large one with a high advantage is not written off for its size."""
    large = tuple(tuple(Add(f"l{n}.{i}", f"null {n} {i}") for i in range(50)) for n in range(8))
    small = tuple(a(f"up{n}", f"s{n}") for n in range(8))
    proposals = tuple(ops for pair in zip(small, large, strict=True) for ops in pair)
    state, _, seen = told(
        *proposals,
        schedule=schedule,
        workers=1,
        rounds=16,
        tasks=16,
        staleness="full",
        strategy=AppendRules(max_ops=60),
        allocator=replace(ALWAYS, epsilon_start=1.0, epsilon_end=1.0),
    )
    assert [one for one in seen if one[2] in ("committed", "below-threshold")] == [
        ("verify", size(1 if n % 2 == 0 else 50), "committed" if n % 2 == 0 else "below-threshold") for n in range(16)
    ]
    weights = state.learned.verify.weights
    p = [predict(ALWAYS.model, weights, vector("verify", AllocatorContext(size=n, advantage=None))) for n in (1, 50)]
    assert 0.2 < p[1] < p[0] < 0.8


@SCHEDULES
def test_seeds_decide_and_runs_do_not_disturb_one_another(schedule: Schedule) -> None:
    """Whatever the order of arrival, and also side by side in threads."""
    proposals = tuple(a(f"rule {n}", f"k{n}") for n in range(12))
    config = replace(ALWAYS, stages=("verify", "gate"), min_observations=1, epsilon_start=0.5, epsilon_end=0.5)

    def run(seed: int, order: Order | None = None) -> list[tuple[int, Choice]]:
        fields: dict[str, Any] = {} if order is None else {"order": order}
        _, log = tell(
            *proposals,
            workers=2,
            rounds=6,
            self_verify=True,
            allocator=config,
            seed=seed,
            schedule=schedule,
            merge_size=2,
            **fields,
        )
        return choices_of(log)

    alone = [run(seed) for seed in range(4)]
    assert all(alone)
    assert run(2, any_order(7)) == alone[2]
    draws = [tuple(choice.draw for _, choice in choices) for choices in alone]
    assert len(set(draws)) == 4
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, [0, 1, 2, 3, 3, 2, 1, 0])) == [*alone, *reversed(alone)]


@SCHEDULES
def test_a_skipped_gate_closes_a_single_and_splits_a_union(schedule: Schedule) -> None:
    """Every gate is skipped, until liveness: the parts of the union are asked about by themselves."""
    never = replace(ALWAYS, stages=("gate",), min_observations=0, min_weight=-1.0, epsilon_start=0.0, epsilon_end=0.0)
    half = replace(never, threshold="half", model=replace(never.model, lr=1.0))
    state, log, seen = told(
        a("nothing", "a"),
        a("null", "b"),
        (),  # the union has this number
        a("void", "c"),
        a("zilch", "d"),
        schedule=schedule,
        rounds=2,
        allocator=half,
        staleness="full",
    )
    told_of = [
        (type(event).__name__, event.subject, event.contributors if isinstance(event, Judged) else ())
        for event in log
        if isinstance(event, Judged | GateOpened) or (isinstance(event, Skipped) and event.purpose == "gate")
    ]
    assert told_of == [
        *[("GateOpened", 2, ()), ("Judged", 2, ())],
        *[("Skipped", 0, ()), ("Judged", 0, ()), ("Skipped", 1, ()), ("Judged", 1, ())],
        *[("Skipped", 5, ()), ("Judged", 5, ())],
        *[("Skipped", 3, ()), ("Judged", 3, ()), ("Skipped", 4, ()), ("Judged", 4, ())],
    ]
    labels = outcomes(log)
    assert [labels[subject] for subject in range(6)] == [
        *["not-worth-gating", "not-worth-gating", "below-threshold"],
        *["not-worth-gating", "not-worth-gating", "not-worth-gating"],
    ]
    assert sorted(one[2] for one in seen) == sorted(labels[subject] for subject, _ in choices_of(log))
    assert [one[2] for one in seen].count("below-threshold") == state.learned.gate.weights.observed == 1
