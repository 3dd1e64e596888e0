"""Jobs with every optional spend, and what a log says about the choices made in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from agentdescent import State, apply, initial
from agentdescent.allocation.allocator import Learned, observe
from agentdescent.allocation.choice import Choice
from agentdescent.allocation.config import Starts, Thresholds, ValueBudgetAllocator
from agentdescent.allocation.features import STAGES
from agentdescent.allocation.outcomes import Outcome
from agentdescent.allocation.policies import Lineage, Randomly
from agentdescent.engine import allotting
from agentdescent.engine.event import Decided, Event, GateOpened, Judged, Skipped, Started
from agentdescent.engine.spec import Allocator
from agentdescent.history.outcomes import outcomes
from agentdescent.merge.verdict import FutilityEvidence, SubsetEvidence
from agentdescent.record import replace
from tests.strategies import Job, any_job


def eager(**changes: Any) -> ValueBudgetAllocator:
    """It is asked at every stage, from the first token on, and soon has an opinion."""
    config = ValueBudgetAllocator(
        stages=STAGES, budget_start=2.0, min_observations=1, min_commits=1, epsilon_start=0.2, max_consecutive_skips=3
    )
    return replace(config, **changes)


ALLOCATORS: tuple[Allocator, ...] = (
    eager(),
    eager(threshold="half", epsilon_start=0.5, epsilon_end=0.5),
    eager(min_propensity=0.2),
    eager(stages=("gate",), threshold="price"),
    eager(stages=("finish", "tournament")),
    eager(budget_start=Starts(), threshold=Thresholds()),
    Randomly(0.5, stages=STAGES),
    Lineage(stages=("verify", "gate")),
    Lineage(stages=("verify", "finish")),
)


@st.composite
def spending_job(draw: st.DrawFn, *, failing: bool = True) -> Job:
    """Any job, with any of the optional spends."""
    spec, setup, world = draw(any_job(failing=failing))
    spec = replace(
        spec,
        tournament=draw(st.sampled_from([True, True, False])),
        soft_floor=draw(st.sampled_from([0.3, 0.75, 1.0])),
        futility=draw(st.sampled_from([0.0, 0.3, 0.9])),
        finish_epsilon=draw(st.sampled_from([0.0, 0.1, 0.5])),
        allocator=draw(st.sampled_from([None, *ALLOCATORS])),
        fusion="union",
    )
    return Job(spec, setup, world)


def choices_of(log: Iterable[Event]) -> list[tuple[int, Choice]]:
    """(subject, choice) of everything that was chosen, in order."""
    found = []
    for event in log:
        choice: Choice | None = None
        if isinstance(event, Decided | Skipped | GateOpened):
            choice = event.choice
        elif isinstance(event, Judged) and isinstance(event.evidence, FutilityEvidence):
            choice = event.evidence.choice
        if choice is not None:
            subject = event.subject if isinstance(event, Decided | Skipped | GateOpened | Judged) else -1
            found.append((subject, choice))
    return found


def terminal(log: list[Event]) -> list[tuple[Choice, Outcome]]:
    """Every choice with the outcome that its subject came to; of a tournament, that of what it put forward."""
    labels = outcomes(log)
    heirs = {
        event.subject: event.evidence.against
        for event in log
        if isinstance(event, Judged) and isinstance(event.evidence, SubsetEvidence)
    }
    found = []
    for subject, choice in choices_of(log):
        if choice.stage == "tournament" and labels[subject] == "lost-tournament":
            subject = heirs[subject]
        found.append((choice, labels[subject]))
    return found


def states(log: list[Event]) -> list[State]:
    """After every event."""
    first = log[0]
    assert isinstance(first, Started)
    state, after = initial(first.spec, first.setup), []
    for event in log:
        state = apply(state, event)
        after.append(state)
    return after


@contextmanager
def spied(seen: list[tuple[Choice, Outcome]]) -> Iterator[None]:
    """Within it, what is observed is also put down here, in order."""

    def spy(
        config: ValueBudgetAllocator,
        learned: Learned,
        choice: Choice,
        outcome: Outcome,
        gain: float = 0.0,
        cost: float = 0.0,
        *,
        screen: bool = False,
        learns: bool = True,
    ) -> Learned:
        seen.append((choice, outcome))
        return observe(config, learned, choice, outcome, gain, cost, screen=screen, learns=learns)

    with mock.patch.object(allotting, "observe", spy):
        yield
