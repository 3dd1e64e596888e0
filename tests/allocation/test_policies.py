"""Controls, allocators of one's own, and those written to the older protocol."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.allocation import (
    AllocateDecision,
    AllocatorContext,
    AllocatorPolicy,
    Always,
    Choice,
    Facts,
    Features,
    Lineage,
    Never,
    Randomly,
    Stage,
    ValueBudgetAllocator,
    greedy,
)
from agentdescent.allocation.features import vector
from agentdescent.allocation.older import Counts, OlderAllocator, consult, report
from agentdescent.allocation.policies import choose
from agentdescent.errors import UsageError
from agentdescent.testing import check_older, check_policy

FACTS = Facts("verify", AllocatorContext(), remaining=0.3)
VECTOR = vector("verify", AllocatorContext())
CONTROLS = (Always(), Never(), Randomly(0.25), Randomly(0.75), Lineage(), Lineage(kin=0.0))


class Small:
    """Twenty lines are enough."""

    def probability(self, stage: Stage, features: Features) -> float:
        return 1.0 if features[1] < 0.5 else 0.1


class Returns:
    def __init__(self, *answers: object) -> None:
        self.answers = answers
        self.asked = 0

    def probability(self, stage: Stage, features: Features) -> float:
        answer = self.answers[self.asked % len(self.answers)]
        self.asked += 1
        assert isinstance(answer, float)
        return answer


@pytest.mark.parametrize("policy", [*CONTROLS, Small()])
def test_what_ships_keeps_the_contract(policy: AllocatorPolicy) -> None:
    assert isinstance(policy, AllocatorPolicy)
    check_policy(policy)


def test_a_policy_that_breaks_the_contract_is_found() -> None:
    with pytest.raises(AssertionError, match=r"is 1.5: it is a number from 0 to 1"):
        check_policy(Returns(1.5))
    with pytest.raises(AssertionError, match=r"is nan"):
        check_policy(Returns(float("nan")))
    with pytest.raises(AssertionError, match="changes"):
        check_policy(Returns(0.1, 0.2, 0.3))
    with pytest.raises(UsageError, match=r"Returns.probability returned 1.5"):
        choose(Returns(1.5), FACTS, 0.5)


@pytest.mark.parametrize(
    ("policy", "draw", "expected"),
    [
        (Always(), 0.999, Choice("verify", VECTOR, 1.0, 0.0, 0.999, True, "value", 1.0)),
        (Never(), 0.0, Choice("verify", VECTOR, 0.0, 0.0, 0.0, False, "skip", 1.0)),
        (Randomly(0.25), 0.2, Choice("verify", VECTOR, 0.25, 0.0, 0.2, True, "counterfactual", 0.25)),
        (Randomly(0.25), 0.25, Choice("verify", VECTOR, 0.25, 0.0, 0.25, False, "skip", 0.75)),
        (Small(), 0.5, Choice("verify", VECTOR, 1.0, 0.0, 0.5, True, "value", 1.0)),
    ],
)
def test_the_engine_chooses(policy: AllocatorPolicy, draw: float, expected: Choice) -> None:
    assert choose(policy, FACTS, draw) == expected


@given(st.sampled_from(CONTROLS), st.integers(0, 9), st.integers(0, 9), st.floats(0, 1), st.booleans())
def test_a_propensity_is_a_share_of_draws(
    policy: AllocatorPolicy, commits: int, closed: int, remaining: float, allowed: bool
) -> None:
    context = AllocatorContext(commits=min(commits, closed), closed=closed)
    choices = [choose(policy, Facts("gate", context, remaining, allowed), (2 * i + 1) / 400) for i in range(200)]
    share = sum(choice.choice for choice in choices) / 200
    for choice in choices:
        assert choice.propensity == pytest.approx(share if choice.choice else 1.0 - share, abs=0.005)


def test_the_clock_and_the_start_bind_a_policy_too() -> None:
    assert choose(Always(), Facts("verify", AllocatorContext(), 0.3, False), 0.5).reason == "clock"
    assert choose(Never(), Facts("verify", AllocatorContext(), 0.5), 0.5).reason == "not-tight"
    assert choose(Never(), Facts("verify", AllocatorContext(), 0.5), 0.5, 2.0).reason == "skip"


@pytest.mark.parametrize(
    ("commits", "closed", "kin_commits", "kin_closed", "spends"),
    [
        (0, 0, 0, 0, True),  # 1/2 and 0.289
        (0, 2, 0, 0, False),  # Beta(1, 3): 1/4 and 0.194
        (0, 1, 0, 0, True),  # Beta(1, 2): 1/3 and 0.236
        (0, 1, 0, 2, False),  # Beta(1, 3)
        (0, 2, 4, 4, True),  # Beta(3, 3)
        (1, 4, 0, 0, True),  # Beta(2, 4): 1/3 and 0.178
        (1, 6, 0, 0, False),  # Beta(2, 6): 1/4 and 0.144
    ],
)
def test_lineage(commits: int, closed: int, kin_commits: int, kin_closed: int, spends: bool) -> None:
    context = AllocatorContext(commits=commits, closed=closed, kin_commits=kin_commits, kin_closed=kin_closed)
    choice = choose(Lineage(), Facts("verify", context, 0.1), 0.5)
    counts = (commits, closed - commits, kin_commits, kin_closed - kin_commits)
    assert (choice.choice, choice.features) == (spends, tuple(map(float, counts)))


def test_greedy_is_the_same_without_exploration() -> None:
    expected = ValueBudgetAllocator(min_weight=0.5, epsilon_start=0.0, epsilon_end=0.0, finish_epsilon=0.0)
    assert greedy(ValueBudgetAllocator(min_weight=0.5)) == expected


def test_controls_survive_the_log() -> None:
    for control in CONTROLS:
        encoded = msgspec.json.encode(control)
        assert msgspec.json.decode(encoded, type=Always | Never | Randomly | Lineage) == control


# --- the older protocol -----------------------------------------------------------------------------------------------


class Recording:
    """Skips every third, and calls every fourth that it does not skip an exploration."""

    def __init__(self) -> None:
        self.decided: list[AllocatorContext] = []
        self.observed: list[tuple[Features, bool]] = []

    def decide(self, context: AllocatorContext) -> AllocateDecision:
        self.decided.append(context)
        n = len(self.decided)
        return AllocateDecision(n % 3 != 0, n % 4 == 0, 0.25, len(self.observed))

    def observe(self, context: AllocatorContext, committed: bool) -> None:
        self.observed.append((context.features(), committed))


class Bare:
    """Nothing but what the protocol asks for."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def decide(self, context: AllocatorContext) -> object:
        return self.answer

    def observe(self, context: AllocatorContext, committed: bool) -> None:
        return None


def test_an_older_allocator_is_asked_told_and_counted() -> None:
    allocator, counts = Recording(), Counts()
    contexts = [AllocatorContext(advantage=float(i), size=i) for i in range(1, 9)]
    choices = []
    for i, context in enumerate(contexts):
        choice, counts = consult(allocator, counts, Facts("verify", context, 0.2))
        choices.append(choice)
        counts = report(allocator, counts, context, choice, ("committed", "regression", "all-stale")[i % 3])
    assert [(choice.choice, choice.reason, choice.propensity) for choice in choices] == [
        (True, "value", 1.0),
        (True, "value", 1.0),
        (False, "skip", 1.0),
        (True, "counterfactual", 1.0),
        (True, "value", 1.0),
        (False, "skip", 1.0),
        (True, "value", 1.0),
        (True, "counterfactual", 1.0),
    ]
    assert allocator.decided == contexts
    told = [(contexts[i].features(), i % 3 == 0) for i in (0, 1, 3, 4, 6, 7)]
    assert allocator.observed == told
    assert counts == Counts(n_observed=6, n_skipped=2, n_counterfactual=2, n_committed=3)


def test_an_older_allocator_is_not_asked_where_it_has_no_say() -> None:
    allocator = Recording()
    refused, counts = consult(allocator, Counts(), Facts("verify", AllocatorContext(), 0.2, False))
    free, counts = consult(allocator, counts, Facts("verify", AllocatorContext(), 0.5))
    assert (refused.reason, free.reason, counts, allocator.decided) == ("clock", "not-tight", Counts(), [])
    assert report(allocator, counts, AllocatorContext(), refused, "regression") == Counts()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "Bare.decide returned None: its `deep_eval` must be a bool"),
        (AllocateDecision(propensity=0.0), "propensity 0.0: it must be in"),
    ],
)
def test_an_older_allocator_that_breaks_the_contract_is_named(answer: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        consult(Bare(answer), Counts(), FACTS)
    with pytest.raises(AssertionError, match=message):
        check_older(lambda: Bare(answer))


def test_older_allocators_keep_the_contract() -> None:
    assert isinstance(Recording(), OlderAllocator)
    check_older(Recording)
    check_older(lambda: Bare(AllocateDecision(False, propensity=0.25)))
    choice, _ = consult(Bare(AllocateDecision(False, propensity=0.25)), Counts(), FACTS)
    assert choice == Choice("verify", VECTOR, 0.75, 0.0, 0.0, False, "skip", 0.25)
