"""What golden logs of the optional spends, populations, audits and budgets are made from, and what they must show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from agentdescent import Audit, Beam, CallBudget, Caps, DiminishingReturns, Rate, Stakes, Unpaired
from agentdescent.allocation.features import STAGES
from agentdescent.engine.command import Propose
from agentdescent.engine.event import Committed, Decided, Event, GateOpened, Judged, RolledOut, Skipped, Stopped
from agentdescent.merge.verdict import OracleEvidence
from agentdescent.record import replace
from tests.engine.spends import choices_of, eager
from tests.world import World, jobs, judged, play


class Spending(NamedTuple):
    """`shows` fails unless a log has what it is recorded for."""

    make: Callable[[], list[Event]]
    shows: Callable[[list[Event]], None]


def outcomes_of(log: list[Event]) -> set[str]:
    return {outcome for _, outcome in judged(log)}


def allocated(seed: int = 130) -> list[Event]:
    """Asked at every stage from the start on; gates are stopped by the bar as well."""
    spec, setup = jobs(20, workers=3)
    spec = replace(spec, caps=Caps(rounds=4), cheap_size=3, tournament=True, futility=0.3, finish_epsilon=0.4)
    spec = replace(spec, allocator=eager(min_observations=2, epsilon_end=0.2), seed=seed)
    return play(spec, setup, World(seed=seed, menu=("good", "meh", "meh", "bad"), solved=0.2))[1]


def shows_allocated(log: list[Event]) -> None:
    chosen = [choice for _, choice in choices_of(log)]
    assert {choice.stage for choice in chosen} == set(STAGES)
    assert {"warm-up", "value", "counterfactual", "skip"} <= {choice.reason for choice in chosen}
    assert {"committed", "futile", "lost-tournament"} <= outcomes_of(log)
    assert any(choice.stage == "finish" and choice.reason == "counterfactual" for choice in chosen)
    assert any(isinstance(event, Skipped) and event.reason == "allocator" for event in log)


def adaptive(seed: int = 370) -> list[Event]:
    """What makes a commit cheap: tasks where most is to be won, several proposals a rollout, wide gates."""
    spec, setup = jobs(20, workers=2, clusters=4)
    spec = replace(spec, caps=Caps(rounds=7), sampling=Stakes(), samples=3, fusion_width="adaptive", screen=True)
    world = World(seed=seed, menu=("good", "good", "meh", "decline"), solved=0.2)
    return play(replace(spec, seed=seed), setup, world)[1]


def shows_adaptive(log: list[Event]) -> None:
    """A rollout led to several proposals; gates were of different widths, one over proposals of several rounds."""
    asked = [event for event in log if isinstance(event, Decided) and isinstance(event.command, Propose)]
    assert max(Counter((event.round, event.worker) for event in asked).values()) > 1
    unions = [event.contributors for event in log if isinstance(event, GateOpened)]
    assert len({len(union) for union in unions}) > 1
    made = {event.subject: event.round for event in asked}
    assert any(len({made[subject] for subject in union}) > 1 for union in unions)
    assert {"not-worth-gating", "committed"} <= outcomes_of(log)


def population(seed: int = 102) -> list[Event]:
    spec, setup = jobs(12, workers=2)
    spec = replace(spec, caps=Caps(rounds=6), selection=Beam(2), population=3, fusion="none")
    return play(replace(spec, seed=seed), setup, World(seed=seed, menu=("good", "good", "clash", "meh"), solved=0.1))[1]


def shows_population(log: list[Event]) -> None:
    """Two versions follow the same one, and there are more than are kept."""
    bases = [event.base for event in log if isinstance(event, Committed)]
    assert len(set(bases)) < len(bases)
    assert len(bases) >= 3


def vetoed(seed: int = 33) -> list[Event]:
    """The oracle sees a third of the outcomes the other way, and pays for four audits at most."""
    spec, setup = jobs(12, workers=2)
    setup = replace(setup, oracle="oracle")
    spec = replace(spec, caps=Caps(rounds=5), acceptance=Unpaired(), cheap_size=3, oracle_budget=14)
    spec = replace(spec, audit=Audit(blast_radius=0.0), fusion="none", seed=seed)
    return play(spec, setup, World(seed=seed, menu=("good", "good", "bad"), solved=0.2, doubt=0.35))[1]


def shows_vetoed(log: list[Event]) -> None:
    """And one that the oracle let pass, and one that its budget did not cover."""
    assert {"oracle-rejected", "committed"} <= outcomes_of(log)
    assert any(isinstance(event, Judged) and isinstance(event.evidence, OracleEvidence) for event in log)
    assert any(
        isinstance(event, Skipped) and (event.purpose, event.reason) == ("audit", "unaffordable") for event in log
    )
    assert any(isinstance(event, GateOpened) and event.audit == 0 for event in log)
    assert {event.prior is not None for event in log if isinstance(event, GateOpened)} == {True}


def diminishing(seed: int = 12) -> list[Event]:
    spec, setup = jobs(12)
    rate = Rate(strict=True, overhead=10, bytes_per_token=4, ceiling=512)
    setup = replace(setup, tariff=replace(setup.tariff, propose=rate))
    spec = replace(spec, caps=Caps(tokens=30_000, rounds=60), call_budget=CallBudget(512, 64), seed=seed)
    spec = replace(spec, diminishing_returns=DiminishingReturns(0.5, 2))
    return play(spec, setup, World(seed=seed, grain=250_000, menu=("good", "meh"), solved=0.2))[1]


def shows_diminishing(log: list[Event]) -> None:
    asked = [event.command for event in log if isinstance(event, Decided) and isinstance(event.command, Propose)]
    assert len({command.ceiling for command in asked}) > 2
    assert isinstance(log[-1], Stopped)
    assert log[-1].reason == "diminishing_returns"
    assert "committed" in outcomes_of(log)
    assert any(isinstance(event, RolledOut) and 0 < event.score < 1_000_000 for event in log)


SPENDING: dict[str, Spending] = {
    "allocated": Spending(allocated, shows_allocated),
    "adaptive": Spending(adaptive, shows_adaptive),
    "population": Spending(population, shows_population),
    "vetoed": Spending(vetoed, shows_vetoed),
    "diminishing": Spending(diminishing, shows_diminishing),
}
