"""Progress in a terminal, drawn by rich (extra `progress`): what `Watch` knows, a few times a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agentdescent.engine.event import Event, Stopped
from agentdescent.engine.state import State
from agentdescent_adapters.telemetry.live import Doing, Snapshot, Watch, duration, sparkline

SHARE = 0.005
"""Share of the time that drawing may take: a slow terminal is drawn to less often."""
SOONEST = 0.2
WORKERS = 8


class Canvas:
    """The place in a terminal where a picture is drawn over the one before; the last one stays. `gone` once drawing
    failed, which raises nothing: nobody looks any more."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._started = False
        self.gone = False

    def draw(self, shot: Snapshot) -> None:
        try:
            if not self._started:
                self._started = True
                self._live.start()
            self._live.update(picture(shot, self._console.width), refresh=True)
        except (OSError, ValueError):
            self.gone = True

    def close(self) -> None:
        """Leave the last picture and give the terminal back."""
        if not self._started:
            return
        self._started = False
        try:
            self._live.stop()
        except (OSError, ValueError):
            self.gone = True


class Dashboard:
    """An observer. Draws to a terminal; never ends the run: one that is broken is left alone."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._watch = Watch(clock)
        self._clock = clock
        self._canvas = Canvas(stream)
        self._next = 0.0

    @property
    def silent(self) -> bool:
        return self._canvas.gone

    def __call__(self, event: Event, state: State) -> None:
        self._watch.fold(event, state)
        ended = isinstance(event, Stopped)
        if self.silent or (not ended and self._clock() < self._next):
            return
        began = self._clock()
        self._canvas.draw(self._watch.snapshot(state))
        now = self._clock()
        self._next = now + max(SOONEST, (now - began) / SHARE)
        if ended:
            self.close()

    def close(self) -> None:
        """Leave the last picture and give the terminal back."""
        self._canvas.close()


def picture(shot: Snapshot, width: int) -> Group:
    """A snapshot as rich draws it, at most `width` columns wide."""
    parts: list[RenderableType] = [_budget(shot), _reward(shot, width)]
    if shot.stop_reason is None and shot.doing:
        parts.append(_workers(shot))
    for line in shot.commits:
        parts.append(Text("  " + line, no_wrap=True, overflow="ellipsis", style="green"))
    kept = _savings(shot)
    if kept:
        parts.append(Text(kept, style="dim"))
    if shot.stop_reason is not None:
        parts.append(Text(f"stopped: {shot.stop_reason}" + (f", {shot.error}" if shot.error else "")))
    return Group(*parts)


def _budget(shot: Snapshot) -> Table:
    row = Table.grid(padding=(0, 1))
    spent = f"tok={shot.spent:,}" + (f"/{shot.cap:,}" if shot.cap is not None else "")
    rest = f"{shot.rate:,.0f}/s" if shot.rate else ""
    if shot.left is not None and shot.stop_reason is None:
        rest += f", cap in {duration(shot.left)}"
    bar = ProgressBar(total=1.0, completed=shot.share, width=24) if shot.share is not None else Text("")
    percent = f"{shot.share:4.0%}" if shot.share is not None else ""
    row.add_row(Text("spent   "), bar, Text(percent), Text(spent), Text(rest, style="dim"))
    return row


def _reward(shot: Snapshot, width: int) -> Text:
    if shot.best is None or shot.base is None:
        done, of = shot.scoring
        return Text(f"scoring the start: {done} of {of} held-out tasks")
    limit = f"/{shot.rounds}" if shot.rounds is not None else ""
    line = sparkline(shot.history, max(8, min(40, width - 60)))
    where = f"version {shot.version}, round {shot.round}{limit}"
    return Text(f"held-out {shot.best:.3f} from {shot.base:.3f} {line}  {where}")


def _workers(shot: Snapshot) -> Table:
    grid = Table.grid(padding=(0, 2))
    shown = shot.doing[:WORKERS]
    left_out = len(shot.doing) - len(shown)
    for left, right in zip(shown[::2], (*shown[1::2], Doing("", ""))[: len(shown[::2])], strict=True):
        grid.add_row(Text(left.who, style="dim"), Text(left.what), Text(right.who, style="dim"), Text(right.what))
    if left_out:
        grid.add_row(Text(f"and {left_out} more", style="dim"))
    return grid


def _savings(shot: Snapshot) -> str:
    parts = []
    if shot.saved.gates:
        parts.append(f"{shot.saved.gates} gates stopped early, about {shot.saved.tokens:,} tokens saved")
    if shot.skipped:
        parts.append("not made: " + ", ".join(f"{count:,} {purpose}" for purpose, count in shot.skipped))
    return "; ".join(parts)
