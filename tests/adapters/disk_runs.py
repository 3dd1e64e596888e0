"""File layers that misbehave, and a driver of nothing that knows what a log has promised it so far."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Decided, Event, Failed, Interrupted, Outcome, RolledOut
from agentdescent.history.outputs import OpenOutputs
from agentdescent_adapters.disk import DiskLog, Files, OsFiles
from tests.history.facts import rolled, rollout


class QuickFiles(OsFiles):
    """Nothing survives a crash of the machine; everything else is real."""

    def fsync(self, handle: int) -> None: ...

    def sync_directory(self, path: str) -> None: ...


class ShortFiles(QuickFiles):
    """Takes at most `most` bytes at a time."""

    def __init__(self, most: int) -> None:
        self._most = most

    def write(self, handle: int, data: bytes) -> int:
        return os.write(handle, data[: self._most])


class InterruptedFiles(QuickFiles):
    """Ctrl-C in the midst of the next write, once it took `before` bytes. With 0 the disk just takes none."""

    def __init__(self) -> None:
        self.before: int | None = None

    def write(self, handle: int, data: bytes) -> int:
        if self.before is None:
            return os.write(handle, data)
        if self.before == 0:
            return 0
        os.write(handle, data[: self.before])
        self.before = None
        raise KeyboardInterrupt


class FullFiles(QuickFiles):
    """A disk with `room` bytes left; fsync fails while `fsync_fails`."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.fsync_fails = False
        self.truncate_fails = False

    def write(self, handle: int, data: bytes) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = os.write(handle, data[: self.room])
        self.room -= taken
        return taken

    def fsync(self, handle: int) -> None:
        if self.fsync_fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def truncate(self, handle: int, size: int) -> None:
        if self.truncate_fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.ftruncate(handle, size)


class ReadOnlyFiles(QuickFiles):
    """A file system mounted read-only."""

    def make_directory(self, path: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def open_append(self, path: str) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


Step = Literal["decide", "start", "answer", "admit", "note", "later"]
STEPS: tuple[Step, ...] = ("decide", "start", "answer", "admit", "note", "later")


class Errand:
    """Appends and answers as a driver may: an effect starts after `sync`, an outcome is appended after its answer.

    `check` compares a log that was opened after a crash with everything promised to this one, and goes on with it.
    """

    def __init__(self, path: Path, *, texts: Literal["keep", "digest"], fsync: Literal["always", "interval"]) -> None:
        self.path, self.texts, self.fsync = path, texts, fsync
        self.now = 0.0
        self.events: list[Event] = []
        self.safe = 0
        self.answers: dict[int, tuple[Outcome, str]] = {}
        self._safe_answers: set[int] = set()
        self._started: set[int] = set()
        self._settled = 0.0
        self._nonce = 0
        self.log: DiskLog | None = None

    def create(self, files: Files) -> None:
        self.log = DiskLog.create(self.path, texts=self.texts, fsync=self.fsync, files=files, clock=lambda: self.now)
        self._settled = self.now

    def take(self, step: Step, luck: random.Random) -> None:
        """Do one thing that a driver may do now; nothing when there is none. Raises what the log raises."""
        assert self.log is not None
        due = self._due()
        match step:
            case "decide":
                number = 1 + max((event.command.id for event in self.events if isinstance(event, Decided)), default=-1)
                self._append(rollout(number, luck.randrange(2), purpose=luck.choice(("rollout", "gate"))))
            case "note":
                self._append(Interrupted(luck.choice(("cancelled", "stop_when"))))
            case "later":
                self.now += luck.choice((0.1, 0.6, 1.5))
            case "start":
                self.log.sync()
                if self.fsync == "always" or self.now - self._settled >= 1.0:
                    self._settled = self.now
                    self.safe = len(self.events)
                    self._safe_answers = set(self.answers)
                self._started |= due
            case "answer" if open_ := sorted((self._started & due) - set(self.answers)):
                self._answer(luck.choice(open_), luck)
            case "admit" if arrived := sorted(due & set(self.answers)):
                self._append(self.answers[luck.choice(arrived)][0])

    def check(self, files: Files) -> None:
        """Open what is left. Raises AssertionError when a promise was broken."""
        self.log = DiskLog.open(self.path, fsync=self.fsync, files=files, clock=lambda: self.now)
        left = list(self.log.events())
        assert left == self.events[: len(left)], "a prefix of what was appended"
        assert len(left) >= self.safe, "with everything that was synced"
        decided = {event.command.id for event in left if isinstance(event, Decided)}
        recalled = self.log.recall(range(1000))
        assert set(recalled) <= decided & set(self.answers), "no answer to a decision that was lost"
        assert self._safe_answers & decided <= set(recalled), "every answer that was synced"
        assert {event.id for event in left if isinstance(event, (RolledOut, Failed))} <= set(recalled)
        legible = self._legible(left)
        for command, (outcome, text) in recalled.items():
            assert outcome == self.answers[command][0]
            assert text == (self.answers[command][1] if command in legible else "")
        self.events, self.safe = left, len(left)
        self.answers = {command: self.answers[command] for command in recalled}
        self._safe_answers, self._started = set(recalled), set()
        self._settled = self.now

    def _append(self, event: Event) -> None:
        assert self.log is not None
        self.events.append(event)
        self.log.append(event)

    def _answer(self, command: int, luck: random.Random) -> None:
        assert self.log is not None
        self._nonce += 1
        text = f"北京 {self._nonce}" * luck.choice((0, 1, 9_000))
        failed = luck.random() < 0.2
        answer: tuple[Outcome, str] = (
            (Failed(command, "provider", str(self._nonce)), "") if failed else (rolled(command, text), text)
        )
        self.answers[command] = answer
        self.log.answered(*answer, 0.5)

    def _due(self) -> set[int]:
        due: set[int] = set()
        for event in self.events:
            if isinstance(event, Decided):
                due.add(event.command.id)
            elif isinstance(event, (RolledOut, Failed)):
                due.discard(event.id)
        return due

    def _legible(self, events: Collection[Event]) -> set[int]:
        """The commands whose output the log must still have."""
        if self.texts == "keep":
            return set(self.answers)
        outputs = OpenOutputs()
        for event in events:
            outputs.observe(event)
        return {
            event.command.id
            for event in events
            if isinstance(event, Decided) and isinstance(event.command, Rollout) and event.command.id in outputs
        }
