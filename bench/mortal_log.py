"""Logs whose process dies between any two operations, or whose disk is full, and what is left of them."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping

from agentdescent import MemoryLog
from agentdescent.engine.event import Event, Outcome
from agentdescent.ports import Log
from agentdescent_adapters.disk import DiskLog, OsFiles


class Died(BaseException):
    """The process is gone: nothing that it does from here on is seen by anybody."""


class MortalFiles(OsFiles):
    """Lets go of everything when the process dies. Nothing is synced in earnest: the machine goes on."""

    def __init__(self) -> None:
        self._handles: set[int] = set()

    def fsync(self, handle: int) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def lock(self, path: str) -> int:
        return self._remember(super().lock(path))

    def open_append(self, path: str) -> int:
        return self._remember(super().open_append(path))

    def open_new(self, path: str) -> int:
        return self._remember(super().open_new(path))

    def close(self, handle: int) -> None:
        self._handles.discard(handle)
        super().close(handle)

    def die(self) -> None:
        for handle in tuple(self._handles):
            self.close(handle)

    def _remember(self, handle: int) -> int:
        self._handles.add(handle)
        return handle


class MortalLog:
    """A log whose process dies at its `dies_at`th operation, or whose disk is full from then on (`full`).

    `last` is called at that moment. `journalled`: answers that reached the journal. `unwritten`: commands whose answer
    was being written then, or came after it.
    """

    def __init__(self, inner: Log, *, dies_at: int | None, full: bool) -> None:
        self.inner = inner
        self.journalled: dict[int, tuple[Outcome, str]] = {}
        self.unwritten: set[int] = set()
        self.dead = False
        self.synced = self.appended = sum(1 for _ in inner.events())
        self.last: Callable[[], None] = lambda: None
        self._left, self._full = dies_at if dies_at is not None else sys.maxsize, full

    def _tick(self) -> None:
        self._left -= 1
        if self._left == 0 and not self._full:
            self.dead = True
            self.last()
        elif self._left <= 0 and self._full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def events(self) -> Iterable[Event]:
        return self.inner.events()

    def recall(self, ids: Collection[int]) -> Mapping[int, tuple[Outcome, str]]:
        return self.inner.recall(ids)

    def append(self, event: Event) -> None:
        self._begin()
        self.inner.append(event)
        self.appended += 1

    def answered(self, outcome: Outcome, output: str, seconds: float, refused: int = 0) -> None:
        self.unwritten.add(outcome.id)
        self._tick()
        if not self.dead:
            self.inner.answered(outcome, output, seconds, refused)
            self.unwritten.discard(outcome.id)
            self.journalled.setdefault(outcome.id, (outcome, output))

    def sync(self) -> None:
        self._begin()
        self.inner.sync()
        self.synced = self.appended

    def _begin(self) -> None:
        """Of an operation of the driver itself, which an exception ends."""
        self._tick()
        if self.dead:
            raise Died

    def close(self) -> None:
        if not self.dead:
            self.inner.close()

    @property
    def digest(self) -> str:
        return self.inner.digest

    @property
    def path(self) -> str | None:
        return self.inner.path


class Keeper:
    """Where the log of one run is kept while its processes come and go: in memory, or in a directory. `journal`: every
    answer that was ever journalled."""

    def __init__(self, directory: str | None) -> None:
        self._directory = directory
        self._files = MortalFiles()
        self._memory = MemoryLog()
        self._begun = False
        self.journal: dict[int, tuple[Outcome, str]] = {}

    def open(self) -> Log:
        if self._directory is None:
            return self._memory
        self._files = MortalFiles()
        begun, self._begun = self._begun, True
        if begun:
            return DiskLog.open(self._directory, files=self._files)
        return DiskLog.create(self._directory, files=self._files)

    def survive(self, log: MortalLog, kept: float) -> None:
        """The process is dead; `kept`: the share of what it appended after the last sync that reached the disk."""
        if self._directory is not None:
            self._files.die()
            return
        events = tuple(self._memory.events())
        durable = log.synced + int(kept * (len(events) - log.synced))
        self._memory = MemoryLog(events[:durable], self.journal)
