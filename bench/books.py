"""Books kept apart from the engine's: what a log must add up to, from its events and the truth about every answer.

Told of every event with the state after it, as an observer of a run is. What does not hold is collected in `found`, in
words; nothing is raised, so that a run with a defect goes on and shows what follows from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from agentdescent import Caps, State, vector
from agentdescent.artifact.strategy import render
from agentdescent.budget.governor import Kind, Purpose
from agentdescent.budget.tariff import Rate, cost
from agentdescent.budget.usage import NOTHING, Amount, Usage, add, exceeds, subtract
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.decision import halting
from agentdescent.engine.event import (
    Abandoned,
    Amended,
    Committed,
    Decided,
    Event,
    Failed,
    GateOpened,
    Interrupted,
    Judged,
    Outcome,
    Promoted,
    Proposed,
    RolledOut,
    Stopped,
)
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.rule import accepts
from agentdescent.merge.unpaired import Counts
from agentdescent.merge.verdict import GateEvidence

Truth = Callable[[int, str], int]
"""The score in millionths of a task (by its index) with a rendered artifact."""


class Books:
    """`over_cap`: events after which more was claimed than the caps allow, although no call used more than it may."""

    def __init__(self, truth: Truth) -> None:
        self.found: list[str] = []
        self.over_cap = 0
        self.events = 0
        self.outcomes: dict[int, Outcome | Abandoned] = {}
        self.spent = NOTHING
        self._truth = truth
        self._before: State | None = None
        self._turns: dict[int, Decided] = {}
        self._others: dict[int, Decided] = {}
        self._due = NOTHING
        self._used: dict[Purpose, Amount] = {}
        self._assumed: dict[Purpose, int] = {}
        self._known: set[Kind] = set()
        self._open: set[int] = set()
        self._closed: set[int] = set()
        self._gates: dict[int, tuple[GateOpened, str, tuple[int, ...]]] = {}
        self._scored: Counter[tuple[int, str, int]] = Counter()
        self._won: int | None = None
        self._excused = False
        self._halted = False

    def __call__(self, event: Event, state: State) -> None:
        before = self._before or state
        match event:
            case Decided():
                self._decided(event, before)
            case RolledOut() | Proposed() | Failed() | Abandoned():
                self._answered(event, before, state)
            case GateOpened():
                self._gate_opened(event, before, state)
            case Judged():
                self._judged(event, before)
            case Committed():
                self._committed(event, before, state)
            case Stopped():
                self._stopped(event)
            case Interrupted():
                self._halted = True
            case Amended():
                self._halted = False
                self._expect(_within(state, event.caps) or self._excused, "amended to caps below what is spent")
            case Promoted():
                self._expect(not self._halted, "promoted after the run was to stop")
            case _:  # Started and Skipped change no book
                pass
        if self._before is not None and self._before.started and self._before.base is None:
            self._expect(state.head.scores.total >= before.head.scores.total, "the head's mean fell")
        self._balance(state)
        self.events += 1
        self._before = state

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.found.append(f"event {self.events}: {what}")

    # --- effects ------------------------------------------------------------------------------------------------------

    def _decided(self, event: Decided, before: State) -> None:
        command, split = event.command, before.split
        number = len(self._turns) + len(self._others) + len(self.outcomes)
        self._expect(command.id == number, f"command {command.id} is the {number}th")
        self._expect(not self._halted and halting(before) is None, f"command {command.id} after the run was to stop")
        self._expect(0 <= event.attempt < before.spec.attempts, f"attempt {event.attempt} of command {command.id}")
        self._expect(command.ceiling == _rate(before, command).ceiling, f"command {command.id} at another ceiling")
        parts = {"test": split.test, "base": split.heldout, "gate": split.heldout, "conflict": split.heldout}
        part = parts.get(_purpose(command), split.train)
        self._expect(command.task in part, f"{_purpose(command)} reads task {command.task}")
        (self._turns if event.worker >= 0 else self._others)[command.id] = event
        self._due = add(self._due, command.reserve)
        if isinstance(command, Propose) and command.subject not in self._open:
            self._begin(command.subject)

    def _answered(self, event: Outcome | Abandoned, before: State, after: State) -> None:
        waiting = self._others or self._turns
        if before.spec.admission == "ordered":
            self._expect(next(iter(waiting), None) == event.id, f"the answer to command {event.id} is out of order")
        decided = self._others.pop(event.id, None) or self._turns.pop(event.id, None)
        if decided is None:
            self._expect(False, f"command {event.id} was answered or abandoned, and is not open")
            return
        self.outcomes[event.id] = event
        command = decided.command
        self._due = subtract(self._due, command.reserve)
        self._settle(event, command, _rate(before, command))
        self._excused = self._excused or after.governor.overrun
        if isinstance(event, RolledOut) and isinstance(command, Rollout):
            if command.purpose in ("gate", "conflict"):
                self._scored[decided.subject, command.artifact, command.task] += 1
            head = before.head.version
            if command.artifact == head.artifact:
                truth = self._truth(command.task, render(before.spec.strategy, head.entries))
                self._expect(event.score == truth, f"command {event.id} scored {event.score}, and {truth} is true")

    def _settle(self, event: Outcome | Abandoned, command: Rollout | Propose, rate: Rate) -> None:
        """Charge it by the rules of the budget: what was said, else the reservation, else (first of its kind, of
        which nothing is known) the call alone."""
        kind: Kind = "solve" if isinstance(command, Rollout) else "propose"
        rollouts = int(isinstance(command, Rollout))
        if isinstance(event, Abandoned) and not event.started:
            return
        if isinstance(event, Abandoned) or event.usage is None:
            nothing_known = not rate.strict and kind not in self._known
            used = Amount(0, 0, rate.calls, rollouts) if nothing_known else command.reserve
            self._charge(_purpose(command), used, used.tokens)
            return
        usage, scoring = event.usage, event.scoring if isinstance(event, RolledOut) else None
        first = Amount(usage.tokens, cost(rate.prices, usage), usage.calls, rollouts)
        total = first
        self._charge(_purpose(command), first)
        if scoring is not None:
            both = Usage(usage.prompt + scoring.prompt, usage.completion + scoring.completion, usage.cached)
            rest = Amount(scoring.tokens, cost(rate.prices, both) - first.cost, scoring.calls)
            self._charge("score", rest)
            total = add(first, rest)
        if not isinstance(event, Failed):
            self._known.add(kind)
        if exceeds(total, command.reserve) and (rate.prices is not None or total.tokens > command.reserve.tokens):
            self._excused = True
            self._halted = self._halted or rate.strict

    def _charge(self, purpose: Purpose, used: Amount, assumed: int = 0) -> None:
        self._used[purpose] = add(self._used.get(purpose, NOTHING), used)
        self._assumed[purpose] = self._assumed.get(purpose, 0) + assumed
        self.spent = add(self.spent, used)

    def _balance(self, state: State) -> None:
        governor = state.governor
        self._expect(governor.due == self._due, f"due is {governor.due}, and reservations are {self._due}")
        self._expect(governor.spent == self.spent, f"spent is {governor.spent}, and charges are {self.spent}")
        held = add(state.base_hold, state.test_hold)
        for gate in () if state.sweep is None else state.sweep.gates:
            held = add(held, gate.hold)
        self._expect(governor.held == held, f"held is {governor.held}, and earmarks are {held}")
        self._expect(not exceeds(NOTHING, governor.held), f"held is {governor.held}")
        ledger = {line.purpose: (line.used, line.assumed) for line in governor.ledger}
        ours = {purpose: (used, self._assumed[purpose]) for purpose, used in self._used.items()}
        self._expect(ledger == ours, f"the ledger is {ledger}, and charges are {ours}")
        self._expect(governor.assumed == sum(self._assumed.values()), "assumed is not the sum of what was assumed")
        if _within(state, governor.caps):
            self._excused = self._excused and governor.overrun
        elif not self._excused:
            self.over_cap += 1
            self._expect(False, f"claimed more than {governor.caps}: {governor.spent} {governor.due} {governor.held}")

    # --- proposals and candidates -------------------------------------------------------------------------------------

    def _begin(self, subject: int) -> None:
        fresh = subject == len(self._open) + len(self._closed) and subject not in self._closed
        self._expect(fresh, f"subject {subject} was closed, or is not the next")
        self._open.add(subject)

    def _gate_opened(self, event: GateOpened, before: State, after: State) -> None:
        self._expect(not self._halted, f"gate {event.subject} opened after the run was to stop")
        if event.contributors != (event.subject,):
            self._begin(event.subject)
        self._expect(set(event.contributors) <= self._open, f"gate {event.subject} is for a closed proposal")
        gates = () if after.sweep is None else after.sweep.gates
        self._expect(len(gates) <= before.spec.open_gates, f"{len(gates)} gates are open")
        entries = next((gate.entries for gate in gates if gate.subject == event.subject), ())
        rendered = render(before.spec.strategy, entries)
        self._gates[event.subject] = event, rendered, tuple(vector.items(before.head.scores.values))

    def _judged(self, event: Judged, before: State) -> None:
        closed = {event.subject, *event.contributors}
        self._expect(closed <= self._open, f"{closed - self._open} are judged, and were closed or never begun")
        opened = self._gates.pop(event.subject, None)
        if isinstance(event.evidence, GateEvidence) and opened is not None:
            self._verdict(event, *opened, before)
        else:
            self._expect(event.outcome not in ("committed", "regression", "below-threshold"), f"{event}, and no gate")
        if event.outcome == "committed":
            self._won = event.subject
        self._open -= closed
        self._closed |= closed

    def _verdict(self, event: Judged, gate: GateOpened, rendered: str, base: tuple[int, ...], before: State) -> None:
        """Against the sweep of all held-out tasks, most of which the run may never have asked for."""
        truth = [self._truth(task, rendered) for task in before.split.heldout]
        gain = sum(max(0, score - was) for score, was in zip(truth, base, strict=True))
        loss = sum(max(0, was - score) for score, was in zip(truth, base, strict=True))
        accepted = accepts(
            gate.prior, Counts(sum(base), len(base)), gain, loss, gate.weight_gain, gate.weight_loss, gate.bar
        )
        self._expect(accepted == (event.outcome == "committed"), f"{event}: the full sweep gains {gain}, loses {loss}")
        if event.outcome == "committed":
            # A union takes its proposals with it; a single winner names itself or nobody.
            self._expect(set(event.contributors) <= set(gate.contributors), f"{event} of {gate.contributors}")

    def _committed(self, event: Committed, before: State, after: State) -> None:
        self._expect(event.subject == self._won, f"{event.subject} committed, and {self._won} won")
        self._won = None
        head, heldout = after.head, before.split.heldout
        moved = (event.base, event.base + 1) == (before.head.version.number, head.version.number)
        self._expect(moved, f"committed on version {event.base}, not on the head")
        rendered = render(before.spec.strategy, head.version.entries)
        truth = [self._truth(task, rendered) for task in heldout]
        self._expect(list(vector.items(head.scores.values)) == truth, "the head's scores are not those of its text")
        self._expect(event.total == sum(truth), f"committed at {event.total}, and the sum is {sum(truth)}")
        times = [self._scored[event.subject, event.artifact, task] for task in heldout]
        self._expect(set(times) == {1}, f"committed, and the held-out tasks were scored {times} times")

    def _stopped(self, event: Stopped) -> None:
        still = (*self._turns, *self._others)
        self._expect(not still, f"stopped, and commands {still[:5]} are open")
        self._expect(self._won is None, f"stopped, and {self._won} was to be committed")
        self._expect(event.unresolved == tuple(sorted(self._open)), f"{event.unresolved} unresolved of {self._open}")
        self._halted = True


def _purpose(command: Rollout | Propose) -> Purpose:
    return command.purpose if isinstance(command, Rollout) else "propose"


def _rate(state: State, command: Rollout | Propose) -> Rate:
    return state.setup.tariff.solve if isinstance(command, Rollout) else state.setup.tariff.propose


def _within(state: State, caps: Caps) -> bool:
    """spent + due + held <= cap in every capped unit."""
    claimed = add(state.governor.spent, add(state.governor.due, state.governor.held))
    pairs = (
        (caps.tokens, claimed.tokens),
        (caps.cost, claimed.cost),
        (caps.calls, claimed.calls),
        (caps.rollouts, claimed.rollouts),
    )
    return all(cap is None or amount <= cap for cap, amount in pairs)


__all__ = ["MILLION", "Books", "Truth"]
