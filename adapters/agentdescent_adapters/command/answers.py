"""What the page of a run says of other choices: what its log answers, each answer with how sure it is."""

from __future__ import annotations

from agentdescent.allocation.policies import Always, Never
from agentdescent.engine.event import Event
from agentdescent.engine.spec import GateOrder
from agentdescent.engine.state import State
from agentdescent.errors import CorruptLog, UsageError
from agentdescent.history.report import Report
from agentdescent.history.whatif import ONE_STEP, WhatIf, what_if
from agentdescent.history.whatif_cap import under_cap
from agentdescent.history.whatif_gates import GatesAgain, GatesFolding
from agentdescent_adapters.command.whatif import WORDS, cap_answers, gate_answer, gate_scope, gates_of, number_of
from agentdescent_adapters.disk import read_events
from agentdescent_adapters.page.build import Answers

CAP_EVENTS = 30_000
"""Longest log that is decided anew while a page is written: it costs as much again as the page."""
ALLOCATOR_EVENTS = 10_000
"""The same of other allocators, which cost some three times that each."""
METHOD = "dr"
"""Doubly robust: the estimate with the narrowest intervals of those that `agentdescent whatif` gives."""

Row = tuple[str, str, str]


class GateQuestions:
    """The gates without curtailment and in index order (of a run made so: with it, and informative first), asked in
    the fold that makes the report."""

    def __init__(self) -> None:
        self._names: tuple[str, str] = ("", "")
        self._folding = GatesFolding()
        self._refused = ""

    def fold(self, event: Event, before: State, after: State) -> None:
        if before.seq == 0:
            self._begin(before)
        if not self._refused:
            try:
                self._folding.fold(event, before, after)
            except UsageError as error:
                self._refused = str(error)

    def _begin(self, state: State) -> None:
        spec = state.spec
        order: GateOrder = "index" if spec.gate_order != "index" else "informative"
        self._names = "without curtailment" if spec.curtail else "with curtailment", f"in {order} order"
        self._folding = GatesFolding((None, not spec.curtail), (order, None))

    def rows(self) -> list[Row]:
        if self._refused:
            return [(name, self._refused, WORDS["no-support"]) for name in self._names]
        results = self._folding.results()
        return [row for name, again in zip(self._names, results, strict=True) for row in _gates(name, again)]


def _gates(name: str, again: GatesAgain) -> list[Row]:
    found = gates_of("", again)
    if not found.gates:
        return [(name, "no gate came to a verdict", WORDS["no-support"])]
    tokens, sure = gate_answer(found)
    rest = f"; {found.left_out} gates without a verdict are left out" if found.left_out else ""
    return [(name, f"{tokens}, {found.gates} gates; every verdict is the same; {gate_scope(found)}{rest}", sure)]


def answers(run: str, found: Report, gates: GateQuestions) -> Answers:
    """`found`: the report of the run; `gates`: folded with it."""
    tables = [("Tokens of the gates", gates.rows()), ("Under half of the tokens", _under_half(run, found))]
    if found.state.spec.allocator is not None:
        title = f"Another allocator, the change by {METHOD.upper()}, with intervals of 95 %. {ONE_STEP}"
        tables.append((title, [*_allocator(run, found, "always spend"), *_allocator(run, found, "never spend")]))
    return tables


def _under_half(run: str, found: Report) -> list[Row]:
    cap = found.spend.total.tokens // 2
    question = f"max_tokens {cap:,}"
    if cap < 1:
        return [(question, "nothing was spent", WORDS["no-support"])]
    if found.events > CAP_EVENTS:
        return [_left_out(question, found, f"--cap {cap}")]
    try:
        told = cap_answers(under_cap(read_events(run), cap))
    except (UsageError, CorruptLog) as error:
        told = ((str(error), WORDS["no-support"]),)
    return [(question, answer, sure) for answer, sure in told]


def _allocator(run: str, found: Report, question: str) -> list[Row]:
    if found.events > ALLOCATOR_EVENTS:
        return [_left_out(question, found, f"--allocator {question.split()[0]}")]
    allocator = found.state.spec.allocator
    stages = () if allocator is None else allocator.stages
    try:
        told = what_if([read_events(run)], Always(stages) if question.startswith("always") else Never(stages))
    except (UsageError, CorruptLog) as error:
        return [(question, str(error), WORDS["no-support"])]
    return _changes(question, told)


def _changes(question: str, told: WhatIf) -> list[Row]:
    if not told.stages:
        return [(question, "this run has no decision that an allocator could take", WORDS["no-support"])]
    made = sum(stage.support.n for stage in told.stages)
    changes = [one for one in told.total if one.method == METHOD]
    if all(one.kind == "no-support" for one in changes):
        return [(question, changes[0].reason, WORDS["no-support"])]
    return [(f"{question}: {one.quantity}", number_of(one), f"{WORDS[one.kind]}, n {made}") for one in changes]


def _left_out(question: str, found: Report, flags: str) -> Row:
    answer = f"left out: {found.events:,} events take long. `agentdescent whatif RUN {flags}` answers it"
    return question, answer, "not asked"
