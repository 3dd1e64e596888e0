"""The decisions of a recorded log as another allocator would have met them: what it knew, and how probably it spends.

The log is folded once. Before each event that an allocator may have a say in, the engine is asked anew with one that
only notes what it is asked, so that the facts are those of the run. The target answers them; what it learns comes from
the log: the fold goes on with the target in the allocator's place, and with choices that have the target's vector and
the *logged* propensity. A label that came to be known with probability mu weighs 1 / mu (Horvitz and Thompson
1952), so that the expected step is the one that the target would have taken had it tried everything; how often it
learns is the log's, not its own. Its skips in a row, which its liveness counts, are its own, by the recorded draws.

What a decision came to is counted from the decision to the end of its candidate: tokens used for the candidate, whether
it committed, how far the held-out mean rose. A union's belong to itself and to its first contributor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from agentdescent.allocation.allocator import decide as learned_choice
from agentdescent.allocation.choice import Choice, Facts
from agentdescent.allocation.config import DEFAULT_STARTS, Starts, ValueBudgetAllocator
from agentdescent.allocation.features import Features, Stage
from agentdescent.allocation.own import Own
from agentdescent.allocation.policies import AllocatorPolicy, Always, choose
from agentdescent.engine.command import Rollout
from agentdescent.engine.decision import decide
from agentdescent.engine.draw import seeded
from agentdescent.engine.event import (
    Abandoned,
    Committed,
    Decided,
    Event,
    Failed,
    GateOpened,
    Judged,
    Proposed,
    RolledOut,
    Skipped,
    Started,
)
from agentdescent.engine.spec import RULES, Allocator
from agentdescent.engine.state import State, initial
from agentdescent.engine.transition import apply
from agentdescent.engine.window import take
from agentdescent.errors import CorruptLog
from agentdescent.history.outcomes import choice_of, labels_of
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.verdict import FutilityEvidence
from agentdescent.record import Record, replace

Target: TypeAlias = ValueBudgetAllocator | AllocatorPolicy


class Decision(Record, frozen=True):
    """One question of a log, and the answers of two allocators.

    `run`, `number`: the log and its event, from 0. `spent`: what was recorded. `logged`, `target`: probability of
    spending, in [0, 1]. `tokens`, `commits`, `gain` (of the held-out mean, in [0, 1]): what it came to. `closed`: the
    event that ended the candidate; -1 where it was open as the log ends, with what it had come to by then.
    """

    run: int
    number: int
    subject: int
    stage: Stage
    spent: bool
    logged: float
    target: float
    features: Features = ()
    tokens: int = 0
    commits: int = 0
    gain: float = 0.0
    closed: int = -1


class Met(Record, frozen=True):
    """The decisions of a log, oldest first; how many spends were `refused` by the clock, which no allocator is asked
    about; `finished`: the log ends with Stopped."""

    decisions: tuple[Decision, ...]
    refused: int
    finished: bool


class _Notes:
    """An allocator that notes what it is asked and spends."""

    def __init__(self) -> None:
        self.asked: dict[tuple[Stage, int], Facts] = {}

    def choice(self, facts: Facts, subject: int) -> Choice:
        self.asked.setdefault((facts.stage, subject), facts)
        return Choice(facts.stage, (), 1.0, 0.0, 0.0, facts.allowed, "value", 1.0)


def decisions_of(events: Iterable[Event], target: Target, run: int = 0) -> Met:
    """Raises CorruptLog when the log does not begin with Started, or was decided by other rules."""
    fold: _Fold | None = None
    for number, event in enumerate(events):
        if fold is None:
            if not isinstance(event, Started):
                raise CorruptLog("the log does not begin with Started", 1)
            if event.spec.rules != RULES:
                known = f"this version knows rules {RULES}"
                raise CorruptLog(f"the log was decided by rules {event.spec.rules}; {known}", 1)
            fold = _Fold(event, target, run)
        fold.see(number, event)
    if fold is None:
        raise CorruptLog("the log is empty")
    return Met(tuple(fold.ended(one) for one in fold.made), fold.refused, fold.state.stopped is not None)


class _Fold:
    """One log on its way through the engine, the target in the allocator's place."""

    def __init__(self, first: Started, target: Target, run: int) -> None:
        recorded = first.spec.allocator
        self.target, self.run = target, run
        self.logged = () if recorded is None else recorded.stages
        self.by_model = isinstance(recorded, ValueBudgetAllocator)
        self.own: tuple[Stage, ...] = getattr(target, "stages", ("verify",))
        self.starts: float | Starts = getattr(target, "budget_start", DEFAULT_STARTS)
        self.draw = seeded(first.spec.seed)
        self.state = initial(replace(first.spec, allocator=_stand_in(target, self.logged)), first.setup)
        self.futility = first.spec.futility
        self.made: list[Decision] = []
        self.refused = 0
        self.used: dict[int, int] = {}
        self.won: dict[int, tuple[int, float]] = {}
        self.closing: dict[int, int] = {}

    def see(self, number: int, event: Event) -> None:
        before = self.state
        hybrid = self._met(number, event)
        self.state = apply(before, event if hybrid is None else _with_choice(event, hybrid))
        if isinstance(event, RolledOut | Proposed | Failed | Abandoned):
            tokens = self.state.governor.spent.tokens - before.governor.spent.tokens
            self._charge(before, take(before.window, event.id)[0].subject, tokens)
        elif isinstance(event, Committed):
            base = before.head.scores
            rise = (event.total - base.total) / (MILLION * base.size)
            for subject in {event.subject, _first(before, event.subject)}:
                commits, gain = self.won.get(subject, (0, 0.0))
                self.won[subject] = commits + 1, gain + rise
        elif isinstance(event, Judged):
            for subject, _ in labels_of(event):
                self.closing[subject] = number

    def _charge(self, before: State, subject: int, tokens: int) -> None:
        for one in {subject, _first(before, subject)}:
            self.used[one] = self.used.get(one, 0) + tokens

    def ended(self, made: Decision) -> Decision:
        """With what it came to by now; `made.tokens` is what had been used for the candidate before it."""
        commits, gain = self.won.get(made.subject, (0, 0.0))
        tokens = self.used.get(made.subject, 0) - made.tokens
        return replace(made, tokens=tokens, commits=commits, gain=gain, closed=self.closing.get(made.subject, -1))

    def _met(self, number: int, event: Event) -> Choice | None:
        """Note the decision that the event records, if it does, and give the choice to fold in its place."""
        stage, spends = _stage_of(self.state, event)
        recorded = choice_of(event)
        if stage is None or (recorded is None and not spends):
            return None
        if recorded is not None and stage == "finish" and self._by_prediction(recorded):
            return None
        facts = self._facts(stage, event)
        if facts is None:
            return None
        if recorded is not None and stage == "finish" and self.by_model:
            facts = replace(facts, context=replace(facts.context, acceptance=recorded.features[-2]))
        ours = self._answer(facts, 0.0 if recorded is None else recorded.draw)
        propensity = 1.0 if recorded is None else recorded.propensity
        if not facts.allowed:
            self.refused += 1
        else:
            logged = propensity if spends else 1.0 - propensity
            spending = ours.propensity if ours.choice else 1.0 - ours.propensity
            subject = _subject_of(event)
            used = self.used.get(subject, 0)
            self.made.append(
                Decision(self.run, number, subject, stage, spends, logged, spending, ours.features, tokens=used)
            )
        return replace(ours, propensity=propensity)

    def _by_prediction(self, recorded: Choice) -> bool:
        """Whether the run's own futility rule chose, which no allocator is asked about."""
        return self.futility > 0.0 and ("finish" not in self.logged or recorded.features[-2] < self.futility)

    def _facts(self, stage: Stage, event: Event) -> Facts | None:
        """What an allocator that decides this stage is asked at this event; None where it is not."""
        notes = _Notes()
        stages = (stage, *(other for other in self.logged if other != stage))
        spec = replace(self.state.spec, allocator=Own("notes", "older", stages, DEFAULT_STARTS))
        if stage == "finish":
            spec = replace(spec, futility=0.0)
        decide(replace(self.state, spec=spec), self.draw, notes)
        return notes.asked.get((stage, _subject_of(event)))

    def _answer(self, facts: Facts, draw: float) -> Choice:
        if facts.stage not in self.own:
            return choose(Always(), facts, draw, 0.0)
        if isinstance(self.target, ValueBudgetAllocator):
            return learned_choice(self.target, self.state.learned, facts, draw)
        return choose(self.target, facts, draw, self.starts)


def _stand_in(target: Target, stages: tuple[Stage, ...]) -> Allocator:
    """What the fold learns for, at the stages of the run: those decide what its gates are checked for. A policy learns
    nothing."""
    if isinstance(target, ValueBudgetAllocator):
        return replace(target, stages=stages)
    return Own("target", "policy", stages)


def _stage_of(state: State, event: Event) -> tuple[Stage | None, bool]:
    """The stage at which an allocator may have been asked about this event, and whether it is a spend."""
    match event:
        case GateOpened():
            return "gate", True
        case Skipped(purpose="verify" | "tournament" | "gate" as purpose):
            return purpose, False
        case Decided(command=Rollout(purpose="verify")):
            return "verify", True
        case Decided(command=Rollout(purpose="tournament")) if event.attempt == 0:
            return "tournament", True
        case Decided(command=Rollout(purpose="gate")):
            gates = () if state.sweep is None else state.sweep.gates
            checking = any(gate.subject == event.subject and gate.checking for gate in gates)
            return ("finish" if checking else None), True
        case Judged(evidence=FutilityEvidence()):
            return "finish", False
        case _:
            return None, False


def _subject_of(event: Event) -> int:
    return event.subject if isinstance(event, Decided | Skipped | GateOpened | Judged) else -1


def _with_choice(event: Event, choice: Choice) -> Event:
    match event:
        case Decided() | Skipped() | GateOpened():
            return replace(event, choice=choice)
        case Judged(evidence=FutilityEvidence() as evidence):
            return replace(event, evidence=replace(evidence, choice=choice))
        case _:
            return event


def _first(state: State, subject: int) -> int:
    """The first contributor of what is before the gate or in a tournament under this number; else the number itself."""
    sweep = state.sweep
    if sweep is None:
        return subject
    for gate in sweep.gates:
        if gate.subject == subject:
            return gate.cards[0].subject
    if sweep.candidate is not None and sweep.candidate.subject == subject and sweep.kept:
        return sweep.kept[0].subject
    return subject
