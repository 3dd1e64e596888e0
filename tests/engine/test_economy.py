"""The economic stop, the end before a round that does not fit, and ceilings of single proposals, in the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentdescent import CallBudget, Caps, DiminishingReturns, Rate, Setup, Spec, State, UsageError, apply, replay
from agentdescent.artifact.diff import Add, Entries, Ops
from agentdescent.artifact.strategy import Strategy
from agentdescent.budget import projection, returns
from agentdescent.budget.call_budget import ceiling, lowest
from agentdescent.budget.governor import remaining_fraction
from agentdescent.engine.command import Command, Propose
from agentdescent.engine.event import Amended, Decided, Event, Failed, Judged, Outcome, Started, Stopped
from agentdescent.engine.state import initial
from agentdescent.engine.validation import check
from agentdescent.history import rounds
from agentdescent.history.rounds import RoundInfo, Tally
from agentdescent.merge.acceptance import MILLION
from agentdescent.record import replace
from tests.strategies import Job, any_job, trouble
from tests.world import World, any_order, jobs, lines, play

SEEDS = st.integers(0, 9_999)
RULE = DiminishingReturns()
PLENTY = Caps(tokens=10**9, rounds=60)
EARLY = World(seed=3, menu=("good", "good", "meh"), solved=0.1)


def end_of(log: list[Event]) -> Stopped:
    ended = log[-1]
    assert isinstance(ended, Stopped)
    return ended


def folded(log: list[Event]) -> Iterator[tuple[Event, State]]:
    """Every event, and the state after it."""
    first = log[0]
    assert isinstance(first, Started)
    state = initial(first.spec, first.setup)
    for event in log:
        state = apply(state, event)
        yield event, state


def rounds_of(log: list[Event]) -> list[RoundInfo]:
    tally, out = Tally(), []
    for event, state in folded(log):
        tally, done = rounds.observe(tally, event, state)
        if done is not None:
            out.append(done)
    return out


def economic(tasks: int = 24, caps: Caps = PLENTY) -> tuple[Spec, Setup]:
    spec, setup = jobs(tasks)
    return replace(spec, caps=caps, diminishing_returns=RULE), setup


class Regular(World, frozen=True):
    """One proposal in three adds a rule, and n such rules solve the first n tasks. The others are of no use."""

    def score(self, task: int, rendered: str) -> int:
        return MILLION if task < rendered.count("step") else 0

    def ops(self, subject: int) -> Ops:
        return (Add(f"k{subject}", f"{'step' if subject % 3 == 1 else 'idle'} {subject}"),)


# --- diminishing returns ----------------------------------------------------------------------------------------------


def stops_after(infos: list[RoundInfo], rule: DiminishingReturns) -> int | None:
    """The first round after which the rule says so, by what the history shows."""
    seen, spent = returns.Returns(), 0
    for info in infos:
        spent += info.tokens
        seen = returns.observe(rule, seen, spent, info.reward)
        if returns.diminished(rule, seen):
            return info.round
    return None


def test_gains_that_cease_end_a_run_that_would_have_used_all_its_rounds() -> None:
    spec, setup = economic()
    state, log = play(spec, setup, EARLY)
    assert end_of(log).reason == "diminishing_returns"
    assert state.head.version.number > 0
    assert stops_after(rounds_of(log), RULE) == state.round < 60
    _, longer = play(replace(spec, diminishing_returns=None), setup, EARLY)
    assert end_of(longer).reason == "rounds"
    assert longer[1 : len(log) - 2] == log[1:-2]
    assert replay(log).divergence is None


@given(any_job(), SEEDS, st.floats(0.1, 0.9), st.integers(2, 4))
def test_it_stops_at_the_first_barrier_after_which_the_history_says_so(
    job: Job, seed: int, floor: float, samples: int
) -> None:
    spec, setup, world = job
    rule = DiminishingReturns(floor, samples)
    spec = replace(spec, schedule="rounds", diminishing_returns=rule, caps=Caps(tokens=10**9, rounds=12), test_share=0)
    state, log = play(spec, setup, world, order=any_order(seed))
    assume(state.base is None)
    when, ended = stops_after(rounds_of(log), rule), end_of(log).reason
    assert when is None or when == state.round
    assert (ended == "diminishing_returns") <= (when is not None)
    assert ended in ("diminishing_returns", "target_reward", "patience", "solved", "error") or when is None


@given(any_job(failing=False), SEEDS)
def test_without_a_barrier_what_is_in_progress_is_merged(job: Job, seed: int) -> None:
    spec, setup, world = job
    rule = DiminishingReturns(0.9, 2)
    spec = replace(spec, schedule="continuous", diminishing_returns=rule, caps=Caps(tokens=10**9, rounds=30))
    state, log = play(spec, setup, world, order=any_order(seed))
    assume(end_of(log).reason == "diminishing_returns")
    assert returns.diminished(rule, state.returns)
    assert end_of(log).unresolved == ()
    assert len(state.returns.points) <= 3
    assert replay(log).divergence is None


def test_flat_rounds_between_regular_gains_do_not_end_a_run() -> None:
    """Field case 33, in the engine: the second of every three rounds brings a rule that helps."""
    spec, setup = jobs(30, workers=1)
    spec = replace(spec, caps=replace(PLENTY, rounds=24), diminishing_returns=RULE, self_verify=False, shuffle=False)
    state, log = play(spec, setup, Regular())
    flat = [info for info in rounds_of(log)[1:] if not info.committed]
    assert (end_of(log).reason, state.head.version.number, len(flat)) == ("rounds", 8, 16)


# --- a round that is not expected to fit ------------------------------------------------------------------------------


@given(any_job(strict=True), SEEDS, st.integers(10, 120))
def test_a_run_ends_before_a_round_that_does_not_fit(job: Job, seed: int, calls: int) -> None:
    spec, setup, world = job
    spec = replace(spec, schedule="rounds", projection="round", diminishing_returns=None, test_share=0.0)
    spec = replace(spec, fusion_width="all")  # another width waits, and stops waiting where the run is to end
    unit = setup.tariff.solve.overhead + setup.tariff.solve.ceiling + 20
    spec = replace(spec, caps=Caps(tokens=calls * unit, rounds=30))
    _, log = play(spec, setup, world, order=any_order(seed))
    after = list(folded(log))
    ends = [
        n for n, (event, _) in enumerate(after) if isinstance(event, Decided) and event.round > after[n - 1][1].round
    ]
    assume(len(ends) > 1)
    costs = projection.Rounds(began=after[ends[0] - 1][1].governor.spent.tokens)
    for n in ends[1:]:
        governor = after[n - 1][1].governor
        costs = projection.observe(costs, governor.spent.tokens)
        assert projection.affords_next_round(costs, calls * unit - governor.spent.tokens)
    last = after[-1][1].governor
    if end_of(log).reason == "max_tokens":
        costs = projection.observe(costs, last.spent.tokens)
        _, longer = play(replace(spec, projection="verdict"), setup, world, order=any_order(seed))
        assert longer[1 : len(log) - 2] == log[1:-2]
        if not projection.affords_next_round(costs, calls * unit - last.spent.tokens):
            assert last.spent.tokens <= next(reversed(list(folded(longer))))[1].governor.spent.tokens
    assert replay(log).divergence is None


def test_what_would_not_buy_a_whole_round_is_left() -> None:
    spec, setup = jobs(40, workers=8)
    spec = replace(spec, caps=Caps(tokens=9_000), heldout_limit=3)
    world = World(seed=1, menu=("meh",), exact=1.0, solved=0.0)
    to_the_end, _ = play(spec, setup, world)
    at_a_barrier, log = play(replace(spec, projection="round"), setup, world)
    assert end_of(log).reason == "max_tokens"
    assert at_a_barrier.governor.spent.tokens < to_the_end.governor.spent.tokens <= 9_000
    assert at_a_barrier.round < to_the_end.round
    raised = [*log, Amended(Caps(tokens=18_000))]
    further, _ = play(spec, setup, world, log=raised)
    assert further.round > at_a_barrier.round


# --- the ceiling of one proposal --------------------------------------------------------------------------------------


def proposals(log: list[Event]) -> list[tuple[Propose, State]]:
    """Each, and the state in which it was decided."""
    states = [state for _, state in folded(log)]
    return [
        (event.command, states[n - 1])
        for n, event in enumerate(log)
        if isinstance(event, Decided) and isinstance(event.command, Propose)
    ]


def budgeted(caps: Caps, budget: CallBudget | None = None) -> tuple[Spec, Setup]:
    spec, setup = jobs(20)
    rate = Rate(strict=True, overhead=10, bytes_per_token=4, ceiling=1_024)
    setup = replace(setup, tariff=replace(setup.tariff, propose=rate))
    return replace(spec, caps=caps, call_budget=budget or CallBudget(1_024, 64)), setup


def test_a_proposal_gets_what_its_score_and_the_budget_allocate() -> None:
    spec, setup = budgeted(Caps(tokens=60_000, rounds=20))
    world = World(seed=2, grain=1, menu=("meh", "good"))
    _, log = play(spec, setup, world)
    asked = proposals(log)
    for command, state in asked:
        assert spec.call_budget is not None
        assert command.ceiling == ceiling(spec.call_budget, command.score, remaining_fraction(state.governor))
    assert len({command.ceiling for command, _ in asked}) > 5
    assert {e.command.ceiling for e in log if isinstance(e, Decided) and not isinstance(e.command, Propose)} == {50}
    assert replay(log).divergence is None


def test_a_ceiling_is_lowered_to_fit_before_a_proposal_is_given_up() -> None:
    spec, setup = budgeted(Caps(tokens=7_777, rounds=50))
    world = World(seed=2, menu=("meh",), solved=0.0)
    state, log = play(spec, setup, world)
    assert spec.call_budget is not None
    floor, given_less = lowest(spec.call_budget), 0
    for command, before in proposals(log):
        allocated = ceiling(spec.call_budget, command.score, remaining_fraction(before.governor))
        given_less += floor < command.ceiling < allocated
    assert given_less
    _, fixed = play(replace(spec, call_budget=None), setup, world)
    assert len(proposals(log)) > len(proposals(fixed))
    assert state.governor.spent.tokens <= 7_777


class CutOff(World, frozen=True):
    """Every proposal is cut off at its ceiling."""

    def reply(self, setup: Setup, strategy: Strategy, command: Command, entries: Entries) -> Outcome:
        if isinstance(command, Propose):
            usage = self.usage(setup.tariff.propose, command)
            return Failed(command.id, "truncated", f"cut off at {command.ceiling} tokens", usage)
        return super().reply(setup, strategy, command, entries)


def test_a_reply_cut_off_at_its_ceiling_is_charged_labelled_and_not_asked_for_again() -> None:
    spec, setup = budgeted(Caps(rounds=2))
    state, log = play(spec, setup, CutOff(seed=1, solved=0.0))
    asked = proposals(log)
    closed = [event for event in log if isinstance(event, Judged)]
    assert [event.outcome for event in closed] == ["failed"] * len(asked) == ["failed"] * 4
    assert {getattr(event.evidence, "kind", "") for event in closed} == {"truncated"}
    assert next(line.used.calls for line in state.governor.ledger if line.purpose == "propose") == 4
    _, without = play(replace(spec, call_budget=None), setup, CutOff(seed=1, solved=0.0))
    assert len(proposals(without)) == 12


@given(any_job(over=True), SEEDS)
def test_books_and_replay_hold_with_call_budgets(job: Job, seed: int) -> None:
    spec, setup, world = job
    assume(spec.call_budget is not None)
    _, log = play(spec, setup, world, order=any_order(seed), meddle=trouble(seed))
    found = replay(log)
    assert (found.divergence, found.finished) == (None, True)
    _, again = play(spec, setup, world, order=any_order(seed), meddle=trouble(seed), log=log[: len(log) // 2])
    assert lines(again) == lines(log)


@given(any_job(strict=True), SEEDS)
def test_a_ceiling_that_is_always_the_tariff_s_changes_nothing(job: Job, seed: int) -> None:
    spec, setup, world = job
    spec = replace(spec, attempts=1)  # what was cut off at the ceiling of its own call is not asked again
    most = setup.tariff.propose.ceiling
    _, plain = play(replace(spec, call_budget=None), setup, world, order=any_order(seed))
    _, same = play(replace(spec, call_budget=CallBudget(most, most)), setup, world, order=any_order(seed))
    assert same[1:] == plain[1:]


# --- what is impossible -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (Spec(diminishing_returns=RULE), "stop_on_diminishing_returns needs a token cap"),
        (Spec(caps=PLENTY, diminishing_returns=DiminishingReturns(2.0)), r"efficiency_floor is 2\.0"),
        (Spec(projection="round"), "projection is 'round', and no token cap"),
        (Spec(caps=PLENTY, projection="round", schedule="continuous"), "continuous schedule has no rounds"),
        (Spec(call_budget=CallBudget(0)), r"call_budget\.base is 0"),
        (Spec(call_budget=CallBudget(51)), r"base is 51, and tariff\.propose allows 50 completion tokens"),
        (Spec(soft_floor=0.0), r"soft_floor is 0\.0: it must be in \(0, 1\]"),
        (Spec(soft_floor=1.1), r"soft_floor is 1\.1"),
    ],
)
def test_it_is_named_before_anything_is_spent(changes: Spec, message: str) -> None:
    _, setup = jobs()
    with pytest.raises(UsageError, match=message):
        check(changes, setup)
