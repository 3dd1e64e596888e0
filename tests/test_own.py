"""Allocators of one's own: in a run, resumed, decided again from the log, and refused before anything is spent."""

from __future__ import annotations

from typing import Any

import pytest

from agentdescent import (
    AllocatorContext,
    Answer,
    EvolutionResult,
    MemoryLog,
    Task,
    UsageError,
    ValueBudgetAllocator,
    decide,
    evolve,
    initial,
    replay,
    seeded,
)
from agentdescent.allocation import Always, Choice, Never, Randomly
from agentdescent.allocation.own import Own
from agentdescent.engine.draw import policy_of
from agentdescent.engine.event import Decided, Event, Judged, Skipped, Started
from agentdescent.history.log import read
from agentdescent.history.outcomes import choice_of
from agentdescent.history.replay import replay as decide_again
from agentdescent.own import found_again, where
from agentdescent.record import replace
from tests.own_allocators import HALF, Keeping, Older, Rated, Small
from tests.test_evolve import Learner, learn
from tests.world import lines

TASKS = [Task(f"t{i}", f"topic{i % 9}", {"cluster": f"c{i % 2}"}) for i in range(60)]
MANY = {"rounds": 25, "n_workers": 3}


def graded(task: Task, output: str) -> float:
    """Wrong answers differ, so that there are advantages."""
    return 1.0 if output == "right" else 0.1 * (int(task.id[1:]) % 7)


class Slow(Learner):
    """One proposal in four is of use."""

    def solve(self, rendered: str, task: Task) -> Answer:
        return Answer("right" if task.prompt in rendered else "wrong", self.meter.bill(len(rendered.encode()) // 2, 5))

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        reply = f"junk {sample}" if sample % 4 else f"know {task.prompt}"
        return Answer(reply, self.meter.bill(len(rendered.encode()) // 2, 12))


def choices(events: list[Event]) -> list[Choice]:
    return [choice for choice in map(choice_of, events) if choice is not None]


def events_of(result: EvolutionResult) -> list[Event]:
    return list(result.log.events())


def from_bytes(events: list[Event]) -> list[Event]:
    return [event for event, _ in read(lines(events).splitlines(keepends=True))]


def evolve_with(allocator: object, **options: Any) -> EvolutionResult:
    chosen: dict[str, Any] = {**MANY, "allocator": allocator, **options}
    return evolve(TASKS, graded, agent=Slow(), **chosen)


# --- a policy ---------------------------------------------------------------------------------------------------------


def test_a_policy_decides_and_a_replay_asks_it_again() -> None:
    result = evolve_with(Small())
    events = from_bytes(events_of(result))
    made = choices(events)
    assert {choice.choice for choice in made} == {True, False}
    assert all(choice.p == Small().probability("verify", choice.features) for choice in made)
    assert all(choice.propensity == (choice.p if choice.choice else 1 - choice.p) for choice in made)
    assert result.state.spec.allocator == Own("tests.own_allocators:Small", budget_start=2.0)
    again = replay(events)
    assert (again.divergence, again.finished, again.unasked) == (None, True, "")


def test_a_value_of_its_module_is_found_again_and_any_other_is_named() -> None:
    found, lost = evolve_with(HALF), evolve_with(Rated(0.5))
    assert found.state.spec.allocator == Own("tests.own_allocators:HALF", budget_start=2.0)
    assert lost.state.spec.allocator == Own("tests.own_allocators.Rated", budget_start=2.0)
    assert [choice.features[1] for choice in choices(events_of(found))][:1] == [0.5]
    assert choices(events_of(found)) == choices(events_of(lost))
    assert replay(events_of(found)).unasked == ""
    again = replay(events_of(lost))
    assert (again.divergence, again.finished, again.unasked) == (None, True, "tests.own_allocators.Rated")
    given = replay(events_of(lost), policy=Rated(0.5))
    assert (given.divergence, given.finished, given.unasked) == (None, True, "")


def test_another_policy_diverges() -> None:
    events = events_of(evolve_with(Rated(0.5)))
    found = replay(events, policy=Rated(0.4)).divergence
    assert found is not None
    assert choice_of(events[found.number]) is not None


@pytest.mark.parametrize("change", [{"draw": 0.01}, {"choice": True}, {"propensity": 0.9}, {"reason": "liveness"}])
def test_what_is_not_its_answer_is_decided_anew_without_it(change: dict[str, Any]) -> None:
    events = events_of(evolve_with(Rated(0.5)))
    at = next(n for n, event in enumerate(events) if isinstance(event, Skipped) and event.choice is not None)
    event = events[at]
    assert isinstance(event, Skipped)
    assert event.choice is not None
    events[at] = replace(event, choice=replace(event.choice, **change))
    found = replay(events).divergence
    assert found is not None
    assert found.number == at


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.95])
def test_a_resumed_run_is_decided_as_one_that_was_not_stopped(share: float) -> None:
    log = Keeping()
    evolve_with(Small(), log=log)
    again = evolve_with(Small(), log=log.cut(share))
    assert lines(again.log.events()) == lines(log.events())
    with pytest.raises(UsageError, match="allocator"):
        evolve_with(HALF, log=log.cut(share))


def test_the_engine_alone_says_what_is_missing() -> None:
    events = events_of(evolve_with(Small()))
    found = decide_again(events)
    assert (found.divergence, found.unasked) == (None, "tests.own_allocators:Small")
    first = events[0]
    assert isinstance(first, Started)
    state = initial(first.spec, first.setup)
    assert decide(state, seeded(0), Small()) == decide(state, seeded(0))
    assert policy_of(seeded(0)) is None


# --- the older protocol -----------------------------------------------------------------------------------------------


def told_by_the_log(events: list[Event]) -> list[bool]:
    """The label of every recorded choice that was not refused by the clock, in order of the verdicts."""
    mine = {e.subject for e in events if isinstance(e, Decided | Skipped) and choice_of(e) is not None}
    out = []
    for event in events:
        if isinstance(event, Judged) and event.outcome in ("committed", "regression", "below-threshold"):
            subject = event.contributors[0] if event.contributors else event.subject
            if subject in mine:
                out.append(event.outcome == "committed")
    return out


def test_an_older_object_is_asked_once_and_told_once_what_it_was_asked_with() -> None:
    older = Older()
    result = evolve_with(older)
    events = events_of(result)
    made = choices(events)
    assert {choice.reason for choice in made} >= {"value", "skip"}
    assert len(older.asked) == len(made)
    assert [committed for _, committed in older.told] == told_by_the_log(events)
    assert {True, False} == {committed for _, committed in older.told}
    assert all(any(context is asked for asked in older.asked) for context, _ in older.told)
    assert result.allocator is not None
    assert result.allocator.n_observed == len(older.told)
    assert result.allocator.n_committed == sum(committed for _, committed in older.told)
    assert result.allocator.n_skipped == sum(not choice.choice for choice in made) > 0
    assert result.allocator.n_counterfactual == sum(choice.reason == "counterfactual" for choice in made) > 0


def test_its_choices_are_facts_for_a_replay() -> None:
    events = from_bytes(events_of(evolve_with(Older())))
    again = replay(events)
    assert (again.divergence, again.finished, again.unasked) == (None, True, "tests.own_allocators.Older")
    at = next(n for n, event in enumerate(events) if isinstance(event, Skipped) and event.choice is not None)
    event = events[at]
    assert isinstance(event, Skipped)
    assert event.choice is not None
    for choice in (
        replace(event.choice, features=(9.0, 9.0, 9.0)),
        replace(event.choice, reason="clock"),
        replace(event.choice, choice=True, reason="value"),
        replace(event.choice, stage="gate"),
    ):
        found = replay([*events[:at], replace(event, choice=choice), *events[at + 1 :]]).divergence
        assert found is not None
        assert found.number == at


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.95])
def test_after_a_resume_it_is_told_again_and_goes_on_as_before(share: float) -> None:
    """Its choices depend on what it learned, so an equal log means that it learned the same."""
    first, again, log = Older(), Older(), Keeping()
    straight = evolve_with(first, log=log)
    resumed = evolve_with(again, log=log.cut(share))
    assert lines(resumed.log.events()) == lines(log.events())
    assert resumed.allocator == straight.allocator
    assert again.told == first.told
    assert len(again.asked) < len(first.asked)


# --- refused ----------------------------------------------------------------------------------------------------------


class Says:
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def probability(self, stage: str, features: object) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Wrong(Small):
    stages = ("verify", "dinner")


@pytest.mark.parametrize(
    ("allocator", "message"),
    [
        (object(), "allocator is a object: give a record such as"),
        (Small, r"allocator is the class Small: give an instance, Small\(\)"),
        (ValueBudgetAllocator, "is the class ValueBudgetAllocator: give an instance"),
        (
            Says(2.0),
            r"allocator tests\.test_own\.Says: probability\('verify', .*\) is 2\.0: it is a number from 0 to 1",
        ),
        (Says(True), "is True: it is a number"),
        (Says(ZeroDivisionError("no")), r"allocator tests\.test_own\.Says: no"),
        (Wrong(), "Wrong has an impossible `stages`"),
        (Own("a:b"), "allocator is the record that names a:b: give that object itself"),
        (Randomly(1.5), r"the rate is 1\.5: it must be a probability"),
        (ValueBudgetAllocator(stages=()), "stages is"),
    ],
)
def test_what_cannot_allocate_is_named_before_anything_is_spent(allocator: object, message: str) -> None:
    agent = Learner()
    with pytest.raises(UsageError, match=message):
        learn(agent, allocator=allocator)
    assert agent.meter.calls == 0


class Late(Small):
    budget_start = 0.5


@pytest.mark.parametrize("allocator", [ValueBudgetAllocator(), Always(), Late()])
def test_an_allocator_that_waits_for_a_cap_that_there_is_not_is_refused(allocator: object) -> None:
    """It decides once less than a part of the token cap is left: without one it would be accepted, and never asked."""
    agent = Learner()
    with pytest.raises(UsageError, match="it would never be asked: set max_tokens"):
        learn(agent, allocator=allocator)
    assert agent.meter.calls == 0
    learn(agent, allocator=ValueBudgetAllocator(budget_start=1.5))


class Fails(Small):
    def __init__(self) -> None:
        self.asked = 0

    def probability(self, stage: str, features: object) -> float:
        self.asked += 1
        if self.asked > 25:
            raise ValueError("no more")
        return 0.5


class Nonsense(Older):
    def decide(self, context: AllocatorContext) -> Any:
        return "yes"


class Deaf(Older):
    def observe(self, context: AllocatorContext, committed: bool) -> None:
        raise RuntimeError("deaf")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Fails, r"allocator tests\.test_own\.Fails: probability raised ValueError: no more; mend it, and resume"),
        (Nonsense, "Nonsense.decide returned 'yes': its `deep_eval` must be a bool"),
        (Deaf, r"Deaf: observe raised RuntimeError: deaf"),
    ],
)
def test_one_that_fails_in_a_run_is_named_and_the_run_can_be_resumed(make: Any, message: str) -> None:
    log = MemoryLog()
    with pytest.raises(UsageError, match=message):
        evolve_with(make(), log=log)
    assert replay(log.events(), check=False).events > 20


def test_where_an_object_is_found() -> None:
    assert where(Small()) == "tests.own_allocators:Small"
    assert where(HALF) == "tests.own_allocators:HALF"
    assert where(Older()) == "tests.own_allocators.Older"
    assert isinstance(found_again(Own("tests.own_allocators:Small")), Small)
    assert found_again(Own("tests.own_allocators:HALF")) is HALF
    for name in ("tests.own_allocators:Absent", "no_such_module:x", "tests.own_allocators.Small", ":", "os:path"):
        assert found_again(Own(name)) is None


@pytest.mark.parametrize("control", [Always(), Never(), Randomly(0.3), ValueBudgetAllocator(budget_start=2.0)])
def test_records_are_allocators_too(control: Any) -> None:
    result = evolve_with(control, max_tokens=20_000)
    assert result.allocator is not None
    assert result.allocator.n_decisions == len(choices(events_of(result))) > 0
    assert replay(events_of(result)).divergence is None
