"""The gates of a recorded run in another order, or with or without curtailment.

Of a gate all of whose tasks were answered, what it would have asked, cost and decided otherwise is exact: the gate
itself runs again on the recorded scores. Of a gate that was stopped early only the answered tasks are known, and the
cost has bounds: what was certainly asked for, and that with the worst case of every task that may have been. The
verdict is the same in any order, because curtailment loses nothing.

A gate that may be stopped by prediction (`futility`, stage `finish`) is checked at points that depend on the order:
such a run is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TypeAlias, get_args

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
from agentdescent.errors import CorruptLog, UsageError
from agentdescent.history.fold import folded
from agentdescent.merge.gate import Gate, fresh_probe, informative, open_gate, prefix_sums, whole_wave
from agentdescent.merge.scores import UNKNOWN, Scores, score_at
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
    folding = GatesFolding((order, curtail))
    for event, before, after in folded(events):
        folding.fold(event, before, after)
    return folding.results()[0]


Asked: TypeAlias = tuple[GateOrder | None, bool | None]
"""Order and curtailment; None: as recorded."""


class _Seen:
    """A gate while its answers come: the state in which it opened, and score and tokens by position."""

    def __init__(self, gate: Gate, state: State) -> None:
        self.gate, self.state = gate, state
        self.answers: dict[int, tuple[int, int]] = {}
        self.failed = False

    @functools.cached_property
    def rest(self) -> tuple[int, int]:
        """How many tasks have no answer, and the most tokens that these could have cost."""
        state, known = self.state, self.gate.probe.scores
        open_ = [p for p in range(known.size) if p not in self.answers and score_at(known, p) == UNKNOWN]
        sizes = [self.gate.size + state.setup.tasks[state.split.heldout[p]].size for p in open_]
        return len(open_), sum(reservation(state.governor, "solve", size).tokens for size in sizes)


class _Layout:
    """The order of a gate, with its sums: those of the last base, which most gates have in common."""

    def __init__(self, order: GateOrder) -> None:
        self._order = order
        self._base: Scores | None = None

    def of(self, base: Scores) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if base is not self._base:
            self._base = base
            self._positions = informative(base) if self._order == "informative" else tuple(range(base.size))
            self._prefix = prefix_sums(base, self._positions)
        return self._positions, self._prefix


class GatesFolding:
    """`gates_again` of several questions while a log is folded: `fold` raises UsageError as it does."""

    def __init__(self, *asked: Asked) -> None:
        self._asked = asked
        self._layouts = {order: _Layout(order) for order in get_args(GateOrder)}
        self._state: State | None = None
        self._open: dict[int, _Seen] = {}
        self._awaited: dict[int, tuple[_Seen, int]] = {}
        self._done: tuple[list[GateAgain], ...] = tuple([] for _ in asked)
        self._left_out = 0
        self._lasting = True

    def fold(self, event: Event, before: State, after: State) -> None:
        """`before`, `after`: the states around the event."""
        self._state = after
        match event:
            case Decided():
                self._decided(event, after)
            case RolledOut() | Failed() | Abandoned():
                self._answered(event, before, after)
            case Started():
                self._started(event, before)
            case GateOpened():
                self._opened(event, after)
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
            for (order, curtail), done in zip(self._asked, self._done, strict=True):
                layout = self._layouts[order or spec.gate_order]
                curtailed = spec.curtail if curtail is None else curtail
                done.append(_again(seen, layout, curtailed, event.outcome == "committed"))
        elif seen is not None:
            self._left_out += 1

    def _opened(self, event: GateOpened, state: State) -> None:
        sweep = state.sweep
        gate = next(gate for gate in sweep.gates if gate.subject == event.subject) if sweep is not None else None
        if gate is not None:
            self._open[event.subject] = _Seen(gate, state)

    def _decided(self, event: Decided, state: State) -> None:
        command = event.command
        if isinstance(command, Rollout) and command.purpose == "gate" and event.subject in self._open:
            self._awaited[command.id] = self._open[event.subject], state.position[command.task]

    def _answered(self, event: RolledOut | Failed | Abandoned, before: State, after: State) -> None:
        if event.id not in self._awaited:
            return
        seen, position = self._awaited.pop(event.id)
        if isinstance(event, RolledOut):
            seen.answers[position] = event.score, after.governor.spent.tokens - before.governor.spent.tokens
        else:
            seen.failed = True

    def results(self) -> tuple[GatesAgain, ...]:
        """One for each question, as far as it was folded. Raises CorruptLog when that is nothing."""
        state = self._state
        if state is None:
            raise CorruptLog("the log is empty")
        spent_out = state.stopped is None or state.stopped.reason in _SPENT_OUT
        return tuple(
            GatesAgain(
                tuple(done),
                self._left_out + len(self._open),
                state.governor.spent.tokens,
                self._lasting and not spent_out and not self._left_out and not self._open,
                state.setup.tariff.solve.strict,
            )
            for done in self._done
        )


def _indifferent(spec: Spec) -> bool:
    """Whether nothing but a cap looks at what was spent."""
    plain = spec.allocator is None and spec.call_budget is None and spec.diminishing_returns is None
    settled = spec.projection == "verdict" and spec.fusion_width != "adaptive"
    return plain and settled and isinstance(spec.selection, SingleHead) and spec.schedule == "rounds"


def _again(seen: _Seen, layout: _Layout, curtail: bool, accepted: bool) -> GateAgain:
    gate, answers = seen.gate, seen.answers
    recorded = sum(tokens for _, tokens in answers.values())
    asked, certain = _asked(seen, layout, curtail)
    low = sum(answers[position][1] for position in asked if position in answers)
    calls_low, calls_high, high = len(asked), len(asked), low
    if not certain:
        unanswered, most = seen.rest
        calls_high, high = len(answers) + unanswered, recorded + most
    return GateAgain(
        seen.state.seq - 1, gate.subject, accepted, len(answers), recorded, calls_low, calls_high, low, high
    )


def _asked(seen: _Seen, layout: _Layout, curtail: bool) -> tuple[tuple[int, ...], bool]:
    """The positions that are certainly asked for, and whether these are all."""
    gate, answers = seen.gate, seen.answers
    positions, prefix = layout.of(gate.base)
    known = gate.probe.scores
    if not curtail:  # all of them at once: nothing is weighed before the last answer
        asked = tuple(p for p in positions if score_at(known, p) == UNKNOWN) if known.count else positions
        return asked, all(p in answers for p in asked)
    afresh = replace(
        gate,
        probe=fresh_probe(positions, gate.base.size),
        prefix=prefix,
        curtail=True,
        status="open",
        gain=0,
        loss=0,
        safe=None,
        lost=None,
        check_at=-1,
    )
    return _run(open_gate(afresh, known if known.count else None), answers)


def _run(gate: Gate, answers: dict[int, tuple[int, int]]) -> tuple[tuple[int, ...], bool]:
    """Wave after wave, as far as there are answers: `_asked` of a gate that stops early."""
    while gate.status == "open":
        probe = gate.probe
        wave = probe.order[probe.asked : probe.limit]
        if any(position not in answers for position in wave):
            return probe.order[: probe.limit], False
        gate = whole_wave(gate, tuple(answers[position][0] for position in wave))
    return gate.probe.order[: gate.probe.asked], True
