"""Ceilings in the cases that went wrong elsewhere: what is spent, what is left, why it stopped, and what it says."""

from __future__ import annotations

import msgspec
import pytest

from agentdescent import Caps, Rate, Setup, Spec, State, Tariff, Usage, UsageError
from agentdescent.artifact.diff import Add, Entries, Ops
from agentdescent.artifact.strategy import Strategy
from agentdescent.budget.usage import Amount
from agentdescent.engine.command import Command, Propose, Rollout
from agentdescent.engine.event import (
    Amended,
    Committed,
    Decided,
    Event,
    Failed,
    FailureKind,
    Judged,
    Outcome,
    Proposed,
    RolledOut,
    Skipped,
    Stopped,
)
from agentdescent.engine.path import cheapest_path
from agentdescent.engine.spec import TaskInfo
from agentdescent.engine.validation import check, check_caps
from agentdescent.history.outcomes import outcomes
from agentdescent.record import replace
from tests.world import World, calls, jobs, play

MILLION = 1_000_000


class Meter(World, frozen=True):
    """Every call uses all that was reserved for it; nothing is ever solved, each proposal is a new useless rule.
    `fails`: (call, kind, tokens) of those that fail; `silent_calls`: of those that do not say what they used;
    `zero`: tasks that score 0 at first and 1 with any rule."""

    exact: float = 1.0
    fails: tuple[tuple[int, FailureKind, int | None], ...] = ()
    mute: bool = False
    helps: bool = False

    def score(self, task: int, rendered: str) -> int:
        return MILLION if self.helps and "\n" in rendered else 0

    def ops(self, subject: int) -> Ops:
        return (Add(f"k{subject:05}", f"rule {subject:05}"),)

    def reply(self, setup: Setup, strategy: Strategy, command: Command, entries: Entries) -> Outcome:
        for ident, kind, tokens in self.fails:
            if ident == command.id:
                return Failed(ident, kind, f"{kind} in call {ident}", None if tokens is None else Usage(tokens))
        outcome = super().reply(setup, strategy, command, entries)
        if self.mute and isinstance(outcome, RolledOut | Proposed):
            outcome = replace(outcome, usage=None)
        return replace(outcome, size=0) if isinstance(outcome, RolledOut) else outcome


def fixed(rollout: int, proposal: int, *, tasks: int = 10, workers: int = 16) -> tuple[Spec, Setup]:
    """A rollout costs exactly `rollout` tokens and a proposal `proposal`, whatever is in the prompt."""
    spec, setup = jobs(tasks, workers=workers, size=0)
    tariff = Tariff(
        Rate(strict=True, bytes_per_token=64, overhead=rollout - 51, ceiling=50),
        Rate(strict=True, bytes_per_token=64, overhead=proposal - 51, ceiling=50),
        output_limit=0,
    )
    return replace(spec, shuffle=False, heldout_share=0.4), replace(setup, tariff=tariff)


def end_of(log: list[Event]) -> Stopped:
    ended = log[-1]
    assert isinstance(ended, Stopped)
    return ended


def free(state: State) -> int:
    governor = state.governor
    assert governor.caps.tokens is not None
    return governor.caps.tokens - governor.spent.tokens - governor.due.tokens - governor.held.tokens


def counted(log: list[Event]) -> int:
    """The provider's own meter."""
    reserve = {event.command.id: event.command.reserve.tokens for event in log if isinstance(event, Decided)}
    total = 0
    for event in log:
        if isinstance(event, RolledOut | Proposed | Failed):
            total += reserve[event.id] if event.usage is None else event.usage.tokens
    return total


# --- case 6: many workers under one ceiling ---------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [10_000, 10_001, 9_973, 20_000, 3_000])
@pytest.mark.parametrize("helps", [False, True])
def test_sixteen_workers_do_not_overspend_and_leave_less_than_a_path(cap: int, helps: bool) -> None:
    spec, setup = fixed(120, 300)
    spec = replace(spec, caps=Caps(tokens=cap, rounds=100))
    check(spec, setup)
    state, log = play(spec, setup, Meter(helps=helps))
    assert counted(log) == state.governor.spent.tokens <= cap
    if helps:
        assert end_of(log).reason == "solved" or free(state) < cheapest_path(state).tokens
    else:
        assert (end_of(log).reason, end_of(log).error) == ("max_tokens", "")
        assert 0 <= free(state) < cheapest_path(state).tokens
    first = log[1]
    assert isinstance(first, Decided)
    assert first.command.reserve == Amount(120, 0, 1, 1)
    assert {one.command.reserve for one in calls(log, "propose")} == {Amount(300, 0, 1, 0)}


def test_a_path_is_a_rollout_a_proposal_and_a_gate() -> None:
    spec, setup = fixed(120, 300)
    spec = replace(spec, caps=Caps(tokens=10_000, rounds=100))
    state, _ = play(spec, setup, Meter())
    assert cheapest_path(state) == Amount(120 + 300 + 4 * 120, 0, 1 + 1 + 4, 1 + 4)


# --- case 2: the ceiling between self-verify and gate -----------------------------------------------------------------


def test_what_was_paid_for_before_the_ceiling_is_recorded_and_may_commit() -> None:
    """Base 480, rollout 120, proposal 300, verify 120, gate 480: with one token less there is no verify."""
    spec, setup = fixed(120, 300, workers=1)
    spec = replace(spec, hard_floor=1.0)
    whole = 480 + 120 + 300 + 120 + 480
    state, log = play(replace(spec, caps=Caps(tokens=whole, rounds=9)), setup, Meter(helps=True))
    assert len(calls(log, "verify")) == 1
    assert [event.subject for event in log if isinstance(event, Committed)] == [0]
    assert (state.governor.spent.tokens, end_of(log).reason) == (whole, "max_tokens")
    state, log = play(replace(spec, caps=Caps(tokens=whole - 1, rounds=9)), setup, Meter(helps=True))
    assert [event for event in log if isinstance(event, Skipped)] == [Skipped("verify", 0, "unaffordable")]
    assert [event.subject for event in log if isinstance(event, Committed)] == [0]
    assert (state.governor.spent.tokens, end_of(log)) == (whole - 120, Stopped("max_tokens"))


def test_a_card_that_cannot_be_gated_any_more_is_unresolved_until_there_is_money() -> None:
    """The retry of the proposal took what the gate would have needed."""
    spec, setup = fixed(120, 300, workers=1)
    spec = replace(spec, self_verify=False, caps=Caps(tokens=480 + 120 + 300 + 480 + 250, rounds=1))
    world = Meter(helps=True, fails=((5, "truncated", 300),))
    state, log = play(spec, setup, world)
    assert outcomes(log) == {0: "unresolved"}
    assert end_of(log) == Stopped("rounds", "", (0,))
    assert state.governor.spent.tokens == 480 + 120 + 300 + 300
    state, log = play(spec, setup, world, log=[*log, Amended(Caps(tokens=10_000, rounds=1))])
    assert outcomes(log) == {0: "committed"}
    assert (end_of(log), state.governor.spent.tokens) == (Stopped("rounds"), 480 + 120 + 600 + 480)


# --- case 3: caps that are none ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tokens", "cost", "calls", "rollouts", "rounds"])
@pytest.mark.parametrize("value", [0, -5, float("nan"), "1000", True, 2.0, float("inf")])
def test_a_cap_is_a_positive_whole_number(name: str, value: object) -> None:
    spec, setup = fixed(120, 300)
    caps = msgspec.structs.replace(Caps(), **{name: value})
    with pytest.raises(UsageError, match="must be a positive whole number") as caught:
        check_caps(caps)
    with pytest.raises(UsageError):
        check(replace(spec, caps=caps), setup)
    shown = name if name == "rounds" else f"max_{name}"
    assert str(caught.value).startswith(f"{shown} is {value!r}: ")


def test_a_cap_that_pays_for_nothing_states_the_estimate() -> None:
    spec, setup = fixed(120, 300)
    need = 480 + 120 + 300 + 480
    with pytest.raises(UsageError, match=f"max_tokens is 1, and scoring .* may need {need}: raise it to that"):
        check(replace(spec, caps=Caps(tokens=1)), setup)
    with pytest.raises(UsageError, match=f"max_tokens is {need - 1}"):
        check(replace(spec, caps=Caps(tokens=need - 1)), setup)
    check(replace(spec, caps=Caps(tokens=need)), setup)
    for short, enough in ((Caps(calls=9), Caps(calls=10)), (Caps(rollouts=8), Caps(rollouts=9))):
        with pytest.raises(UsageError, match="raise it to that"):
            check(replace(spec, caps=short), setup)
        check(replace(spec, caps=enough), setup)


def test_something_must_limit_a_run() -> None:
    spec, setup = fixed(120, 300)
    with pytest.raises(UsageError, match="nothing limits the run"):
        check(replace(spec, caps=Caps()), setup)


# --- case 4: a cap below one round ------------------------------------------------------------------------------------


def test_a_cap_below_one_round_says_how_many_it_buys_and_how_many_ran() -> None:
    spec, setup = fixed(120, 300)
    spec = replace(spec, caps=Caps(tokens=3_100, rounds=20))
    (warning,) = check(spec, setup)
    assert warning == (
        "max_tokens 3100 may buy only 0.4 rounds of 16 workers in the worst case: use fewer workers, or a higher cap"
    )
    state, log = play(spec, setup, Meter())
    assert (state.round, end_of(log).reason) == (1, "max_tokens")
    assert state.governor.spent.tokens <= 3_100


def test_an_unaffordable_base_ends_before_anything_is_spent() -> None:
    """`check` refuses it; the engine on its own is safe as well."""
    spec, setup = fixed(120, 300)
    state, log = play(replace(spec, caps=Caps(tokens=119, rounds=2)), setup, Meter())
    assert log[1:] == [Stopped("max_tokens")]
    assert state.governor.spent == Amount()


# --- case 5: a cap far above the need ---------------------------------------------------------------------------------


def test_a_cap_far_above_the_need_changes_no_decision() -> None:
    spec, setup = fixed(120, 300, workers=4)
    spec = replace(spec, test_share=0.2)
    world = Meter(helps=False)
    _, without = play(replace(spec, caps=Caps(rounds=4)), setup, world)
    huge = Caps(tokens=10**12, calls=10**9, rollouts=10**9, rounds=4)
    _, within = play(replace(spec, caps=huge), setup, world)
    assert without[1:] == within[1:]
    assert len(calls(within, "verify")) == len(calls(without, "verify")) > 0


# --- case 34: rounds of constant cost ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("cap", "rounds"), [(1_500, 1), (2_700, 2), (3_760, 3), (3_000, 3), (999, 0)])
def test_constant_rounds_fill_the_cap_and_no_more(cap: int, rounds: int) -> None:
    """One worker: a round is a rollout (100), a proposal (500) and a gate of four (400): 1,000. The base is given."""
    spec, setup = fixed(100, 500, workers=1)
    spec = replace(spec, self_verify=False, curtail=False, caps=Caps(tokens=400 + cap, rounds=50))
    state, log = play(spec, setup, Meter())
    done = [event for event in log if isinstance(event, Judged)]
    assert [event.outcome for event in done] == ["below-threshold"] * rounds
    assert (state.round, state.governor.spent.tokens) == (rounds, 400 + 1_000 * rounds)
    assert end_of(log).reason == "max_tokens"


# --- case 16: an evaluator that fails once ----------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [None, 0, 70])
def test_a_failed_score_is_asked_again_charged_and_no_score(tokens: int | None) -> None:
    spec, setup = fixed(120, 300, workers=1)
    spec = replace(spec, caps=Caps(rounds=1))
    world = Meter(helps=True, fails=((1, "scorer", tokens), (4, "timeout", tokens)))
    state, log = play(spec, setup, world)
    base = calls(log, "base")
    assert [(one.command.id, one.attempt) for one in base] == [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (5, 2)]
    assert isinstance(base[1].command, Rollout)
    assert {one.command.task for one in base if isinstance(one.command, Rollout) and one.command.id in (1, 4, 5)} == {
        base[1].command.task
    }
    assert (state.base_total, state.head.scores.count) == (0, 4)
    line = next(line for line in state.governor.ledger if line.purpose == "base")
    charged = 120 if tokens is None else tokens
    assert (line.used, line.assumed) == (Amount(4 * 120 + 2 * charged, 0, 6, 6), 240 if tokens is None else 0)
    assert counted(log) == state.governor.spent.tokens


def test_a_base_that_cannot_be_scored_names_the_task_and_can_be_tried_again() -> None:
    spec, setup = fixed(120, 300, workers=1)
    spec = replace(spec, caps=Caps(tokens=9_000, rounds=1), attempts=2)
    world = Meter(helps=True, fails=((1, "provider", 0), (4, "provider", 0)))
    state, log = play(spec, setup, world)
    assert end_of(log) == Stopped("error", "the base cannot be scored: task t1: provider in call 4")
    state, log = play(spec, setup, world, log=[*log, Amended(spec.caps)])
    assert end_of(log) == Stopped("rounds")
    assert (state.head.scores.count, len(calls(log, "base"))) == (4, 6)


# --- case 18: a score of nothing is a score ---------------------------------------------------------------------------


def test_zero_is_a_score() -> None:
    spec, setup = fixed(120, 300, workers=1)
    spec = replace(spec, caps=Caps(rounds=1))
    state, log = play(spec, setup, Meter(helps=True))
    assert len(calls(log, "base")) == 4
    assert (state.base_total, state.head.scores.total) == (0, 4 * MILLION)
    propose = calls(log, "propose")
    assert [one.command.score for one in propose if isinstance(one.command, Propose)] == [0]
    assert [event.outcome for event in log if isinstance(event, Judged)] == ["committed"]


# --- case 7: calls that do not say what they used ---------------------------------------------------------------------


def test_with_max_tokens_calls_must_report_their_tokens() -> None:
    spec, setup = fixed(120, 300)
    setup = replace(setup, tariff=Tariff())
    state, log = play(replace(spec, caps=Caps(tokens=10_000)), setup, Meter(mute=True))
    assert end_of(log).reason == "error"
    assert end_of(log).error.startswith(
        "max_tokens is set, but no call reported its tokens: return Answer(value, Usage"
    )
    assert len(calls(log, "base")) == 3
    assert [line.used for line in state.governor.ledger] == [Amount(0, 0, 3, 3)]


def test_calls_that_fail_are_not_the_ones_that_do_not_report() -> None:
    """A backend that refuses from the start: the error is the root cause, not the missing usage."""
    spec, setup = fixed(120, 300)
    refused: tuple[tuple[int, FailureKind, int | None], ...] = tuple((n, "provider", None) for n in range(99))
    _, log = play(replace(spec, caps=Caps(tokens=10_000)), setup, Meter(fails=refused))
    assert end_of(log) == Stopped("error", "8 calls in a row failed, the last with: provider in call 7")
    setup = replace(setup, tariff=Tariff())
    _, log = play(replace(spec, caps=Caps(tokens=10_000)), setup, Meter(fails=refused))
    assert end_of(log) == Stopped("error", "the base cannot be scored: task t0: provider in call 2")


# --- case 20: every proposal fails ------------------------------------------------------------------------------------


def test_when_every_proposal_fails_it_ends_after_two_rounds_with_the_cause() -> None:
    spec, setup = fixed(120, 300, workers=2)
    state, log = play(replace(spec, caps=Caps(rounds=20)), setup, Meter(failing_at=(("propose", 1.0),)))
    assert (state.round, end_of(log).reason) == (2, "error")
    last = [event for event in log if isinstance(event, Failed)][-1]
    assert end_of(log).error == last.message
    assert len(calls(log, "propose")) == 2 * 2 * spec.attempts


# --- money nobody declared --------------------------------------------------------------------------------------------


def test_a_stated_price_under_a_tariff_without_prices_is_no_overrun() -> None:
    class Priced(Meter, frozen=True):
        def reply(self, setup: Setup, strategy: Strategy, command: Command, entries: Entries) -> Outcome:
            outcome = super().reply(setup, strategy, command, entries)
            if isinstance(outcome, RolledOut | Proposed) and outcome.usage is not None:
                return replace(outcome, usage=replace(outcome.usage, cost=700))
            return outcome

    spec, setup = fixed(120, 300, workers=1)
    state, log = play(replace(spec, caps=Caps(tokens=9_000, rounds=1)), setup, Priced(helps=True))
    assert end_of(log).reason == "rounds"
    answered = [event for event in log if isinstance(event, RolledOut | Proposed)]
    assert state.governor.spent.cost == 700 * len(answered)


# --- tasks of very different size -------------------------------------------------------------------------------------


def uneven() -> tuple[Spec, Setup]:
    """The first train task is 8,000 bytes, the others nothing; a token a byte to solve, one for 64 to propose."""
    spec, _ = jobs(10, workers=1)
    sizes = [0, 0, 0, 0, 8_000, 0, 0, 0, 0, 0]
    rate = Rate(strict=True, bytes_per_token=1, ceiling=50)
    tariff = Tariff(rate, replace(rate, bytes_per_token=64), 0)
    setup = Setup(tuple(TaskInfo(f"t{n}", size, "x") for n, size in enumerate(sizes)), (), tariff)
    return replace(spec, shuffle=False, self_verify=False), setup


def turns(log: list[Event]) -> list[tuple[int, int, int]]:
    """(round, task, attempt) of every worker rollout."""
    return [
        (one.round, one.command.task, one.attempt) for one in calls(log, "rollout") if isinstance(one.command, Rollout)
    ]


def test_a_rollout_that_cannot_be_asked_again_makes_way_for_the_next_turn() -> None:
    """Base 240, the large rollout 8,060, which fails: to ask again one token is missing. The next turn is one of
    round 2 on the next task, and nothing of the large one is left in it."""
    spec, setup = uneven()
    spec = replace(spec, caps=Caps(tokens=240 + 2 * 8_060 - 1, rounds=3))
    state, log = play(spec, setup, Meter(fails=((4, "timeout", 8_060),)))
    assert turns(log) == [(1, 4, 0), (2, 5, 0), (3, 6, 0)]
    asked = [one.command for one in calls(log, "propose")]
    assert [(one.rollout, one.task) for one in asked if isinstance(one, Propose)] == [(5, 5), (11, 6)]
    assert [event.outcome for event in log if isinstance(event, Judged)] == ["below-threshold"] * 2
    assert (end_of(log), state.expected) == (Stopped("rounds"), Amount())


def test_a_proposal_that_does_not_fit_makes_way_for_the_next_turn() -> None:
    """The large rollout failed once, so that its proposal (8,060) does not fit into the 640 that are left. What was
    expected of it is no reason to end: a path costs 360."""
    spec, setup = uneven()
    setup = replace(setup, tariff=replace(setup.tariff, propose=setup.tariff.solve))
    spec = replace(spec, caps=Caps(tokens=240 + 2 * 8_060 + 640, rounds=50))
    state, log = play(spec, setup, Meter(fails=((4, "timeout", 8_060),)))
    assert turns(log) == [(1, 4, 0), (1, 4, 1), (2, 5, 0)]
    assert [event.outcome for event in log if isinstance(event, Judged)] == ["below-threshold"]
    assert (end_of(log), state.expected) == (Stopped("max_tokens"), Amount())
    assert 0 <= free(state) < cheapest_path(state).tokens


def test_with_more_money_a_proposal_is_made_before_its_worker_starts_another_turn() -> None:
    """Worker 1 is stuck with its large rollout when the money ends. It goes on where it was, once."""
    spec, setup = uneven()
    sizes = [0, 0, 0, 0, 0, 8_000, 0, 0, 0, 0]
    tasks = tuple(replace(task, size=size) for task, size in zip(setup.tasks, sizes, strict=True))
    setup = replace(setup, tasks=tasks, tariff=replace(setup.tariff, propose=setup.tariff.solve))
    spec = replace(spec, n_workers=2, caps=Caps(tokens=240 + 60 + 60 + 2 * 8_060 + 300, rounds=1))
    world = Meter(fails=((5, "timeout", 8_060),))
    _, log = play(spec, setup, world)
    assert end_of(log) == Stopped("rounds")
    assert [one.worker for one in calls(log, "propose")] == [0]
    _, log = play(spec, setup, world, log=[*log, Amended(Caps(rounds=2))])
    assert end_of(log) == Stopped("rounds")
    stuck = calls(log, "rollout")[2].command.id
    asked = [(one.worker, one.command.rollout) for one in calls(log, "propose") if isinstance(one.command, Propose)]
    assert [worker for worker, rollout in asked if rollout == stuck] == [1]
    labels = outcomes(log)
    assert sorted(labels) == list(range(len(labels)))
    assert "unresolved" not in labels.values()
