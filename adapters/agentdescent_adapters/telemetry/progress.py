"""Progress: in a terminal a picture (without rich one line that is rewritten), plain lines elsewhere."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Protocol, TextIO

from agentdescent.engine.event import Event, Stopped
from agentdescent.engine.population import dev_head
from agentdescent.engine.state import State
from agentdescent.history.rounds import mean
from agentdescent_adapters.telemetry.gauge import bar, can_draw, share_spent
from agentdescent_adapters.telemetry.live import Watch

_WIDTH = 20
_LINE = 300


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


class Shown(Protocol):
    """An observer that gives the terminal back when it is closed."""

    def __call__(self, event: Event, state: State) -> None: ...

    def close(self) -> None: ...


def progress_on(stream: TextIO) -> Shown:
    """What suits the stream and what is installed."""
    if stream.isatty() and can_draw(stream) and importlib.util.find_spec("rich") is not None:
        from agentdescent_adapters.telemetry.dashboard import Dashboard

        return Dashboard(stream)
    return Progress(stream)


class Progress:
    """An observer. In a terminal it rewrites one line, ten times a second at most; elsewhere it writes a line a round
    and one a commit, without control codes."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream = stream
        self.clock = clock
        self.terminal = stream.isatty()
        self.blocks = can_draw(stream)
        self.silent = False
        self._watch = Watch(clock)
        self._next = 0.0
        self._round = -1
        self._width = 0

    def __call__(self, event: Event, state: State) -> None:
        if self.silent:
            return
        try:
            self._show(event, state, self._watch.fold(event, state))
        except (OSError, ValueError):  # nobody reads any more, or the stream is closed: the run goes on without
            self.silent = True

    def _show(self, event: Event, state: State, commit: str | None) -> None:
        if self.terminal:
            now = self.clock()
            if now >= self._next or isinstance(event, Stopped):
                self._next = now + 0.1
                self._rewrite(state)
            if isinstance(event, Stopped):
                self.stream.write("\n")
                self.stream.flush()
            return
        if commit is not None:
            print(f"commit: {commit[:_LINE]}", file=self.stream, flush=True)
        if state.round != self._round or isinstance(event, Stopped):
            self._round = state.round
            print(status_line(state), file=self.stream, flush=True)

    def close(self) -> None:
        """Nothing is to be given back."""

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
