"""One writer a run: an exclusive lock that dies with its process, and says which process holds it. POSIX only."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from agentdescent.errors import UsageError

if TYPE_CHECKING:
    from agentdescent_adapters.disk.files import Files

_held: set[int] = set()


def lock_file(path: str, mode: int) -> int:
    """A descriptor that holds `path` until `unlock_file` and close. BlockingIOError when another holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, mode)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    _held.add(handle)
    return handle


def unlock_file(handle: int) -> None:
    """Forget that this descriptor, about to be closed, was a lock."""
    _held.discard(handle)


def _let_go_in_child() -> None:
    """A flock is shared with forked children: a worker process that outlives a killed run would keep it locked.

    Closing the child's copy leaves the parent's lock in place. A POSIX record lock is not inherited, but is lost
    as soon as the process closes any descriptor of the file, and does not keep out a second opener in one process.
    """
    for handle in _held:
        with contextlib.suppress(OSError):
            os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_child)


def acquire(files: Files, path: str, directory: str) -> int:
    """Lock `path` for the run in `directory` and write our process id into it.

    Raises UsageError at once when another process, or another log in this one, holds it.
    """
    try:
        handle = files.lock(path)
    except BlockingIOError as error:
        holder = _holder(path)
        by = f"process {holder}" if holder else "another process"
        raise UsageError(
            f"{directory} is being written by {by}: one run directory has one writer. Wait for it, stop it, or use "
            "another directory"
        ) from error
    try:
        files.truncate(handle, 0)
        files.write(handle, b"%d\n" % os.getpid())
    except BaseException:
        files.close(handle)
        raise
    return handle


def is_held(path: str) -> bool:
    """Whether a process holds it at this moment. To find out that none does, it is held for an instant."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _holder(path: str) -> str:
    """The process id in a lock file; empty when there is none (its holder is about to write it)."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        text = file.read(32).strip()
        if text.isdigit():
            return text.decode("ascii")
    return ""
