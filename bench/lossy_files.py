"""A file layer that loses what was not synced: a crash of the machine, repeatable, without one."""

from __future__ import annotations

import errno
import itertools
import os
import random

from agentdescent_adapters.disk.files import Files, OsFiles


class _Open:
    def __init__(self, handle: int, path: str) -> None:
        self.handle = handle
        self.path = path


class LossyFiles:
    """Writes through `inner`, and remembers how much of each file was synced.

    `crash` does what a machine may do that loses power: every file keeps its synced bytes and a seeded part of the
    others, sometimes with NULs in their place; names that were created, replaced or removed since their directory was
    synced may be as before. Every handle is dead afterwards, locks included. A truncation counts as synced at once.
    `calls`: power fails after that many; every later call raises OSError and changes nothing.
    """

    def __init__(self, inner: Files | None = None, *, calls: int | None = None) -> None:
        self._inner: Files = OsFiles() if inner is None else inner
        self._numbers = itertools.count(1)
        self._open: dict[int, _Open] = {}
        self._synced: dict[str, int] = {}
        self._before: dict[str, bytes | None] = {}
        self._left = calls
        self.fsyncs = 0
        self.calls = 0

    def make_directory(self, path: str) -> None:
        self._count()
        self._inner.make_directory(path)

    def sync_directory(self, path: str) -> None:
        self._count()
        self._inner.sync_directory(path)
        for name in [name for name in self._before if os.path.dirname(name) == path]:
            del self._before[name]

    def lock(self, path: str) -> int:
        self._count()
        return self._remember(self._inner.lock(path), path)

    def open_append(self, path: str) -> int:
        self._count()
        if not os.path.exists(path):
            self._before.setdefault(path, None)
        handle = self._inner.open_append(path)
        self._synced.setdefault(path, os.path.getsize(path))
        return self._remember(handle, path)

    def open_new(self, path: str) -> int:
        self._count()
        if not os.path.exists(path):
            self._before.setdefault(path, None)
        handle = self._inner.open_new(path)
        self._synced[path] = 0
        return self._remember(handle, path)

    def write(self, handle: int, data: bytes) -> int:
        self._count()
        return self._inner.write(self._known(handle).handle, data)

    def fsync(self, handle: int) -> None:
        self._count()
        file = self._known(handle)
        self._inner.fsync(file.handle)
        self._synced[file.path] = os.path.getsize(file.path)
        self.fsyncs += 1

    def truncate(self, handle: int, size: int) -> None:
        self._count()
        file = self._known(handle)
        self._inner.truncate(file.handle, size)
        self._synced[file.path] = min(size, self._synced.get(file.path, size))

    def close(self, handle: int) -> None:
        self._inner.close(self._known(handle).handle)
        del self._open[handle]

    def replace(self, source: str, target: str) -> None:
        self._count()
        self._before.setdefault(target, _content(target))
        self._inner.replace(source, target)
        self._synced[target] = self._synced.pop(source)
        self._before.pop(source, None)

    def remove(self, path: str) -> None:
        self._count()
        content = _content(path)
        self._inner.remove(path)
        self._before.setdefault(path, content)
        self._synced.pop(path, None)

    def crash(self, seed: int) -> None:
        """Lose power. The same seed after the same calls loses the same bytes."""
        luck = random.Random(seed)
        for file in self._open.values():
            self._inner.close(file.handle)
        self._open.clear()
        for path, synced in sorted(self._synced.items()):
            if os.path.exists(path):
                _cut(path, synced, luck)
        for path, content in sorted(self._before.items()):
            if luck.random() < 0.5:
                _restore(path, content)
        self._synced = {path: os.path.getsize(path) for path in self._synced if os.path.exists(path)}
        self._before.clear()

    def _remember(self, handle: int, path: str) -> int:
        number = next(self._numbers)
        self._open[number] = _Open(handle, path)
        return number

    def _known(self, handle: int) -> _Open:
        if handle not in self._open:
            raise OSError(errno.EIO, "this handle did not outlive the crash")
        return self._open[handle]

    def _count(self) -> None:
        if self._left is not None and self.calls >= self._left:
            raise OSError(errno.EIO, "the power is gone")
        self.calls += 1


def _content(path: str) -> bytes | None:
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def _cut(path: str, synced: int, luck: random.Random) -> None:
    written = os.path.getsize(path)
    kept = luck.randint(synced, written)
    os.truncate(path, kept)
    if luck.random() < 0.5:
        os.truncate(path, luck.randint(kept, written))  # growing a file fills it with NULs


def _restore(path: str, content: bytes | None) -> None:
    if content is not None:
        with open(path, "wb") as file:
            file.write(content)
    elif os.path.exists(path):
        os.remove(path)
