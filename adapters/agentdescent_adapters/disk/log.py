"""A log on disk: two files of lines, one writer, answers before events."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Literal, Self, TypeAlias

from agentdescent.engine.event import Event, Outcome
from agentdescent.errors import UsageError
from agentdescent.history.log import encode, read
from agentdescent_adapters.disk.answers import encode_entry, read_entries
from agentdescent_adapters.disk.events import require_run
from agentdescent_adapters.disk.files import Files, OsFiles, write_all
from agentdescent_adapters.disk.layout import ANSWERS, EVENTS, LOCK, PENDING, TEXTS, TIMINGS, has_bytes
from agentdescent_adapters.disk.lines import LineFile, whole_end, whole_lines
from agentdescent_adapters.disk.lock import acquire
from agentdescent_adapters.disk.recovery import examine
from agentdescent_adapters.disk.texts import Texts, TextStore

Fsync: TypeAlias = Literal["always", "interval"]
Clock: TypeAlias = Callable[[], float]
_INTERVAL = 1.0
_PROBE = 65_536


class DiskLog:
    """Satisfies `ports.Log`. Made by `create` and `open`; one thread; a context manager that closes.

    `fsync`: "always" makes `sync` mean what the port says. "interval" hands everything to the operating system at
    every `sync`, which survives the death of the process, and fsyncs once a second and on close: after a crash of
    the machine up to a second of work is done again, which is right only where an unanswered call is free.

    After an OSError nothing half-written is taken for truth; go on by opening the run again.
    """

    def __init__(self, root: str, files: Files, lock: int, fsync: Fsync, clock: Clock) -> None:
        """For `create` and `open`, which hold the lock. Raises OSError, CorruptLog; then nothing stays open."""
        whole = examine(files, root)
        blanking = os.path.isdir(os.path.join(root, PENDING))
        if not blanking:
            files.make_directory(os.path.join(root, TEXTS))
        timings = os.path.join(root, TIMINGS)
        self.dropped = whole.dropped
        """What a crash had left unfinished and opening has removed, in words."""
        self._root, self._files, self._lock = root, files, lock
        self._digest = whole.digest
        self._always, self._clock = fsync == "always", clock
        self._closed = False
        self._texts = TextStore(files, root, whole.outputs if blanking else None)
        with ExitStack() as undo:
            self._answers = LineFile(files, os.path.join(root, ANSWERS), whole.answers.size, whole.answers.count)
            undo.callback(self._answers.close)
            self._events = LineFile(files, os.path.join(root, EVENTS), whole.events.size, whole.events.count)
            undo.callback(self._events.close)
            self._timings = LineFile(files, timings, whole_end(timings) if os.path.exists(timings) else 0)
            undo.callback(self._timings.close)
            self._settle()
            files.sync_directory(root)
            self._texts.blank_strays()
            undo.pop_all()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        texts: Texts = "keep",
        fsync: Fsync = "always",
        files: Files | None = None,
        clock: Clock = time.monotonic,
    ) -> Self:
        """A new run in a directory that is made when absent, private to the user.

        `texts="digest"`: outputs are not kept. The output of a worker's rollout lies in `pending/` until the
        proposal that reads it is answered and synced, or the worker goes on without one; every other output is
        never written. A run that ends keeps at most one a worker, because it may be resumed. What is in the events
        stays: the artifact, the ops of proposals, messages of failures. The directory remembers the choice.

        Raises UsageError, before anything is spent, when the directory holds a run, is being written, or cannot
        be written to (64 KiB are tried).
        """
        root, files = os.path.abspath(path), OsFiles() if files is None else files
        with _refusing(f"cannot start a run in {root}"), ExitStack() as undo:
            _refuse_foreign(root)
            files.make_directory(root)
            lock = acquire(files, os.path.join(root, LOCK), root)
            undo.callback(files.close, lock)
            if has_bytes(os.path.join(root, EVENTS)) or has_bytes(os.path.join(root, ANSWERS)):
                raise UsageError(f"{root} already holds a run: resume it, or name another directory")
            TextStore.prepare(files, root, texts)
            for name in (EVENTS, ANSWERS):
                LineFile(files, os.path.join(root, name)).close()
            _try_out(files, os.path.join(root, TIMINGS))
            log = cls(root, files, lock, fsync, clock)
            undo.pop_all()
        return log

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        fsync: Fsync = "always",
        files: Files | None = None,
        clock: Clock = time.monotonic,
    ) -> Self:
        """The run in a directory, to go on with. What a crash left unfinished is removed; see `dropped`.

        Raises UsageError when there is no run, it is being written, or it cannot be written to; CorruptLog when it
        is damaged anywhere but at its end.
        """
        root, files = os.path.abspath(path), OsFiles() if files is None else files
        require_run(root)
        with _refusing(f"cannot go on with the run in {root}"), ExitStack() as undo:
            lock = acquire(files, os.path.join(root, LOCK), root)
            undo.callback(files.close, lock)
            log = cls(root, files, lock, fsync, clock)
            undo.pop_all()
        return log

    def events(self) -> Iterable[Event]:
        """Everything recorded, oldest first, streaming from the disk."""
        written = whole_lines(os.path.join(self._root, EVENTS), self._events.size)
        return (event for event, _ in read(itertools.chain(written, self._events.waiting)))

    def recall(self, ids: Collection[int]) -> Mapping[int, tuple[Outcome, str]]:
        """One pass over the journal. The first answer to a command wins. A blanked output is ""."""
        wanted, found = set(ids), dict[int, tuple[Outcome, str]]()
        entries = read_entries(whole_lines(os.path.join(self._root, ANSWERS), self._answers.size))
        for line, entry in enumerate(entries if wanted else (), start=1):
            if entry.outcome.id in wanted:
                wanted.discard(entry.outcome.id)
                found[entry.outcome.id] = entry.outcome, self._texts.fetch(entry, line)
                if not wanted:
                    break
        return found

    def append(self, event: Event) -> None:
        """Add a fact, in memory until `sync`."""
        line, digest = encode(self._events.count, self._digest, event)
        self._events.add(line)
        self._digest = digest
        self._texts.observe(event)

    def answered(self, outcome: Outcome, output: str, seconds: float, refused: int = 0) -> None:
        """Hand an answer to the operating system. Raises OSError."""
        self._answers.add(encode_entry(self._answers.count, self._texts.place(outcome, output)))
        self._answers.flush()
        turned_away = b',"refused":%d' % refused if refused else b""
        self._timings.add(b'{"id":%d,"seconds":%.6f%b}\n' % (outcome.id, seconds, turned_away))

    def sync(self) -> None:
        """See `fsync`. Raises OSError; what could not be written is tried again by the next `sync`."""
        if self._always or self._clock() - self._synced >= _INTERVAL:
            self._settle()
        else:
            self._answers.flush()
            self._events.flush()

    def close(self) -> None:
        """Sync and let go, once. Raises OSError, unless one was raised before: then it only lets go."""
        if self._closed:
            return
        self._closed = True
        reported = self._answers.failed or self._events.failed or self._timings.failed
        with ExitStack() as last:
            last.callback(self._files.close, self._lock)
            for file in (self._timings, self._events, self._answers):
                last.callback(file.close)
            try:
                self._settle()
            except OSError:
                if not reported:
                    raise

    def _settle(self) -> None:
        """Answers before events: an outcome without its answer would be dropped by the next `open`."""
        self._answers.sync()
        self._events.sync()
        self._texts.blank_closed()
        self._timings.flush()
        self._synced = self._clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def digest(self) -> str:
        return self._digest

    @property
    def path(self) -> str:
        return self._root


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Nothing was spent yet, so a disk that cannot be written to is the caller's to change."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{what}: {error.strerror or error}. Name a directory that can be written to") from error


def _refuse_foreign(root: str) -> None:
    """Raises UsageError when a directory holds files that are no run's: they would be mixed up with it."""
    ours = {EVENTS, ANSWERS, TIMINGS, LOCK, TEXTS, PENDING}
    foreign = sorted(set(os.listdir(root)) - ours) if os.path.isdir(root) else []
    if foreign and not os.path.exists(os.path.join(root, EVENTS)):
        raise UsageError(f"{root} is not empty (it holds {foreign[0]}): name a directory that is empty or not there")


def _try_out(files: Files, path: str) -> None:
    """Find out now whether the disk takes bytes: creating an empty file succeeds on a full one."""
    handle = files.open_new(path)
    try:
        write_all(files, handle, bytes(_PROBE))
        files.fsync(handle)
        files.truncate(handle, 0)
    finally:
        files.close(handle)
