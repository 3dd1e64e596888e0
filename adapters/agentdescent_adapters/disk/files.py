"""The calls through which a log touches the disk: one small layer, so that a test can have one that fails."""

from __future__ import annotations

import os
from typing import Protocol

from agentdescent_adapters.disk.lock import lock_file, unlock_file

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


class Files(Protocol):
    """Every method raises OSError as the operating system gives it. Reading does not go through here."""

    def make_directory(self, path: str) -> None:
        """Create it and its parents; it survives a crash. It is private to the user, also one that exists."""

    def sync_directory(self, path: str) -> None:
        """Return once the names in it (created, replaced, removed) survive a crash."""

    def lock(self, path: str) -> int:
        """A handle that holds the file exclusively until it is closed; BlockingIOError when another does."""

    def open_append(self, path: str) -> int:
        """A handle to write at the end; the file is created when absent, private to the user."""

    def open_new(self, path: str) -> int:
        """A handle to an empty file, private to the user; what was in it is gone."""

    def write(self, handle: int, data: bytes) -> int:
        """Hand bytes to the operating system; how many it took, which may be fewer."""

    def fsync(self, handle: int) -> None:
        """Return once everything written survives a crash of the machine."""

    def truncate(self, handle: int, size: int) -> None: ...

    def close(self, handle: int) -> None: ...

    def replace(self, source: str, target: str) -> None:
        """Rename atomically over whatever is there."""

    def remove(self, path: str) -> None: ...


class OsFiles:
    """The real ones."""

    def make_directory(self, path: str) -> None:
        parent = os.path.dirname(path)
        if not os.path.isdir(path):
            os.makedirs(parent, exist_ok=True)
            os.mkdir(path, PRIVATE_DIRECTORY)
            self.sync_directory(parent)
        else:
            os.chmod(path, PRIVATE_DIRECTORY)

    def sync_directory(self, path: str) -> None:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def lock(self, path: str) -> int:
        return lock_file(path, PRIVATE_FILE)

    def open_append(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)

    def open_new(self, path: str) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)

    def write(self, handle: int, data: bytes) -> int:
        return os.write(handle, data)

    def fsync(self, handle: int) -> None:
        os.fsync(handle)

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def close(self, handle: int) -> None:
        unlock_file(handle)
        os.close(handle)

    def replace(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.remove(path)


def write_all(files: Files, handle: int, data: bytes) -> None:
    """Write until the operating system took every byte. After an OSError some may have been written."""
    taken = files.write(handle, data)
    while taken < len(data):
        more = files.write(handle, data[taken:])
        if more == 0:
            raise OSError("the operating system takes no more bytes")
        taken += more
