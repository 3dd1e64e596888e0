"""Progress: one line that is rewritten in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from agentdescent.budget.governor import Governor
from agentdescent.engine.event import Committed, Event, Stopped
from agentdescent.engine.population import dev_head
from agentdescent.engine.state import State
from agentdescent.history.rounds import mean

_WIDTH = 20


def share_spent(governor: Governor) -> float | None:
    """Spent share of the tightest cap, in [0, 1]; None when nothing but rounds or time limits the run."""
    caps, spent = governor.caps, governor.spent
    shares = [
        used / cap
        for used, cap in (
            (spent.tokens, caps.tokens),
            (spent.cost, caps.cost),
            (spent.calls, caps.calls),
            (spent.rollouts, caps.rollouts),
        )
        if cap is not None
    ]
    return min(1.0, max(shares)) if shares else None


def bar(share: float, width: int, *, full: str = "█", empty: str = "░") -> str:
    """A bar of `width` characters for a share in [0, 1]."""
    filled = round(min(1.0, max(0.0, share)) * width)
    return full * filled + empty * (width - filled)


def can_draw(stream: TextIO) -> bool:
    """Whether block characters can be written there."""
    try:
        "█░▏".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def status_line(state: State) -> str:
    """`round 3/15  held-out 0.412 (start 0.210)  version 4  tok=12,345/60,000`"""
    governor = state.governor
    limit = governor.caps.rounds
    parts = [f"round {state.round}" + (f"/{limit}" if limit is not None else "")]
    if state.base is None and state.started:
        size = state.head.scores.size
        parts.append(f"held-out {mean(state):.3f} (start {state.base_total / (1_000_000 * size):.3f})")
    else:
        parts.append("scoring the start")
    parts.append(f"version {dev_head(state).version.number}")
    cap = governor.caps.tokens
    parts.append(f"tok={governor.spent.tokens:,}" + (f"/{cap:,}" if cap is not None else ""))
    return "  ".join(parts)


class Progress:
    """An observer. In a terminal it rewrites one line, ten times a second at most; elsewhere it writes a line a round
    and one a commit, without control codes."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream = stream
        self.clock = clock
        self.terminal = stream.isatty()
        self.blocks = can_draw(stream)
        self.silent = False
        self._next = 0.0
        self._round = -1
        self._width = 0

    def __call__(self, event: Event, state: State) -> None:
        if self.silent:
            return
        try:
            self._show(event, state)
        except (OSError, ValueError):  # nobody reads any more, or the stream is closed: the run goes on without
            self.silent = True

    def _show(self, event: Event, state: State) -> None:
        if self.terminal:
            now = self.clock()
            if now >= self._next or isinstance(event, Stopped):
                self._next = now + 0.1
                self._rewrite(state)
            if isinstance(event, Stopped):
                self.stream.write("\n")
                self.stream.flush()
            return
        if state.round != self._round or isinstance(event, Committed | Stopped):
            self._round = state.round
            print(status_line(state), file=self.stream, flush=True)

    def _rewrite(self, state: State) -> None:
        share = share_spent(state.governor)
        gauge = ""
        if share is not None:
            drawn = bar(share, _WIDTH) if self.blocks else bar(share, _WIDTH, full="#", empty=".")
            gauge = f"  {drawn} {share:4.0%}"
        line = status_line(state) + gauge
        self.stream.write("\r" + line.ljust(self._width))
        self.stream.flush()
        self._width = len(line)
