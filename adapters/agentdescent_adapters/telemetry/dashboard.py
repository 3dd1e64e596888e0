"""Progress in a terminal, drawn by rich (extra `progress`): what `Watch` knows, a few times a second."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.text import Text

from agentdescent.engine.event import Decided, Event, RolledOut, Stopped
from agentdescent.engine.state import State
from agentdescent_adapters.telemetry.live import Doing, Snapshot, Watch, duration, one_line, sparkline

SHARE = 0.002
"""Share of the time that drawing may take: a slow terminal is drawn to less often."""
SOONEST = 0.25
WORKERS = 8
_BAR = 24


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
        kind = type(event)
        if kind is not RolledOut:  # of which nothing is kept
            self._watch.fold(event, state)
            if kind is Decided:  # its answer will come, and then it is time to look at the clock
                return
        began = self._clock()
        if began < self._next and kind is not Stopped:
            return
        if self.silent:
            return
        self._canvas.draw(self._watch.snapshot(state))
        now = self._clock()
        self._next = now + max(SOONEST, (now - began) / SHARE)
        if isinstance(event, Stopped):
            self.close()

    def close(self) -> None:
        """Leave the last picture and give the terminal back."""
        self._canvas.close()


def picture(shot: Snapshot, width: int) -> Text:
    """A snapshot as rich draws it, at most `width` columns wide. One text: tables take four times as long to draw."""
    lines = [_budget(shot), _reward(shot, width)]
    if shot.stop_reason is None and shot.doing:
        lines += _workers(shot)
    lines += [Text("  " + line, style="green") for line in shot.commits]
    kept = _savings(shot)
    if kept:
        lines.append(Text(kept, style="dim"))
    if shot.stop_reason is not None:
        lines.append(Text(f"stopped: {shot.stop_reason}" + (f", {one_line(shot.error)}" if shot.error else "")))
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Text("\n", no_wrap=True, end="").join(lines)


def _budget(shot: Snapshot) -> Text:
    spent = f"tok={shot.spent:,}" + (f"/{shot.cap:,}" if shot.cap is not None else "")
    rest = f"{shot.rate:,.0f}/s" if shot.rate else ""
    if shot.left is not None and shot.stop_reason is None:
        rest += f", cap in {duration(shot.left)}"
    line = Text("spent ")
    if shot.share is not None:
        full = round(shot.share * _BAR)
        line.append("━" * full, style="bar.complete").append("━" * (_BAR - full), style="bar.back")
        line.append(f" {shot.share:4.0%} ")
    return line.append(spent).append(f" {rest}", style="dim")


def _reward(shot: Snapshot, width: int) -> Text:
    if shot.best is None or shot.base is None:
        done, of = shot.scoring
        return Text(f"scoring the start: {done} of {of} held-out tasks")
    limit = f"/{shot.rounds}" if shot.rounds is not None else ""
    line = sparkline(shot.history, max(8, min(40, width - 60)))
    where = f"version {shot.version}, round {shot.round}{limit}"
    return Text(f"held-out {shot.best:.3f} from {shot.base:.3f} {line}  {where}")


def _workers(shot: Snapshot) -> list[Text]:
    """Two in a line, in columns."""
    shown = shot.doing[:WORKERS]
    who, what = (max(cell_len(one) for one in column) for column in zip(*map(_cells, shown), strict=True))
    lines = []
    for left, right in itertools.zip_longest(shown[::2], shown[1::2], fillvalue=Doing("", "")):
        line = Text()
        for one in (left, right):
            line.append(_padded(one.who, who), style="dim").append("  " + _padded(one.what, what) + "  ")
        lines.append(line)
    if len(shot.doing) > len(shown):
        lines.append(Text(f"and {len(shot.doing) - len(shown)} more", style="dim"))
    return lines


def _cells(one: Doing) -> tuple[str, str]:
    return one.who, one.what


def _padded(text: str, cells: int) -> str:
    return text + " " * (cells - cell_len(text))


def _savings(shot: Snapshot) -> str:
    parts = []
    if shot.saved.gates:
        parts.append(f"{shot.saved.gates} gates stopped early, about {shot.saved.tokens:,} tokens saved")
    if shot.skipped:
        parts.append("not made: " + ", ".join(f"{count:,} {purpose}" for purpose, count in shot.skipped))
    return "; ".join(parts)
