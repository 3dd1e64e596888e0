"""What a run came to: folded while it goes on, put together at its end."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import msgspec

from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import render
from agentdescent.budget.usage import Amount
from agentdescent.engine.event import Event, RolledOut, StopReason
from agentdescent.engine.population import dev_head
from agentdescent.engine.state import State
from agentdescent.history.allocations import AllocatorSummary
from agentdescent.history.gates import Savings
from agentdescent.history.outcomes import outcomes
from agentdescent.history.projections import Projections
from agentdescent.history.recall import Recall
from agentdescent.history.rounds import RoundInfo
from agentdescent.history.spend import by_subject
from agentdescent.history.summary import BudgetSummary, Spend, spend, summarise
from agentdescent.history.tested import mean_of, tested
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.verdict import Outcome
from agentdescent.ports import Log
from agentdescent.search.candidate import Candidate


class EvolutionResult(msgspec.Struct, frozen=True):
    """What a run came to. Rewards are means in [0, 1]; None where the run ended before they were known.

    `base`, `final`: the start and the head on the held-out tasks, which decided what was kept, so `final` is
    optimistic. `test_base`, `test_final`: on tasks that no decision read, with a 95 % Wilson interval of the latter.
    `stable`: version of the last promoted head. `saved`: what curtailed gates did not have to ask. `expected_junk`:
    how many of the commits are no improvement, expected by the evidence they were kept on (the sum of 1 - P). `budget`:
    None where no money, calls or rollouts were capped; `allocator`: None where there was none. `recall`:
    gates stopped by prediction; `history.recall.loss` and `interval` say what that has lost. `population`: what a turn
    could start from at the end, with scores, visits and parents; empty with SingleHead.
    """

    rendered: str
    entries: Entries
    version: int
    stable: int
    base: float | None
    final: float | None
    test_base: float | None
    test_final: float | None
    test_interval: tuple[float, float] | None
    history: tuple[RoundInfo, ...]
    rounds: int
    stop_reason: StopReason
    error: str
    spend: Spend
    budget: BudgetSummary | None
    allocator: AllocatorSummary | None
    saved: Savings
    expected_junk: float
    population: tuple[Candidate, ...]
    warnings: tuple[str, ...]
    digest: str
    log: Log
    state: State
    recall: Recall = Recall()

    @property
    def log_path(self) -> str | None:
        return self.log.path

    @property
    def commits(self) -> int:
        """On every head of a population together."""
        return self.state.population.newest or self.version

    def _repr_html_(self) -> str:
        """What a notebook shows: the numbers in a table, and the artifact."""
        return as_html(self._told(), self.rendered)

    def _told(self) -> list[tuple[str, str]]:
        spent = f"{self.spend.total.tokens:,}"
        if self.budget is not None and self.budget.cap is not None:
            spent += f" of {self.budget.cap:,} ({self.budget.ceiling} ceiling)"
        told = [("held-out", f"{_percent(self.base)} → {_percent(self.final)}")]
        if self.test_base is not None or self.test_final is not None:
            between = (
                "" if self.test_interval is None else " (95 % interval {:.1%} to {:.1%})".format(*self.test_interval)
            )
            told.append(("test", f"{_percent(self.test_base)} → {_percent(self.test_final)}{between}"))
        told += [("tokens", spent), ("commits", str(self.commits)), ("stopped", self.stop_reason)]
        return [*told, ("error", self.error)] if self.error else told

    def outcomes(self) -> dict[int, Outcome]:
        """How every proposal and candidate ended, by number. Reads the log."""
        return outcomes(self.log.events())

    def spend_by_candidate(self) -> dict[int, Amount]:
        """What was spent for every proposal and candidate, by number; -1: for none of them. Reads the log."""
        return by_subject(self.log.events())


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def as_html(facts: list[tuple[str, str]], text: str) -> str:
    """A table of facts and a text, none of which is markup."""
    rows = "".join(f"<tr><th style='text-align:left'>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts)
    return f"<table>{rows}</table><pre>{escape(text)}</pre>"


class Watcher(Projections):
    """Folds what the result shows, and tells of every round."""

    def __init__(self, on_round: Callable[[RoundInfo], object] | None) -> None:
        super().__init__()
        self.on_round = on_round

    def __call__(self, event: Event, state: State) -> None:
        if isinstance(event, RolledOut):  # half of all events, of which no projection wants to know
            return
        done = self.fold(event, state)
        if done is not None and self.on_round is not None:
            self.on_round(done)


def result_of(state: State, log: Log, watcher: Watcher, warnings: tuple[str, ...]) -> EvolutionResult:
    scored = state.started and state.base is None
    head = dev_head(state)
    version = head.version
    test = tested(state)
    return EvolutionResult(
        rendered=render(state.spec.strategy, version.entries),
        entries=version.entries,
        version=version.number,
        stable=state.stable.number,
        base=state.base_total / (MILLION * head.scores.size) if scored else None,
        final=mean_of(head.scores) if scored else None,
        test_base=test.base,
        test_final=test.final,
        test_interval=test.interval,
        history=tuple(watcher.history),
        rounds=state.round,
        stop_reason=state.stopped.reason if state.stopped is not None else "error",
        error=state.stopped.error if state.stopped is not None else "the run was not finished",
        spend=spend(state),
        budget=summarise(state, watcher.degraded),
        allocator=watcher.allocations.summary(),
        saved=watcher.saved,
        expected_junk=watcher.junk,
        population=tuple(member.candidate for member in state.population.members),
        warnings=warnings,
        digest=log.digest,
        log=log,
        state=state,
        recall=watcher.recall,
    )
