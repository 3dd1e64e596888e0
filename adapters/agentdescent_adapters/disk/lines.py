"""Files of lines: appended whole or not at all, read up to the last whole line."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator

from agentdescent_adapters.disk.files import Files, write_all

_BLOCK = 65_536


class LineFile:
    """Appends lines. `count`: lines added so far, on disk or waiting. One thread.

    After an OSError of a write nothing of it is in the file, and what was waiting still waits. After a failed
    fsync, or an exception in the midst of a write (a second Ctrl-C), nobody knows what the file holds: it takes
    nothing more, and opening the run again finds out.
    """

    def __init__(self, files: Files, path: str, size: int = 0, count: int = 0) -> None:
        """`size`: bytes to go on after; whatever follows them is cut off."""
        self._files = files
        self._path = path
        self._size = size
        self.count = count
        self._waiting: list[bytes] = []
        self._written_since_sync = True
        self._unknown = False
        self.failed = False
        self._handle = files.open_append(path)
        try:
            files.truncate(self._handle, size)
        except BaseException:
            files.close(self._handle)
            raise

    @property
    def size(self) -> int:
        """Bytes in the file; what is waiting does not count."""
        return self._size

    @property
    def waiting(self) -> tuple[bytes, ...]:
        return tuple(self._waiting)

    def add(self, line: bytes) -> None:
        """Keep a line (with its newline) in memory until `flush`."""
        self._waiting.append(line)
        self.count += 1

    def flush(self) -> None:
        """Hand every waiting line to the operating system, in one write."""
        if not self._waiting:
            return
        self._begin()
        data = b"".join(self._waiting)
        try:
            write_all(self._files, self._handle, data)
        except OSError:
            self._files.truncate(self._handle, self._size)
            self._unknown = False
            raise
        self._size += len(data)
        self._waiting.clear()
        self._written_since_sync = True
        self._end()

    def sync(self) -> None:
        """Flush, and return once every line survives a crash of the machine."""
        self.flush()
        if self._written_since_sync:
            self._begin()
            self._files.fsync(self._handle)
            self._written_since_sync = False
            self._end()

    def close(self) -> None:
        """Let go of the file. What is waiting is lost."""
        self._unknown = True
        self._files.close(self._handle)

    def _begin(self) -> None:
        if self._unknown:
            raise OSError(errno.EIO, "an earlier write did not end; open the run again", self._path)
        self._unknown = True
        self.failed = True

    def _end(self) -> None:
        self._unknown = False
        self.failed = False


def whole_end(path: str) -> int:
    """The offset after the last newline: where a torn tail (cut anywhere, or filled with NULs) begins."""
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _BLOCK)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end = start
    return 0


def follow_lines(path: str, wait: Callable[[], bool]) -> Iterator[bytes]:
    """Every line that is whole, and those that are added later. At the end of what there is, `wait` is called before
    looking again; False ends it. What there is of a last line is read again when more is looked for: a crash may have
    torn it, and whoever goes on writes another in its place."""
    with open(path, "rb") as file:
        end = 0
        while True:
            line = file.readline()
            if line.endswith(b"\n"):
                end += len(line)
                yield line
            elif wait():
                file.seek(end)
            else:
                return


def whole_lines(path: str, end: int | None = None) -> Iterator[bytes]:
    """The lines of the first `end` bytes, with their newlines, one at a time; `end` is that of a whole line.

    Without `end`: all lines that are whole now. A last line without a newline is being written at this moment, or
    was torn, and is left out.
    """
    left = whole_end(path) if end is None else end
    with open(path, "rb") as file:
        while left > 0:
            line = file.readline()
            if not line:
                return
            left -= len(line)
            yield line
