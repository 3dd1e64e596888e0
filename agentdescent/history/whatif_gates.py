"""The gates of a recorded run in another order, or with or without curtailment.

Of a gate all of whose tasks were answered, what it would have asked, cost and decided otherwise is exact: the gate
itself runs again on the recorded scores. Of a gate that was stopped early only the answered tasks are known, and the
cost has bounds: what was certainly asked for, and that with the worst case of every task that may have been. The
verdict is the same in any order, because curtailment loses nothing.

A gate that may be stopped by prediction (`futility`, stage `finish`) is checked at points that depend on the order:
such a run is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentdescent.budget.governor import reservation
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import (
    Abandoned,
    Committed,
    Decided,
    Event,
    Failed,
    GateOpened,
    Judged,
    RolledOut,
    Skipped,
    Started,
)
from agentdescent.engine.finishing import checks
from agentdescent.engine.spec import GateOrder, Spec
from agentdescent.engine.state import State
from agentdescent.engine.window import take
from agentdescent.errors import CorruptLog, UsageError
from agentdescent.history.fold import folded
from agentdescent.merge.gate import Gate, fresh_probe, informative, open_gate, prefix_sums, score
from agentdescent.merge.probe import ask
from agentdescent.merge.scores import UNKNOWN, score_at
from agentdescent.merge.verdict import GateEvidence
from agentdescent.record import Record, replace
from agentdescent.search.selection import SingleHead

_SPENT_OUT = ("max_tokens", "max_cost", "max_calls", "max_rollouts")


class GateAgain(Record, frozen=True):
    """One gate: the event that opened it, whether it accepted, calls and tokens as recorded, and as they would have
    been, within bounds that are equal where they are exact."""

    number: int
    subject: int
    accepted: bool
    calls: int
    tokens: int
    calls_low: int
    calls_high: int
    tokens_low: int
    tokens_high: int

    @property
    def exact(self) -> bool:
        return (self.calls_low, self.tokens_low) == (self.calls_high, self.tokens_high)


class GatesAgain(Record, frozen=True):
    """`gates` that came to a verdict; `left_out`: those that did not, or had a call fail. `tokens`: of the whole run.
    `lasting`: nothing else in the run depends on what its gates cost, so that the whole run is told, and not only these
    gates one by one. `bounded`: the ports declared their worst case; else the upper bounds are twice what was seen."""

    gates: tuple[GateAgain, ...]
    left_out: int
    tokens: int
    lasting: bool
    bounded: bool

    @property
    def exact(self) -> int:
        return sum(gate.exact for gate in self.gates)


def gates_again(events: Iterable[Event], *, order: GateOrder | None = None, curtail: bool | None = None) -> GatesAgain:
    """None: as recorded. Raises CorruptLog when the log does not begin with Started, UsageError where gates of the run
    may be stopped by prediction."""
    folding = GatesFolding(order, curtail)
    for event, before, after in folded(events):
        folding.fold(event, before, after)
    return folding.result()


class _Seen:
    """A gate while its answers come: its state as it opened, and tokens and score by position."""

    def __init__(self, number: int, gate: Gate, worst: tuple[int, ...]) -> None:
        self.number, self.gate, self.worst = number, gate, worst
        self.answers: dict[int, tuple[int, int]] = {}
        self.failed = False


class GatesFolding:
    """`gates_again` while a log is folded: `fold` raises UsageError as it does."""

    def __init__(self, order: GateOrder | None = None, curtail: bool | None = None) -> None:
        self._order, self._curtail = order, curtail
        self._state: State | None = None
        self._open: dict[int, _Seen] = {}
        self._done: list[GateAgain] = []
        self._left_out = 0
        self._lasting = True

    def fold(self, event: Event, before: State, after: State) -> None:
        """`before`, `after`: the states around the event."""
        self._state = after
        match event:
            case Started():
                self._started(event, before)
            case GateOpened():
                self._opened(event, after)
            case RolledOut() | Failed() | Abandoned():
                self._answered(event, before, after)
            case Judged():
                self._judged(event, before.spec)
            case Committed():
                self._left_out += len(self._open)  # their head is no more: they begin anew
                self._open.clear()
            case Skipped(reason="clock" | "unaffordable"):
                self._lasting = False
            case _:
                pass

    def _started(self, event: Started, before: State) -> None:
        if checks(before):
            raise UsageError(
                "gates of this run may be stopped by prediction, at points that depend on the order: record a run with "
                "futility=0 and without stage finish to ask this"
            )
        self._lasting = _indifferent(event.spec)

    def _judged(self, event: Judged, spec: Spec) -> None:
        seen = self._open.pop(event.subject, None)
        if seen is not None and isinstance(event.evidence, GateEvidence) and not seen.failed:
            order = self._order or spec.gate_order
            curtail = spec.curtail if self._curtail is None else self._curtail
            self._done.append(_again(seen, order, curtail, event.outcome == "committed"))
        elif seen is not None:
            self._left_out += 1

    def _opened(self, event: GateOpened, state: State) -> None:
        sweep = state.sweep
        gate = next(gate for gate in sweep.gates if gate.subject == event.subject) if sweep is not None else None
        if gate is not None:
            sizes = (state.setup.tasks[task].size for task in state.split.heldout)
            worst = tuple(reservation(state.governor, "solve", gate.size + size).tokens for size in sizes)
            self._open[event.subject] = _Seen(state.seq - 1, gate, worst)

    def _answered(self, event: RolledOut | Failed | Abandoned, before: State, after: State) -> None:
        if not self._open:
            return
        decided: Decided = take(before.window, event.id)[0]
        seen = self._open.get(decided.subject)
        if seen is None or not isinstance(decided.command, Rollout) or decided.command.purpose != "gate":
            return
        if not isinstance(event, RolledOut):
            seen.failed = True
            return
        used = after.governor.spent.tokens - before.governor.spent.tokens
        seen.answers[before.position[decided.command.task]] = event.score, used

    def result(self) -> GatesAgain:
        """As far as it was folded. Raises CorruptLog when that is nothing."""
        state = self._state
        if state is None:
            raise CorruptLog("the log is empty")
        spent_out = state.stopped is None or state.stopped.reason in _SPENT_OUT
        return GatesAgain(
            tuple(self._done),
            self._left_out + len(self._open),
            state.governor.spent.tokens,
            self._lasting and not spent_out and not self._left_out and not self._open,
            state.setup.tariff.solve.strict,
        )


def _indifferent(spec: Spec) -> bool:
    """Whether nothing but a cap looks at what was spent."""
    plain = spec.allocator is None and spec.call_budget is None and spec.diminishing_returns is None
    settled = spec.projection == "verdict" and spec.fusion_width != "adaptive"
    return plain and settled and isinstance(spec.selection, SingleHead) and spec.schedule == "rounds"


def _again(seen: _Seen, order: GateOrder, curtail: bool, accepted: bool) -> GateAgain:
    gate, answers = seen.gate, seen.answers
    recorded = sum(tokens for _, tokens in answers.values())
    positions = informative(gate.base) if order == "informative" else tuple(range(gate.base.size))
    afresh = replace(
        gate,
        probe=fresh_probe(positions, gate.base.size),
        prefix=prefix_sums(gate.base, positions),
        curtail=curtail,
        status="open",
        gain=0,
        loss=0,
        safe=None,
        lost=None,
        check_at=-1,
    )
    known = gate.probe.scores if gate.probe.scores.count else None
    asked, certain = _run(open_gate(afresh, known), answers)
    low = sum(answers[position][1] for position in asked if position in answers)
    calls_low, calls_high, high = len(asked), len(asked), low
    if not certain:
        unanswered = [
            p for p in range(gate.base.size) if score_at(gate.probe.scores, p) == UNKNOWN and p not in answers
        ]
        calls_high = len(answers) + len(unanswered)
        high = recorded + sum(seen.worst[position] for position in unanswered)
    return GateAgain(seen.number, gate.subject, accepted, len(answers), recorded, calls_low, calls_high, low, high)


def _run(gate: Gate, answers: dict[int, tuple[int, int]]) -> tuple[tuple[int, ...], bool]:
    """The positions that are certainly asked for, and whether these are all."""
    while gate.status == "open":
        probe = gate.probe
        wave = probe.order[probe.asked : probe.limit]
        if any(position not in answers for position in wave):
            return probe.order[: probe.limit], False
        for _ in wave:
            gate = replace(gate, probe=ask(gate.probe, 0))
        for position in wave:
            gate = score(gate, position, answers[position][0], 0)
    return gate.probe.order[: gate.probe.asked], True
