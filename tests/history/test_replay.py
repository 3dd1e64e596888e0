"""A log is enough: fold any prefix and go on, and the same log results. Replay finds every decision that differs."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentdescent import Caps, CorruptLog, IllegalEvent, MemoryLog, Wait, apply, decide, initial, replay, seeded
from agentdescent.artifact.diff import Add
from agentdescent.engine.event import (
    Abandoned,
    Amended,
    Decided,
    Event,
    Failed,
    GateOpened,
    Interrupted,
    Judged,
    Outcome,
    Proposed,
    RolledOut,
    Skipped,
    Started,
    Stopped,
)
from agentdescent.engine.state import State
from agentdescent.history.log import read
from agentdescent.merge.acceptance import Unpaired
from agentdescent.merge.audit import Audit
from agentdescent.record import replace
from tests.strategies import Job, any_job, trouble
from tests.world import START, World, any_order, final_digest, jobs, lines, opened, play

SEEDS = st.integers(0, 9_999)
OUTSIDE = (Started, RolledOut, Proposed, Failed, Abandoned, Interrupted, Amended)


# --- a prefix is enough -----------------------------------------------------------------------------------------------


@given(any_job(), SEEDS, st.floats(0.0, 1.0))
def test_folding_any_prefix_and_going_on_gives_the_same_log(job: Job, seed: int, share: float) -> None:
    order, meddle = any_order(seed), trouble(seed)
    _, log = play(*job, order=order, meddle=meddle)
    cut = int(share * len(log))
    recovered = [event for event, _ in read(lines(log[:cut]).splitlines(keepends=True))]
    _, again = play(*job, order=order, meddle=meddle, log=recovered)
    assert lines(again) == lines(log)


@given(any_job(), SEEDS)
def test_replay_decides_everything_alike(job: Job, seed: int) -> None:
    state, log = play(*job, order=any_order(seed), meddle=trouble(seed))
    found = replay(log)
    assert (found.divergence, found.finished, found.events) == (None, True, len(log))
    assert found.state == state
    unfinished = replay(log[:-1])
    assert (unfinished.divergence, unfinished.finished, unfinished.events) == (None, False, len(log) - 1)


@given(any_job(), SEEDS)
def test_a_log_kept_in_memory_has_the_digest_of_its_lines(job: Job, seed: int) -> None:
    _, log = play(*job, order=any_order(seed), watched=False)
    kept = MemoryLog()
    for event in log:
        kept.append(event)
    assert kept.digest == final_digest(log) == list(read(lines(log).splitlines(keepends=True)))[-1][1]


# --- order of arrival -------------------------------------------------------------------------------------------------


@given(any_job(), SEEDS)
def test_under_ordered_admission_the_order_of_arrival_is_nowhere_in_the_log(job: Job, seed: int) -> None:
    """Effects are performed in an arbitrary order, many at a time; what is not admissible is refused and kept."""
    spec, setup, world = job
    spec = replace(spec, admission="ordered")
    _, log = play(spec, setup, world)
    state, events, arrived = initial(spec, setup), list[Event](), dict[int, Outcome]()
    pick = any_order(seed)
    turn = 0
    while state.stopped is None:
        step = decide(state, seeded(spec.seed))
        if not isinstance(step, Wait):
            event: Event = step
        else:
            missing = tuple(one for one in opened(state) if one.command.id not in arrived)
            while step.admissible[0] not in arrived:
                turn += 1
                chosen = pick(tuple(one.command.id for one in missing), turn)
                arrived[chosen] = world.answer(state, next(one for one in missing if one.command.id == chosen))
                missing = tuple(one for one in missing if one.command.id != chosen)
            for ident in sorted(arrived, reverse=True)[:2]:
                if ident != step.admissible[0]:
                    with pytest.raises(IllegalEvent):
                        apply(state, arrived[ident])
            event = arrived.pop(step.admissible[0])
        state = apply(state, event)
        events.append(event)
    assert events == log


# --- every edit of what decide wrote is found -------------------------------------------------------------------------


def edits(kind: Any, value: Any) -> Iterator[Any]:
    """Other values of this type: each differs from `value` in one place."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        yield next(other for other in arguments if other != value)
    elif origin in (Union, types.UnionType):
        others = [one for one in arguments if one is not type(None)]
        if value is None:
            yield from _something(others[0])
        else:
            if type(None) in arguments:
                yield None
            yield from edits(next(one for one in others if _is(value, one)), value)
    elif origin is tuple and arguments[-1:] == (...,):
        if value:
            yield value[:-1]
            yield (*value, value[0])
            for changed in edits(arguments[0], value[0]):
                yield (changed, *value[1:])
        else:
            yield from ((one,) for one in _something(arguments[0]))
    elif origin is tuple:
        for n, one in enumerate(arguments):
            for changed in edits(one, value[n]):
                yield (*value[:n], changed, *value[n + 1 :])
    elif kind is bool:
        yield not value
    elif kind in (int, float):
        yield value + 1
    elif kind is str:
        yield value + "x"
    else:
        assert isinstance(value, msgspec.Struct), (kind, value)
        for field in msgspec.structs.fields(type(value)):
            for changed in edits(field.type, getattr(value, field.name)):
                yield msgspec.structs.replace(value, **{field.name: changed})


def _is(value: Any, kind: Any) -> bool:
    return value in get_args(kind) if get_origin(kind) is Literal else isinstance(value, get_origin(kind) or kind)


def _something(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Literal:
        yield get_args(kind)[0]
    elif kind in (int, float, bool):
        yield kind(1)
    elif kind is str:
        yield "x"
    elif get_origin(kind) is tuple:
        yield () if get_args(kind)[-1:] == (...,) else tuple(next(_something(one)) for one in get_args(kind))
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        required = [field for field in msgspec.structs.fields(kind) if field.required]
        yield kind(**{field.name: next(_something(field.type)) for field in required})
    elif get_origin(kind) in (Union, types.UnionType):
        yield from _something(next(one for one in get_args(kind) if one is not type(None)))
    else:
        raise AssertionError(kind)


def written(log: list[Event]) -> list[int]:
    """Numbers of the events that decide wrote, Started excepted."""
    return [n for n, event in enumerate(log) if not isinstance(event, OUTSIDE)]


def plain() -> tuple[Job, list[Event]]:
    """A run with every kind of decision."""
    spec, setup = jobs(10, workers=4)
    spec = replace(spec, test_share=0.2, refresh_interval=2, caps=Caps(tokens=9_000, rounds=3), hard_floor=0.1, seed=1)
    job = Job(spec, replace(setup, artifact=START), World(seed=5, failing=0.05))
    return job, play(*job)[1]


def audited() -> tuple[Job, list[Event]]:
    """A run under the unpaired rule, in which the oracle agrees, vetoes, and has no calls left in the end."""
    spec, setup = jobs(12, workers=3)
    spec = replace(spec, acceptance=Unpaired(), audit=Audit(blast_radius=0.0), oracle_budget=20, cheap_size=4)
    spec = replace(spec, caps=Caps(rounds=5), fusion="none", refresh_interval=2)
    world = World(seed=3, doubt=0.2, failing_at=(("audit", 0.1),), menu=("good", "good", "bad"))
    job = Job(spec, replace(setup, oracle="oracle"), world)
    return job, play(*job)[1]


def test_the_audited_run_has_what_it_is_for() -> None:
    _, log = audited()
    opened = [event for event in log if isinstance(event, GateOpened)]
    assert len({event.prior for event in opened}) > 1
    assert {0} < {event.audit for event in opened}
    assert {"committed", "oracle-rejected"} <= {event.outcome for event in log if isinstance(event, Judged)}
    assert any(isinstance(event, Skipped) and event.purpose == "audit" for event in log)


@pytest.mark.parametrize("run", [plain, audited])
def test_every_edit_of_every_field_of_a_run_is_found(run: Callable[[], tuple[Job, list[Event]]]) -> None:
    _, log = run()
    kinds = {type(log[n]).__name__ for n in written(log)}
    assert kinds == {"Decided", "Skipped", "GateOpened", "Judged", "Committed", "Promoted", "Stopped"}
    tried = 0
    for number in written(log)[:: max(1, len(log) // 60)]:
        for changed in edits(type(log[number]), log[number]):
            found = replay([*log[:number], changed, *log[number + 1 :]])
            assert found.divergence is not None, changed
            assert (found.divergence.number, found.divergence.recorded) == (number, repr(changed))
            assert found.divergence.expected == repr(log[number])
            tried += 1
    assert tried > 300


@settings(max_examples=150)
@given(any_job(), SEEDS, st.data())
def test_any_edit_of_any_run_is_found(job: Job, seed: int, data: st.DataObject) -> None:
    _, log = play(*job, order=any_order(seed), meddle=trouble(seed), watched=False)
    numbers = written(log)
    assume(numbers)
    number = data.draw(st.sampled_from(numbers))
    changes = list(edits(type(log[number]), log[number]))
    changed = data.draw(st.sampled_from(changes))
    rechained = lines([*log[:number], changed, *log[number + 1 :]]).splitlines(keepends=True)
    found = replay(event for event, _ in read(rechained))
    assert found.divergence is not None
    assert found.divergence.number == number
    assert not found.finished


@given(any_job(), SEEDS, st.data())
def test_a_decision_left_out_or_moved_is_found(job: Job, seed: int, data: st.DataObject) -> None:
    _, log = play(*job, order=any_order(seed), watched=False)
    number = data.draw(st.sampled_from(written(log)))
    shorter = replay([*log[:number], *log[number + 1 :]])
    if number == len(log) - 1:
        assert (shorter.divergence, shorter.finished) == (None, False)
    else:
        assert shorter.divergence is not None
        assert shorter.divergence.number >= number
    twice = replay([*log[: number + 1], *log[number:]])
    assert twice.divergence is not None
    assert twice.divergence.number == number + 1


# --- answers are the world's; a digest pins them ----------------------------------------------------------------------


def test_another_answer_is_another_run_and_has_another_digest() -> None:
    _, log = plain()
    number = next(n for n, event in enumerate(log) if isinstance(event, RolledOut))
    answer = log[number]
    assert isinstance(answer, RolledOut)
    changed = replace(answer, output="f" * 32)
    edited = [*log[:number], changed, *log[number + 1 :]]
    assert replay(edited).divergence is None
    assert final_digest(edited) != final_digest(log)
    worse = [*log[:number], replace(answer, score=(answer.score + 500_000) % 1_000_001), *log[number + 1 :]]
    found = replay(worse)
    assert found.divergence is not None
    assert found.divergence.number > number


@pytest.mark.parametrize(
    ("foreign", "why"),
    [
        (RolledOut(999, 0, 0, ""), "Wait(admissible=(0,))"),
        (Proposed(0, (Add("k", "text"),)), "not this: Proposed for command 0, which is a Rollout"),
        (RolledOut(0, 1_000_001, 0, ""), "not this: a score of 1000001 millionths for command 0"),
        (Amended(Caps(rounds=9)), "not this: Amended while the run is going on"),
    ],
)
def test_what_cannot_follow_is_a_divergence(foreign: Event, why: str) -> None:
    spec, setup = jobs(8)
    _, log = play(spec, setup, World())
    at = next(n for n, event in enumerate(log) if isinstance(event, RolledOut))
    found = replay([*log[:at], foreign, *log[at:]])
    assert found.divergence is not None
    assert (found.divergence.number, found.events, found.finished) == (at, at, False)
    assert found.divergence.recorded == repr(foreign)
    assert found.divergence.expected == why


def test_a_run_begins_once() -> None:
    _, log = plain()
    found = replay([log[0], *log])
    assert found.divergence is not None
    assert (found.divergence.number, found.divergence.recorded) == (1, repr(log[0]))
    with pytest.raises(IllegalEvent, match="a second Started"):
        apply(apply(initial(*jobs()), log[0]), log[0])


def test_only_an_amendment_follows_the_end() -> None:
    spec, setup = jobs(8)
    _, log = play(spec, setup, World())
    for late in (log[-1], Interrupted("cancelled"), log[5]):
        found = replay([*log, late])
        assert found.divergence is not None
        assert (found.divergence.number, found.finished) == (len(log), False)
    assert replay([*log, Amended(Caps(rounds=9))]).divergence is None


def test_a_log_begins_with_started() -> None:
    with pytest.raises(CorruptLog, match="does not begin with Started"):
        replay([])
    with pytest.raises(CorruptLog, match="does not begin with Started"):
        replay([Stopped("rounds")])


def test_without_check_a_log_is_folded_as_it_is() -> None:
    _, log = plain()
    number = next(n for n, event in enumerate(log) if isinstance(event, Decided) and event.round == 1)
    decided = log[number]
    assert isinstance(decided, Decided)
    odd = replace(decided, command=replace(decided.command, ceiling=decided.command.ceiling + 1))
    edited = [*log[:number], odd, *log[number + 1 :]]
    assert replay(edited).divergence is not None
    found = replay(edited, check=False)
    assert (found.divergence, found.finished, found.events) == (None, True, len(log))


def test_states_are_values() -> None:
    """Folding neither changes a state nor an event: an old one can be gone on with."""
    job, log = plain()
    states = [initial(job.spec, job.setup)]
    for event in log:
        states.append(apply(states[-1], event))
    copies: list[State] = [initial(job.spec, job.setup)]
    for event in log:
        copies.append(apply(copies[-1], event))
    for n in (0, 1, len(log) // 2, len(log) - 1):
        assert states[n] == copies[n]
        assert apply(states[n], log[n]) == states[n + 1]
