"""Several live heads: where a proposal merges, what is picked, who leaves, and a hill that one head cannot climb.

The books of tests.world hold for every run here as well: one commit a version, scored on all held-out tasks, better
than its base; the dev head never falls; money; one verdict a proposal.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent import Caps, Setup, SingleSlot, Spec, UsageError, apply, initial, replay, seeded, vector
from agentdescent.allocation.policies import Always
from agentdescent.artifact.diff import Add, Entries, Ops, Replace
from agentdescent.artifact.strategy import Strategy, render
from agentdescent.budget.governor import remaining_fraction
from agentdescent.engine.command import Command, Propose, Rollout
from agentdescent.engine.event import Committed, Decided, GateOpened, Judged, Outcome, Proposed
from agentdescent.engine.population import behind, dev_head, live
from agentdescent.engine.spec import Schedule
from agentdescent.engine.validation import check
from agentdescent.merge.acceptance import MILLION
from agentdescent.record import replace
from agentdescent.search import Archive, Beam, FlatPuct, Selection, SelectionContext, SingleHead, select
from tests.engine.population_books import audited
from tests.strategies import POLICIES, Job, any_job, trouble
from tests.world import World, any_order, calls, jobs, lines, play

SCHEDULES = st.sampled_from(["rounds", "continuous"])
SEEDS = st.integers(0, 9_999)


def several(job: Job, policy: Selection, schedule: Schedule, *, rich: bool = True) -> Job:
    """This job with a population; `rich`: with more to commit, and money for it."""
    spec = replace(job.spec, selection=policy, schedule=schedule, refresh_interval=1)
    if not rich:
        return Job(spec, job.setup, job.world)
    world = replace(job.world, menu=("good", "good", "clash", "pair", "meh", "good"), solved=0.1)
    return Job(replace(spec, caps=Caps(rounds=5), target=None, patience=None), job.setup, world)


# --- whole runs -------------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(any_job(), st.sampled_from(POLICIES), SCHEDULES, SEEDS, st.booleans())
def test_books_of_the_population_balance(
    job: Job, policy: Selection, schedule: Schedule, seed: int, rich: bool
) -> None:
    job = several(job, policy, schedule, rich=rich)
    state, log = play(*job, order=any_order(seed))
    assert audited(job, log) == state


@settings(max_examples=100)
@given(any_job(), st.sampled_from(POLICIES), SCHEDULES, SEEDS)
def test_and_through_orphans_interruptions_and_amendments(
    job: Job, policy: Selection, schedule: Schedule, seed: int
) -> None:
    job = several(job, policy, schedule)
    state, log = play(*job, order=any_order(seed), meddle=trouble(seed))
    assert audited(job, log) == state


@given(any_job(), st.sampled_from(POLICIES), SCHEDULES, SEEDS)
def test_every_pick_is_decided_again(job: Job, policy: Selection, schedule: Schedule, seed: int) -> None:
    job = several(job, policy, schedule)
    state, log = play(*job, order=any_order(seed), meddle=trouble(seed))
    found = replay(log)
    assert (found.divergence, found.state, found.finished) == (None, state, True)


@settings(max_examples=25)
@given(any_job(), st.sampled_from(POLICIES), SCHEDULES)
def test_from_every_prefix_it_goes_on_to_the_same_end(job: Job, policy: Selection, schedule: Schedule) -> None:
    job = several(job, policy, schedule)
    _, log = play(*job)
    for length in range(0, len(log), 1 + len(log) // 12):
        assert lines(play(*job, log=log[:length], watched=False)[1]) == lines(log)


@given(any_job(failing=False), st.sampled_from(POLICIES), SEEDS)
def test_the_picks_of_a_round_are_those_for_all_workers_at_once(job: Job, policy: Selection, seed: int) -> None:
    """Where money is no object, so that no turn has to wait and no share of it changes."""
    job = several(job, policy, "rounds")
    job = Job(job.spec, replace(job.setup, tariff=jobs()[1].tariff), job.world)
    _, log = play(*job, order=any_order(seed))
    state, picks, planned = initial(job.spec, job.setup), list[str](), tuple[str, ...]()
    for event in log:
        if isinstance(event, Decided) and isinstance(event.command, Rollout) and event.command.purpose == "rollout":
            if event.round != state.round:
                assert planned[: len(picks)] == tuple(picks)
                picks, candidates = [], tuple(member.candidate for member in state.population.members)
                at = [candidate.version for candidate in candidates].index(state.population.dev)
                rest = remaining_fraction(state.governor)
                context = SelectionContext(candidates, at, event.round, job.spec.n_workers, rest)
                planned = tuple(candidates[i].artifact for i in select(policy, context, seeded(job.spec.seed)))
            picks.append(event.command.artifact)
        state = apply(state, event)


@pytest.mark.parametrize("schedule", ["rounds", "continuous"])
def test_a_population_is_bounded(schedule: Schedule) -> None:
    spec, setup, world = long_run(schedule)
    job = Job(replace(spec, population=3), setup, world)
    state, log = play(*job)
    assert audited(job, log) == state
    assert len([event for event in log if isinstance(event, Committed)]) > 6
    assert len(state.population.members) <= 3 + spec.n_workers
    unlimited, _ = play(spec, setup, world)
    assert len(unlimited.population.members) == unlimited.population.newest + 1 > 6


def long_run(schedule: Schedule) -> Job:
    spec, setup = jobs(40, workers=3)
    spec = replace(spec, schedule=schedule, selection=FlatPuct(), caps=Caps(rounds=12), window=2, fusion="none")
    return Job(spec, setup, Scripted(ways=10))


@given(any_job(), SCHEDULES)
def test_one_head_is_no_population(job: Job, schedule: Schedule) -> None:
    spec = replace(job.spec, selection=SingleHead(), schedule=schedule)
    state, log = play(spec, job.setup, job.world)
    assert state.population.members == ()
    assert {event.version for event in log if isinstance(event, Committed)} <= {0}
    assert b"selection" not in lines(log[1:])


@settings(max_examples=30)
@given(any_job(failing=False, strict=True), st.sampled_from(POLICIES), SCHEDULES)
def test_what_was_learned_of_versions_that_are_left_is_forgotten(
    job: Job, policy: Selection, schedule: Schedule
) -> None:
    job = several(job, policy, schedule)
    job = Job(replace(job.spec, allocator=Always()), job.setup, job.world)
    state = initial(job.spec, job.setup)
    for event in play(*job)[1]:
        state = apply(state, event)
        if isinstance(event, Committed):
            copies = {worker.copy.number for worker in vector.items(state.workers) if worker.copy is not None}
            assert {group.version for group in state.groups} <= {event.version, *copies}


# --- where a proposal merges ------------------------------------------------------------------------------------------


class Scripted(World, frozen=True):
    """Proposal n adds rule n, which solves the tasks whose number is n modulo `ways`."""

    ways: int = 4

    def ops(self, subject: int) -> Ops:
        return (Add(f"r{subject}", f"good {subject}"),)

    def score(self, task: int, rendered: str) -> int:
        rules = [int(line.split()[2]) for line in rendered.splitlines() if line.startswith("- good ")]
        return MILLION * any(rule % self.ways == task % self.ways for rule in rules)


def scripted(policy: Selection, **changes: int) -> Job:
    spec, setup = jobs(16, workers=2)
    spec = replace(spec, selection=policy, caps=Caps(rounds=changes.get("rounds", 3)), fusion="none", shuffle=False)
    return Job(replace(spec, heldout_share=0.5), setup, Scripted())


def test_a_proposal_whose_version_was_followed_is_rebased_on_its_successor() -> None:
    """Both workers start from version 0. The first change becomes version 1, the second is late by one commit."""
    job = scripted(Beam(1), rounds=1)
    state, log = play(*job)
    assert [event.base for event in log if isinstance(event, Committed)] == [0, 1]
    assert len(calls(log, "rebase")) == 2
    first, second, third = state.population.members
    assert (first.successor, second.successor, third.successor) == (1, 2, -1)
    assert [live(state, number).version.number for number in range(3)] == [2, 2, 2]
    assert behind(state, 2, 0) == 2
    assert dict(third.head.version.entries).keys() == {"r0", "r1"}


def test_a_version_picked_again_is_a_head_beside_its_successor() -> None:
    """Beam(9) starts from version 0 again when 2 has followed it: what comes of that merges there, and is not late."""
    job = scripted(Beam(9), rounds=3)
    state, log = play(*job)
    assert audited(job, log) == state
    commits = [(event.base, event.version) for event in log if isinstance(event, Committed)]
    assert commits[:2] == [(0, 1), (1, 2)]
    assert 0 in [base for base, _ in commits[2:]]
    assert len(calls(log, "rebase")) == 2


def test_an_artifact_of_the_population_is_a_duplicate() -> None:
    """The same change to the start, proposed again when that is picked again."""

    class Same(Scripted, frozen=True):
        def ops(self, subject: int) -> Ops:
            return (Add("r0", "good 0"),)

    spec, setup, _ = scripted(Beam(9), rounds=6)
    state, log = play(replace(spec, n_workers=1), setup, Same())
    assert len(state.population.members) == 2
    outcomes = [event.outcome for event in log if isinstance(event, Judged)]
    assert outcomes[0] == "committed"
    assert set(outcomes[1:]) <= {"duplicate", "declined"}
    assert "duplicate" in outcomes
    gates = [event.artifact for event in log if isinstance(event, GateOpened)]
    assert len(gates) == 1


def test_with_nothing_left_for_the_pick_the_shortest_is_begun_with() -> None:
    class Longer(Scripted, frozen=True):
        def ops(self, subject: int) -> Ops:
            return (Add(f"r{subject}", f"good {subject} " + "x" * 4_000),)

    spec, setup, _ = scripted(Beam(1))
    spec = replace(spec, caps=Caps(tokens=45_000), n_workers=1)
    state, log = play(spec, setup, Longer())
    assert state.stopped is not None
    assert state.stopped.reason == "max_tokens"
    starts = [event.command.artifact for event in calls(log, "rollout")]
    sizes = [next(m.head.version.size for m in state.population.members if m.candidate.artifact == a) for a in starts]
    assert max(sizes) > sizes[-1] == min(sizes)


# --- a hill that one head cannot climb --------------------------------------------------------------------------------

LEVELS = {"start": 0.2, "peak": 0.6, "ridge": 0.4, "summit": 1.0}


class Hill(World, frozen=True):
    """From the start lead a way to the peak, which ends there, and one along a lower ridge to the summit."""

    def score(self, task: int, rendered: str) -> int:
        return MILLION * (self.u("task", task) < LEVELS.get(rendered, 0.5))

    def reply(self, setup: Setup, strategy: Strategy, command: Command, entries: Entries) -> Outcome:
        outcome = super().reply(setup, strategy, command, entries)
        if not isinstance(outcome, Proposed) or not isinstance(command, Propose):
            return outcome
        here = dict(entries)["k0"]
        ways = {"start": "ridge" if command.subject % 2 else "peak", "ridge": "summit"}
        return replace(outcome, ops=(Replace("k0", ways.get(here, f"cliff {command.subject}")),))


def climbed(policy: Selection, schedule: Schedule, seed: int) -> str:
    spec, setup = jobs(60, workers=2)
    setup = replace(setup, artifact=(("k0", "start"),))
    spec = replace(spec, strategy=SingleSlot(key="k0"), selection=policy, schedule=schedule)
    state, _ = play(replace(spec, caps=Caps(rounds=30), seed=seed), setup, Hill(seed=seed))
    return render(spec.strategy, dev_head(state).version.entries)


@pytest.mark.parametrize("schedule", ["rounds", "continuous"])
def test_the_way_through_a_second_best_head(schedule: Schedule) -> None:
    for policy, end in ((SingleHead(), "peak"), (Beam(2), "summit"), (Archive(), "summit")):
        assert [climbed(policy, schedule, seed) for seed in range(6)] == [end] * 6, policy


@pytest.mark.parametrize("schedule", ["rounds", "continuous"])
def test_flat_puct_does_not_turn_back(schedule: Schedule) -> None:
    """A commit never scores less than its base and is never visited more, so neither rank nor bonus leads back to
    the base, whatever the constant: the policy chooses among branches, and does not open one."""
    assert {climbed(policy, schedule, 0) for policy in (FlatPuct(), FlatPuct(100.0))} == {"peak"}


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (replace(Spec(), selection=Beam(0)), "k is 0: it must be"),
        (replace(Spec(), selection=FlatPuct(), refresh_interval=2), "refresh_interval is 2, and FlatPuct picks anew"),
        (replace(Spec(), selection=FlatPuct(), population=1), "population is 1: it must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_named(changes: Spec, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check(changes, jobs()[1])
    check(replace(Spec(), refresh_interval=2), jobs()[1])
