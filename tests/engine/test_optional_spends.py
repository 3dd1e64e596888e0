"""Runs with every optional spend, in any schedule, through failures and interruptions: each choice comes to one
outcome, is learned once with the vector it was made on, and what never binds changes nothing."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent import Caps, replay
from agentdescent.allocation.choice import Choice
from agentdescent.allocation.config import Starts, ValueBudgetAllocator
from agentdescent.allocation.features import STAGES, columns
from agentdescent.allocation.outcomes import Outcome, label_of
from agentdescent.engine.event import Decided, Event, GateOpened, Judged, Skipped
from agentdescent.record import replace
from tests.engine.spends import choices_of, spending_job, spied, states, terminal
from tests.strategies import Job, any_job, trouble
from tests.world import any_order, lines, play

SEEDS = st.integers(0, 9_999)
FREE = Caps(rounds=3)


@settings(max_examples=150)
@given(spending_job(), SEEDS, st.booleans())
def test_every_choice_comes_to_one_outcome_and_is_observed_once_with_its_vector(
    job: Job, seed: int, rough: bool
) -> None:
    """Also through orphans, interruptions and amendments; and the log decides itself again."""
    observed: list[tuple[Choice, Outcome]] = []
    with spied(observed):
        state, log = play(*job, order=any_order(seed), meddle=trouble(seed) if rough else None, limit=20_000)
    ended = terminal(log)
    assert Counter(observed) == Counter((choice, outcome) for choice, outcome in ended if outcome != "unresolved")
    for _, choice in choices_of(log):
        assert 0.0 < choice.propensity <= 1.0
        assert choice.choice == (choice.reason not in ("skip", "clock"))
    found = replay(log)
    assert (found.divergence, found.finished) == (None, True)
    if isinstance(job.spec.allocator, ValueBudgetAllocator):
        learned = state.learned
        for stage, own in zip(STAGES, (learned.verify, learned.tournament, learned.gate, learned.finish), strict=True):
            of_stage = [(choice, outcome) for choice, outcome in ended if choice.stage == stage]
            assert own.decided == len(of_stage)
            told = [outcome for choice, outcome in of_stage if choice.reason != "clock" and outcome != "unresolved"]
            assert own.weights.observed == sum(label_of(outcome) != "recorded" for outcome in told)
            assert own.committed == told.count("committed")
            assert all(len(choice.features) == len(columns(stage)) for choice, _ in of_stage)


@given(spending_job(failing=False), SEEDS)
def test_what_is_counted_is_what_was_spent_and_won(job: Job, seed: int) -> None:
    """Tokens of cards, candidates and gates never exceed what was spent; the tallies are those of the verdicts."""
    state, log = play(*job, order=any_order(seed))
    assert sum(kin.commits for kin in state.kin) <= sum(kin.closed for kin in state.kin)
    if job.spec.allocator is None:
        assert (state.kin, state.learned.account.commits) == ((), 0)
        return
    commits = [event for event in log if isinstance(event, Judged) and event.outcome == "committed"]
    assert state.learned.account.commits == len(commits)
    assert sum(kin.commits for kin in state.kin) == len(commits)


def bare(event: Event) -> Event:
    """Without what an allocator adds."""
    return replace(event, choice=None) if isinstance(event, Decided | Skipped | GateOpened) else event


@given(any_job(), SEEDS, st.sampled_from([0.0, 0.1, 0.9]))
def test_settings_that_never_bind_change_nothing(job: Job, seed: int, epsilon: float) -> None:
    """An allocator that is never asked decides nothing; with the stage finish gates ask in another order, see below."""
    spec, setup, world = job
    spec = replace(spec, futility=0.0, tournament=False, allocator=None)
    inert = ValueBudgetAllocator(stages=("verify", "tournament", "gate"), budget_start=Starts(0.0, 0.0, 0.0, 0.0))
    _, plain = play(spec, setup, world, order=any_order(seed))
    _, same = play(replace(spec, allocator=inert, finish_epsilon=epsilon), setup, world, order=any_order(seed))
    assert [bare(event) for event in same[1:]] == plain[1:]
    _, floor = play(replace(spec, finish_epsilon=epsilon, soft_floor=0.5), setup, world, order=any_order(seed))
    assert lines(floor[1:]) == lines(plain[1:])


@given(any_job(failing=False), SEEDS)
def test_finish_that_is_never_tight_changes_no_verdict(job: Job, seed: int) -> None:
    """It asks for other tasks first, and that is all: on rounds, one gate at a time, with caps that never bind."""
    spec, setup, world = job
    spec = replace(spec, caps=FREE, open_gates=1, admission="ordered", schedule="rounds", allocator=None)
    never = ValueBudgetAllocator(stages=("finish",), budget_start=Starts(0.0, 0.0, 0.0, 0.0))
    _, plain = play(spec, setup, world)
    _, checked = play(replace(spec, allocator=never), setup, world)

    def verdicts(log: list[Event]) -> list[tuple[int, bool, tuple[int, ...]]]:
        return [
            (event.subject, event.outcome == "committed", event.contributors)
            for event in log
            if isinstance(event, Judged)
        ]

    assert verdicts(plain) == verdicts(checked)


@given(spending_job(), SEEDS)
def test_what_travels_with_open_work_is_bounded_by_it(job: Job, seed: int) -> None:
    """At most one choice a stage, and one a check, travels with a proposal."""
    _, log = play(*job, order=any_order(seed))
    for state in states(log):
        checks = 2 + state.head.scores.size // 8
        cards = [*state.cards]
        if state.sweep is not None:
            cards += [*state.sweep.intake, *state.sweep.kept]
            cards += [card for gate in state.sweep.gates for card in gate.cards]
        for card in cards:
            stages = Counter(choice.stage for choice in card.choices)
            assert stages["verify"] <= 1
            assert stages["gate"] <= 1
            assert stages["finish"] <= checks * (1 + card.reopened)
        assert len(state.kin) <= len({task.cluster for task in state.setup.tasks})
