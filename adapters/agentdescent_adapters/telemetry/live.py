"""A run as it is at this moment, for people: folded from events, in this process or read from another's log."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable

import msgspec

from agentdescent.artifact.diff import Drop, Op, Ops, Replace
from agentdescent.engine.command import Propose
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
    StopReason,
)
from agentdescent.engine.population import dev_head
from agentdescent.engine.state import State
from agentdescent.engine.window import open_effects
from agentdescent.history import gates
from agentdescent.history.gates import Savings
from agentdescent.history.rounds import mean
from agentdescent_adapters.telemetry.gauge import share_spent

RECENT = 5
_TICKS = "▁▂▃▄▅▆▇█"
_SPAN = 20.0
"""Seconds over which the rate is measured."""


class Doing(msgspec.Struct, frozen=True):
    """Who is at work, and on what: `worker 3`, `proposes (17)`."""

    who: str
    what: str


class Snapshot(msgspec.Struct, frozen=True):
    """`share`: spent share of the tightest cap, in [0, 1], None where nothing is capped. `best`: held-out mean of the
    head and `history` of its versions, None and empty while the start is scored, of which `scoring` says how far.
    `rate`: tokens a second lately; `left`: seconds until the cap at that rate, None when that cannot be told.
    `commits`: the last ones, a line each. `skipped`: optional spends not made, by purpose."""

    round: int
    rounds: int | None
    spent: int
    cap: int | None
    share: float | None
    base: float | None
    best: float | None
    history: tuple[float, ...]
    scoring: tuple[int, int]
    version: int
    doing: tuple[Doing, ...]
    commits: tuple[str, ...]
    saved: Savings
    skipped: tuple[tuple[str, int], ...]
    rate: float
    left: float | None
    seconds: float
    stop_reason: StopReason | None
    error: str


class Watch:
    """Folds the events of a run; `clock` in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: float | None = None
        self._spent: deque[tuple[float, int]] = deque()
        self._history: list[float] = []
        self._asked: dict[int, int] = {}
        self._ops: dict[int, Ops] = {}
        self._made_of: dict[int, tuple[int, ...]] = {}
        self._commits: deque[str] = deque(maxlen=RECENT)
        self._saved = Savings()
        self._skipped: Counter[str] = Counter()

    def fold(self, event: Event, state: State) -> str | None:
        """`state` is the one after the event. Returns a line about it where it is a commit."""
        if type(event) is RolledOut or (type(event) is Decided and type(event.command) is not Propose):
            return None  # nearly all of a run: told apart without asking for subclasses, which takes four times as long
        line = None
        match event:
            case Decided(command=Propose() as command):
                self._asked[command.id] = command.subject
            case Proposed():
                subject = self._asked.pop(event.id, None)
                if subject is not None:  # else it was asked for before this began to watch
                    self._ops[subject] = event.ops
            case Failed() | Abandoned():
                self._asked.pop(event.id, None)
            case GateOpened():
                self._made_of[event.subject] = event.contributors
            case Judged():
                self._saved = gates.observe(self._saved, event, state)
                if event.outcome != "committed":
                    self._forget(event)
            case Skipped():
                self._skipped[event.purpose] += 1
            case Committed():
                line = self._commit(event, state)
            case _:
                pass
        if line is not None:
            self._history.append(mean(state))
        return line

    def _forget(self, event: Judged) -> None:
        """What is closed is not told of again; a union that goes on in parts closes none of them."""
        self._made_of.pop(event.subject, None)
        for subject in (event.subject, *event.contributors):
            self._ops.pop(subject, None)

    def _commit(self, event: Committed, state: State) -> str:
        subjects = self._made_of.pop(event.subject, (event.subject,))
        told = "; ".join(one for subject in subjects for one in describe(self._ops.pop(subject, ())))
        version = event.version or event.base + 1
        line = f"version {version}, held-out {event.total / (1_000_000 * state.head.scores.size):.3f}: {told}"
        self._commits.append(line)
        return line

    def snapshot(self, state: State) -> Snapshot:
        now, governor = self._clock(), state.governor
        self._began = now if self._began is None else self._began
        rate = self._rate(now, governor.spent.tokens)
        cap, scored = governor.caps.tokens, state.started and state.base is None
        size = state.head.scores.size
        left = (cap - governor.spent.tokens) / rate if cap is not None and rate else None
        return Snapshot(
            round=state.round,
            rounds=governor.caps.rounds,
            spent=governor.spent.tokens,
            cap=cap,
            share=share_spent(governor),
            base=state.base_total / (1_000_000 * size) if scored and size else None,
            best=mean(state) if scored else None,
            history=self._line(state) if scored else (),
            scoring=(state.base.scores.count if state.base is not None else size, len(state.split.heldout)),
            version=dev_head(state).version.number,
            doing=doing(state),
            commits=tuple(self._commits),
            saved=self._saved,
            skipped=tuple(sorted(self._skipped.items())),
            rate=rate,
            left=left,
            seconds=now - self._began,
            stop_reason=state.stopped.reason if state.stopped is not None else None,
            error=state.stopped.error if state.stopped is not None else "",
        )

    def _line(self, state: State) -> tuple[float, ...]:
        """The start, every commit that was watched, and the head, if that is not the last of them."""
        seen = (state.base_total / (1_000_000 * state.head.scores.size), *self._history)
        best = mean(state)
        return seen if seen[-1] == best else (*seen, best)

    def _rate(self, now: float, spent: int) -> float:
        """Tokens a second, over the last seconds that were looked at."""
        seen = self._spent
        seen.append((now, spent))
        while len(seen) > 2 and now - seen[1][0] >= _SPAN:
            seen.popleft()
        before, tokens = seen[0]
        return (spent - tokens) / (now - before) if now > before else 0.0


def doing(state: State) -> tuple[Doing, ...]:
    """What is in flight: one a worker, then the merge, the oldest effect of each."""
    found: dict[str, Doing] = {}
    counts: Counter[str] = Counter()
    for decided in open_effects(state.window):
        who, what = _who(decided, state), _what(decided)
        counts[who] += 1
        found.setdefault(who, Doing(who, what))
    return tuple(
        Doing(one.who, one.what + (f", {counts[one.who]} calls" if counts[one.who] > 1 else ""))
        for one in sorted(found.values(), key=lambda one: (one.who == "merge", len(one.who), one.who))
    )


def _who(decided: Decided, state: State) -> str:
    return "merge" if decided.worker < 0 else f"worker {decided.worker % state.spec.n_workers}"


def _what(decided: Decided) -> str:
    command = decided.command
    if isinstance(command, Propose):
        return f"asks for proposal {command.subject}"
    words = {"base": "scores the start", "test": "tests", "rollout": "solves a train task"}
    about = f" {decided.subject}" if decided.subject >= 0 else ""
    return words.get(command.purpose, command.purpose + about)


def describe(ops: Ops) -> tuple[str, ...]:
    """Ops in a few words each: `+ text`, `~ key: text`, `- key`."""
    return tuple(_describe(op) for op in ops)


def _describe(op: Op) -> str:
    if isinstance(op, Drop):
        return f"- {one_line(op.key)}"
    text = one_line(op.text)
    return f"~ {one_line(op.key)}: {text}" if isinstance(op, Replace) else f"+ {text}"


def printable(text: str) -> str:
    """Its lines, without what would command a terminal."""
    lines = (line.expandtabs() for line in text.splitlines())
    return "\n".join("".join(c if c.isprintable() else " " for c in line) for line in lines)


def one_line(text: str) -> str:
    """The same on one line."""
    return " ".join(printable(text).split())


def sparkline(values: tuple[float, ...], width: int) -> str:
    """The last `width` values in [0, 1], a character each, between the lowest and the highest."""
    shown = values[-width:]
    low, high = min(shown, default=0.0), max(shown, default=0.0)
    span = high - low
    return "".join(_TICKS[round((value - low) / span * 7) if span else 0] for value in shown)


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
