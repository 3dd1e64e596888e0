"""Everything that a page about a run shows, as one record: a projection of the log, in a single fold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from agentdescent import vector
from agentdescent.allocation.choice import Choice
from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import render
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import (
    Amended,
    Committed,
    Decided,
    Event,
    Failed,
    GateOpened,
    Judged,
    RolledOut,
    StopReason,
)
from agentdescent.engine.population import dev_head
from agentdescent.engine.state import State
from agentdescent.errors import CorruptLog
from agentdescent.history.allocations import AllocatorSummary
from agentdescent.history.fold import folded
from agentdescent.history.gate_rows import GateRow, row
from agentdescent.history.gates import Savings
from agentdescent.history.lineage import Commit, Lineage
from agentdescent.history.outcomes import choice_of, labels_of
from agentdescent.history.projections import Projections
from agentdescent.history.recall import Recall
from agentdescent.history.rounds import RoundInfo, mean
from agentdescent.history.spend import BySubject
from agentdescent.history.summary import BudgetSummary, Spend, spend, summarise
from agentdescent.history.tested import Tested, tested
from agentdescent.merge.scores import Scores
from agentdescent.merge.verdict import Outcome
from agentdescent.record import Record


class Point(Record, frozen=True):
    """From `tokens` spent on, the head's held-out mean is `reward`, in [0, 1]."""

    tokens: int
    reward: float
    version: int


class Chosen(Record, frozen=True):
    """A decision of the allocator, and what came of it: `outcome` None while that is open."""

    subject: int
    tokens: int
    choice: Choice
    outcome: Outcome | None


class Subject(Record, frozen=True):
    """A proposal or candidate: what it cost, in tokens, and how it ended."""

    subject: int
    tokens: int
    outcome: Outcome | None


class Report(Record, frozen=True):
    """A run as a reader wants to see it; rewards in [0, 1], `None` where the run did not come to that.

    `curve`: the head's reward against tokens, a step at each point. `heldout`: ids of the held-out tasks, `base_scores`
    and `final_scores` of the start and the head on them. `failures`: failed calls by kind. `stable`: version.
    """

    state: State
    events: int
    curve: tuple[Point, ...]
    rounds: tuple[RoundInfo, ...]
    commits: tuple[Commit, ...]
    gates: tuple[GateRow, ...]
    choices: tuple[Chosen, ...]
    subjects: tuple[Subject, ...]
    unassigned: int
    heldout: tuple[str, ...]
    base_scores: tuple[float, ...]
    final_scores: tuple[float, ...]
    start: Entries
    final: Entries
    start_text: str
    final_text: str
    failures: tuple[tuple[str, int], ...]
    spend: Spend
    budget: BudgetSummary | None
    allocator: AllocatorSummary | None
    saved: Savings
    recall: Recall
    tested: Tested
    expected_junk: float
    amended: int
    stop_reason: StopReason | None
    error: str


def report(events: Iterable[Event]) -> Report:
    """Of a whole log, finished or not. Raises CorruptLog when it is empty or does not begin with Started."""
    folding = Folding()
    for event, before, after in folded(events):
        folding.fold(event, before, after)
    return folding.report()


class Folding:
    """The report while it is being folded; what it holds grows with proposals and gates, not with calls."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._events = 0
        self._curve: list[Point] = []
        self._projections = Projections()
        self._lineage = Lineage()
        self._spent = BySubject()
        self._chosen: list[tuple[int, int, Choice]] = []
        self._outcomes: dict[int, Outcome] = {}
        self._opened: dict[int, tuple[GateOpened, int]] = {}
        self._gates: list[GateRow] = []
        self._failures: Counter[str] = Counter()
        self._base: tuple[float, ...] = ()
        self._amended = 0

    def fold(self, event: Event, before: State, after: State) -> None:
        """`before`, `after`: the states around the event."""
        self._state, self._events = after, self._events + 1
        self._spent.fold(event, before, after)
        if before.base is not None and after.base is None:
            self._base = _shares(after.head.scores)
            self._step(after)
        if isinstance(event, RolledOut) or self._routine(event, before):
            return
        self._lineage.fold(event, before, after)
        self._projections.fold(event, after)
        self._chose(event, after)
        match event:
            case GateOpened():
                self._opened[event.subject] = event, after.governor.spent.tokens
            case Judged():
                self._judged(event, before, after)
            case Committed():
                self._step(after)
            case Failed():
                self._failures[event.kind] += 1
            case Amended():
                self._amended += 1
            case _:
                pass

    def _routine(self, event: Event, before: State) -> bool:
        """Whether it is a call that nobody wants to know of: with the answers to them nearly all of a log."""
        return (
            isinstance(event, Decided)
            and isinstance(event.command, Rollout)
            and event.choice is None
            and event.round == before.round
        )

    def _step(self, after: State) -> None:
        version = dev_head(after).version.number
        if not self._curve or self._curve[-1].version != version:
            self._curve.append(Point(after.governor.spent.tokens, mean(after), version))

    def _chose(self, event: Event, after: State) -> None:
        choice = choice_of(event)
        subject = getattr(event, "subject", None)
        if choice is not None and isinstance(subject, int):
            self._chosen.append((subject, after.governor.spent.tokens, choice))

    def _judged(self, event: Judged, before: State, after: State) -> None:
        self._outcomes.update(labels_of(event))
        opened = self._opened.pop(event.subject, None)
        if opened is not None:
            self._gates.append(row(*opened, before, after.governor.spent.tokens, event))

    def report(self) -> Report:
        """As far as it was folded. Raises CorruptLog when that is nothing."""
        state = self._state
        if state is None:
            raise CorruptLog("the log is empty")
        head, tasks = dev_head(state), state.setup.tasks
        scored = state.started and state.base is None
        spent, told = self._spent.spent, self._projections
        still_open = tuple(
            row(event, began, state, state.governor.spent.tokens, None) for event, began in self._opened.values()
        )
        return Report(
            state=state,
            events=self._events,
            curve=tuple(self._curve),
            rounds=tuple(told.history),
            commits=tuple(self._lineage.commits),
            gates=(*self._gates, *still_open),
            choices=tuple(Chosen(*made, self._outcomes.get(made[0])) for made in self._chosen),
            subjects=tuple(
                Subject(subject, spent[subject].tokens, self._outcomes.get(subject))
                for subject in sorted(spent)
                if subject >= 0
            ),
            unassigned=sum(amount.tokens for subject, amount in spent.items() if subject < 0),
            heldout=tuple(tasks[index].id for index in state.split.heldout),
            base_scores=self._base,
            final_scores=_shares(head.scores) if scored else (),
            start=state.setup.artifact,
            final=head.version.entries,
            start_text=render(state.spec.strategy, state.setup.artifact),
            final_text=render(state.spec.strategy, head.version.entries),
            failures=tuple(sorted(self._failures.items())),
            spend=spend(state),
            budget=summarise(state, told.degraded),
            allocator=told.allocations.summary(),
            saved=told.saved,
            recall=told.recall,
            tested=tested(state),
            expected_junk=told.junk,
            amended=self._amended,
            stop_reason=None if state.stopped is None else state.stopped.reason,
            error="" if state.stopped is None else state.stopped.error,
        )


def _shares(scores: Scores) -> tuple[float, ...]:
    return tuple(value / 1_000_000 for value in vector.items(scores.values))
