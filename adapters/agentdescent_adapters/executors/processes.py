"""Worker processes on this machine: for scorers that keep a CPU busy, and agents that cannot share a process.

Each process has a pipe and a thread that feeds it one effect at a time, so that a death is blamed on the effect that
was being performed and on no other; concurrent.futures' own pool fails everything that is pending.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import NamedTuple

from agentdescent.budget.usage import Usage
from agentdescent.engine.event import Failed
from agentdescent.errors import UsageError
from agentdescent.ports import Item, Repeat
from agentdescent_adapters.executors.child import Child
from agentdescent_adapters.executors.sending import Done, Perform, Told, pack_callable, pack_item, unpack

TRIES = 3
"""How often an effect that may be repeated is begun, when the process dies each time."""

START = 60.0
"""Seconds in which a process has to have imported what it is sent."""

PATIENCE = 5.0
"""Seconds in which killed processes are expected to be gone."""


class _Work(NamedTuple):
    item: Item
    done: Done
    until: float


class Processes:
    """An Executor of `workers` processes. `deadline`: seconds from `submit` after which a process that has not answered
    is killed and replaced; with that of the run, the run has recorded the timeout by then.

    `open` starts them, and takes as long as they need to import what they are sent.
    """

    def __init__(self, workers: int, deadline: float = 120.0) -> None:
        if type(workers) is not int or workers < 1:
            raise UsageError(f"workers is {workers!r}: it must be a whole number of at least 1")
        self._workers = workers
        self._deadline = deadline
        self._payload = b""
        self._repeat: Repeat = "charged"
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._children: set[Child] = set()
        self._lock = threading.Lock()
        self._closed = False

    def open(self, perform: Perform, repeat: Repeat) -> None:
        self._payload = pack_callable(perform)
        self._repeat = repeat
        children: list[Child] = []
        try:
            children.extend(self._started() for _ in range(self._workers))
            for child in children:
                child.load(START)
        except (UsageError, EOFError, OSError) as error:
            for child in children:
                self._end(child)
            if isinstance(error, UsageError):
                raise
            raise UsageError(
                f"a process could not be started ({type(error).__name__}: {error}): start the run from a file, "
                'under `if __name__ == "__main__":`'
            ) from error
        for number, child in enumerate(children):
            thread = threading.Thread(target=self._feed, args=(child,), name=f"agentdescent-feeder-{number}")
            thread.daemon = True
            self._threads.append(thread)
            thread.start()

    def submit(self, item: Item, done: Done) -> None:
        self._queue.put(_Work(item, done, time.monotonic() + self._deadline))

    def close(self) -> None:
        """Processes at work are killed as well."""
        with self._lock:
            self._closed = True
            for child in self._children:
                child.kill()
        for _ in self._threads:
            self._queue.put(None)
        until = time.monotonic() + PATIENCE
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    # --- in the thread that feeds a process ---------------------------------------------------------------------------

    def _feed(self, child: Child | None) -> None:
        while (work := self._queue.get()) is not None and not self._closed:
            child, told = self._perform(child, work)
            if not self._closed:
                work.done(told)
            if child is None:
                child = self._replacement()
        if child is not None:
            self._end(child)

    def _perform(self, child: Child | None, work: _Work) -> tuple[Child | None, Told]:
        """What came of it, and the process that is left to go on with."""
        ident, data, why = work.item.command.id, pack_item(work.item), "no process could be started"
        if isinstance(data, Failed):
            return child, (data, "")
        late = f"no answer within {self._deadline:g} s"
        for _ in range(TRIES):
            child = child or self._replacement()
            if work.until <= time.monotonic():
                return child, (Failed(ident, "timeout", late, Usage()), "")
            if child is None:
                continue
            begun = False
            try:
                child.send(data, work.until - time.monotonic())
                begun = True
                return child, unpack(child.receive(work.until - time.monotonic()), work.item.command)
            except TimeoutError:
                self._end(child)
                return None, (Failed(ident, "timeout", late), "")
            except (EOFError, OSError):
                why = f"the process that performed it died ({self._end(child, died=True)})"
                child = None
                if begun and self._repeat == "charged":
                    return None, (Failed(ident, "provider", why), "")
        return None, (Failed(ident, "provider", f"{why}, {TRIES} times"), "")

    def _replacement(self) -> Child | None:
        """A process that can perform, or None: it could not be started, or the executor was closed."""
        try:
            child = self._started()
        except OSError:
            return None
        try:
            child.load(START)
        except (UsageError, EOFError, OSError):
            self._end(child, died=True)
            return None
        return child

    def _started(self) -> Child:
        """Raises OSError when there can be none, also because the executor was closed."""
        with self._lock:
            if self._closed:
                raise OSError("closed")
            child = Child(self._payload)
            self._children.add(child)
            return child

    def _end(self, child: Child, *, died: bool = False) -> str:
        with self._lock:
            self._children.discard(child)
        return child.end(died=died)
