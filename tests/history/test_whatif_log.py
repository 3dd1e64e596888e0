"""The decisions of recorded logs as another allocator would have met them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Caps, ValueBudgetAllocator
from agentdescent.allocation import Always, Lineage, Never, Randomly
from agentdescent.allocation.features import STAGES, Features, Stage
from agentdescent.engine.event import Committed, Decided, Event, GateOpened, Judged, Skipped, Started
from agentdescent.engine.spec import Allocator
from agentdescent.errors import CorruptLog, UsageError
from agentdescent.history.outcomes import choice_of
from agentdescent.history.whatif import ONE_STEP, what_if
from agentdescent.history.whatif_log import decisions_of
from agentdescent.record import replace
from tests.strategies import Job, any_job
from tests.world import World, any_order, jobs, play

SEEDS = st.integers(0, 9_999)
EAGER = ValueBudgetAllocator(stages=STAGES, budget_start=2.0, min_observations=1, epsilon_start=0.5, min_propensity=0.2)


def allocated(job: Job, seed: int, allocator: Allocator | None) -> list[Event]:
    spec, setup, world = job
    spec = replace(
        spec, allocator=allocator, self_verify=True, tournament=True, fusion="union", caps=Caps(tokens=10**6, rounds=6)
    )
    return play(spec, setup, world, order=any_order(seed))[1]


OWN: tuple[ValueBudgetAllocator | Randomly | Lineage, ...] = (EAGER, Randomly(0.5, STAGES), Lineage(stages=STAGES))


@given(any_job(), SEEDS, st.sampled_from(OWN))
def test_the_allocator_of_the_run_meets_its_own_choices(
    job: Job, seed: int, own: ValueBudgetAllocator | Randomly | Lineage
) -> None:
    """Whatever it learned: its probabilities are the recorded ones, number by number, and nothing would change."""
    log = allocated(job, seed, own)
    met = decisions_of(log, own)
    recorded = [(number, choice) for number, event in enumerate(log) if (choice := choice_of(event)) is not None]
    by_prediction = {
        number for number, event in enumerate(log) if isinstance(event, Judged | Decided) and futile(log, number)
    }
    asked = [(number, choice) for number, choice in recorded if number not in by_prediction]
    assert [one.number for one in met.decisions] == [n for n, choice in asked if choice.reason != "clock"]
    assert met.refused == sum(choice.reason == "clock" for _, choice in asked)
    assert [one.target for one in met.decisions] == [one.logged for one in met.decisions]
    for stage in what_if([log], own).stages:
        assert all((change.kind, change.value) == ("exact", 0.0) for change in stage.changes)


def futile(log: list[Event], number: int) -> bool:
    """Whether the rule `futility` of the run chose there."""
    first, choice = log[0], choice_of(log[number])
    assert isinstance(first, Started)
    return choice is not None and choice.stage == "finish" and choice.features[-2] < first.spec.futility


@given(any_job(), SEEDS)
def test_a_run_without_an_allocator_is_one_that_always_spends(job: Job, seed: int) -> None:
    log = allocated(job, seed, None)
    gates = [number for number, event in enumerate(log) if isinstance(event, GateOpened)]
    met = decisions_of(log, Never(("gate",)))
    asked = [one for one in met.decisions if one.stage == "gate"]
    assert {one.number for one in asked} <= set(gates)
    assert all((one.spent, one.logged) == (True, 1.0) for one in met.decisions)
    assert all(one.target == 1.0 for one in met.decisions if one.stage != "gate")
    for stage in what_if([log], Never(("gate",))).stages:
        assert all(change.kind == "exact" for change in stage.changes)


def test_tokens_and_commits_of_a_decision_by_hand() -> None:
    spec, setup = jobs(20, workers=1)
    spec = replace(spec, fusion="none", caps=Caps(tokens=10**6, rounds=9))
    _, log = play(spec, setup, World(seed=4, solved=0.1))
    met = decisions_of(log, Never(("gate",)))
    commits = {event.subject for event in log if isinstance(event, Committed)}
    assert commits
    assert len(met.decisions) > len(commits)
    open_, used = dict[int, int](), dict[int, int]()
    for event in log:
        if isinstance(event, Decided) and event.subject >= 0:
            open_[event.command.id] = event.subject
    for number, event in enumerate(log):
        usage, ident = getattr(event, "usage", None), getattr(event, "id", -1)
        if usage is not None and ident in open_:
            for one in met.decisions:
                if one.subject == open_[ident] and one.number < number:
                    used[one.number] = used.get(one.number, 0) + usage.prompt + usage.completion
    gates = [one for one in met.decisions if one.stage == "gate"]
    assert [one.tokens for one in met.decisions] == [used.get(one.number, 0) for one in met.decisions]
    assert {one.subject for one in gates if one.commits} == commits
    total = sum(one.gain for one in gates)
    found = what_if([log], Never(("gate",)))
    assert found.by("tokens", "ips").value == pytest.approx(-sum(one.tokens for one in gates))
    assert found.by("gain", "ips").value == pytest.approx(-total)
    assert (found.runs, found.unfinished, found.note) == (1, 0, ONE_STEP)


class Small:
    """A policy of one's own, at the gate."""

    stages: tuple[Stage, ...] = ("gate",)
    budget_start = 2.0

    def probability(self, stage: Stage, features: Features) -> float:
        return 0.25


class Broken(Small):
    def probability(self, stage: Stage, features: Features) -> float:
        return 2.0


def test_a_policy_is_asked_at_its_stages_once_it_is_tight() -> None:
    spec, setup = jobs(20, workers=2)
    _, log = play(spec, setup, World(seed=4, solved=0.1))
    targets = {one.stage: one.target for one in decisions_of(log, Small()).decisions}
    assert targets == {"verify": 1.0, "gate": 0.25}
    loose = Small()
    loose.budget_start = 0.0
    assert {one.target for one in decisions_of(log, loose).decisions} == {1.0}
    with pytest.raises(UsageError, match="it must be a number from 0 to 1"):
        decisions_of(log, Broken())


def test_a_learning_target_learns_what_the_log_saw() -> None:
    """From a run that spent on everything it learns every label once, as the run itself would have."""
    spec, setup = jobs(60, workers=3)
    own = ValueBudgetAllocator(stages=("gate",), budget_start=2.0, min_observations=3, threshold="half")
    spec = replace(spec, fusion="none", caps=Caps(tokens=10**7, rounds=30))
    _, log = play(spec, setup, World(seed=5, solved=0.1, menu=("bad", "meh", "pair", "clash")))
    found = [one.target for one in decisions_of(log, own).decisions if one.stage == "gate"]
    assert found[:3] == [1.0, 1.0, 1.0]
    assert min(found) < 1.0
    later = decisions_of(log, replace(own, min_observations=10**6)).decisions
    assert {one.target for one in later} == {1.0}


def test_an_unfinished_log_is_read_as_far_as_it_goes() -> None:
    spec, setup = jobs(20, workers=2)
    _, log = play(spec, setup, World(seed=4, solved=0.1))
    at = max(number for number, event in enumerate(log) if isinstance(event, GateOpened))
    found = what_if([log[: at + 1]], Never(("gate",)))
    assert found.unfinished == 1
    assert found.stages[-1].support.open >= 1


def test_what_is_not_a_log() -> None:
    with pytest.raises(CorruptLog, match="is empty"):
        decisions_of([], Always())
    with pytest.raises(CorruptLog, match="does not begin with Started"):
        decisions_of([Skipped("verify", 1, "off")], Always())
    assert what_if([], Always()).stages == ()
