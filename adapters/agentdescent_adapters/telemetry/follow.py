"""A run that another process works on, as it goes on: from its log alone."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Protocol, TextIO

import msgspec

from agentdescent.engine.event import Event
from agentdescent.engine.state import State
from agentdescent.history.fold import folded
from agentdescent_adapters.disk import being_written, follow_events
from agentdescent_adapters.telemetry.files import Status, status_of
from agentdescent_adapters.telemetry.live import Watch
from agentdescent_adapters.telemetry.progress import Progress


class Shows(Protocol):
    """`fold` is told every event, `show` the state whenever there is no more for now. `gone`: nobody looks."""

    @property
    def gone(self) -> bool: ...
    def fold(self, event: Event, state: State) -> None: ...
    def show(self, state: State) -> None: ...
    def close(self) -> None: ...


def follow(run: str, shown: Shows, pause: Callable[[], object]) -> State | None:
    """Until the run has stopped, nobody writes it any more, or nobody looks; `pause` waits for a moment. The last
    state, None when the run never began. Raises UsageError when there is no run, CorruptLog."""
    state: State | None = None
    left = False

    def wait() -> bool:
        nonlocal left
        if state is not None:
            shown.show(state)
        if left or shown.gone or (state is not None and state.stopped is not None):
            return False
        left = not being_written(run)  # then what it wrote last is still to be read
        if not left:
            pause()
        return True

    try:
        for event, _, after in folded(follow_events(run, wait)):
            state = after
            shown.fold(event, after)
    finally:
        shown.close()
    return state


def shown_on(stream: TextIO, *, json: bool) -> Shows:
    """What suits the stream and what is installed."""
    if json:
        return Objects(stream)
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        return Picture(stream)
    return Lines(stream)


class Objects:
    """One JSON object, a Status, a change: what several events that were read at once have changed is one."""

    gone = False

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last: Status | None = None

    def fold(self, event: Event, state: State) -> None:
        pass

    def show(self, state: State) -> None:
        status = status_of(state)
        if status != self._last:
            self._last = status
            print(msgspec.json.encode(status).decode(), file=self._stream, flush=True)

    def close(self) -> None:
        pass


class Picture:
    """In a terminal, drawn by rich."""

    def __init__(self, stream: TextIO) -> None:
        from agentdescent_adapters.telemetry.dashboard import Canvas

        self._canvas, self._watch = Canvas(stream), Watch()

    @property
    def gone(self) -> bool:
        return self._canvas.gone

    def fold(self, event: Event, state: State) -> None:
        self._watch.fold(event, state)

    def show(self, state: State) -> None:
        self._canvas.draw(self._watch.snapshot(state))

    def close(self) -> None:
        self._canvas.close()


class Lines:
    """Elsewhere, as progress writes them."""

    def __init__(self, stream: TextIO) -> None:
        self._progress = Progress(stream)

    @property
    def gone(self) -> bool:
        return self._progress.silent

    def fold(self, event: Event, state: State) -> None:
        self._progress(event, state)

    def show(self, state: State) -> None:
        pass

    def close(self) -> None:
        self._progress.close()
