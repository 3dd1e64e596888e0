"""Files that are always whole: whoever reads one sees all of the old bytes or all of the new."""

from __future__ import annotations

import contextlib
import os
import threading

from agentdescent_adapters.disk.files import Files, OsFiles, write_all


def write_atomic(
    path: str | os.PathLike[str], data: bytes, *, durable: bool = False, files: Files | None = None
) -> None:
    """Put `data` at `path`, private to the user, by way of a file beside it. Raises OSError, leaving the old bytes.

    `durable`: return only once it also survives a crash of the machine. Writers in several threads and processes
    may race; the last one wins.
    """
    files = OsFiles() if files is None else files
    target = os.path.abspath(path)
    directory, name = os.path.split(target)
    beside = os.path.join(directory, f".{name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        handle = files.open_new(beside)
        try:
            write_all(files, handle, data)
            if durable:
                files.fsync(handle)
        finally:
            files.close(handle)
        files.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            files.remove(beside)
        raise
    if durable:
        files.sync_directory(directory)
