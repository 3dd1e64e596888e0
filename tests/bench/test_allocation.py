"""What bench.allocation counts is there to be counted. Its times are left to the bench."""

from __future__ import annotations

from agentdescent.engine.event import Event, Judged, Stopped
from agentdescent.job import Options
from agentdescent.record import replace
from agentdescent_adapters.worlds.suite import setting
from bench import allocation
from bench.allocation import EVERYWHERE, RUN_TOKENS, SCHEDULES, unlabelled
from bench.trial import trial


def recorded() -> list[Event]:
    events: list[Event] = []
    options: Options = {**SCHEDULES[0], "allocator": EVERYWHERE, "max_tokens": RUN_TOKENS, "screen": True}
    trial(setting("clusters", 1), options, 2 * RUN_TOKENS, watch=events.append)
    return events


def test_every_choice_of_a_run_has_one_outcome() -> None:
    missing, choices = allocation.run_unlabelled(1)
    assert missing == 0
    assert choices > 40


def test_an_outcome_that_is_missing_or_comes_twice_is_found() -> None:
    events = recorded()
    asked = unlabelled(events)[1]
    assert unlabelled(events) == (0, asked)
    verdicts = [event for event in events if isinstance(event, Judged) and event.contributors]
    assert verdicts
    lost, twice = verdicts[0], verdicts[-1]
    assert unlabelled([event for event in events if event is not lost])[0] > 0
    assert unlabelled([*events, twice])[0] > 0
    stopped = events[-1]
    assert isinstance(stopped, Stopped)
    closed = (*stopped.unresolved, verdicts[0].contributors[0])
    assert unlabelled([*events[:-1], replace(stopped, unresolved=closed)])[0] > 0


def test_a_population_is_one() -> None:
    context = allocation.population(50, 8)
    assert len({candidate.artifact for candidate in context.candidates}) == 50
    assert {len(candidate.per_task) for candidate in context.candidates} == {8}
    assert allocation.taught(EVERYWHERE).gate.weights.observed == 60
