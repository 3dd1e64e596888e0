"""Responses that are kept on disk, one file each: parsed before they are kept, whole or not there.

A file begins with the digest of what follows and the address it came from. One that is cut off, changed or of another
format is as good as none: the response is fetched again and takes its place. Nothing expires.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from agentdescent.errors import RunError, UsageError
from agentdescent_adapters.disk.atomic import write_atomic

VARIABLE = "AGENTDESCENT_CACHE"
_FORMAT = b"agentdescent-response-1"
_T = TypeVar("_T")


def kept(url: str, get: Callable[[], bytes], read: Callable[[bytes], _T], directory: Path | None) -> _T:
    """What `read` makes of the response at `url`, kept in `directory` or else what `get` returns, which then is kept.

    With `directory` None nothing is read from disk and nothing written. `read` raises RunError for what is no response:
    that is never kept. Raises UsageError when the directory cannot be written to.
    """
    if directory is None:
        return read(get())
    path = directory / f"{hashlib.sha256(url.encode()).hexdigest()}.response"
    body = _stored(path, url)
    if body is not None:
        try:
            return read(body)
        except RunError:
            pass  # as for a damaged one: fetched again
    _make(directory)
    body = get()
    value = read(body)
    _store(path, url, body)
    return value


def response_directory(cache: bool, directory: str | Path | None) -> Path | None:
    """Where responses are kept: None without `cache`; as asked, else under $AGENTDESCENT_CACHE, else by convention."""
    if not cache:
        return None
    if directory is not None:
        return Path(directory)
    chosen = os.environ.get(VARIABLE)
    return (Path(chosen) if chosen else cache_directory(sys.platform, os.environ, Path.home())) / "responses"


def cache_directory(platform: str, environment: Mapping[str, str], home: Path) -> Path:
    """Where programs keep what they can fetch again, by the convention of the platform (`sys.platform`)."""
    if platform == "win32":
        local = environment.get("LOCALAPPDATA")
        return (Path(local) if local else home / "AppData" / "Local") / "agentdescent" / "Cache"
    if platform == "darwin":
        return home / "Library" / "Caches" / "agentdescent"
    chosen = environment.get("XDG_CACHE_HOME", "")  # to be ignored unless absolute, says its specification
    return (Path(chosen) if os.path.isabs(chosen) else home / ".cache") / "agentdescent"


def _stored(path: Path, url: str) -> bytes | None:
    try:
        head, _, body = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return body if head == _head(url, body) else None


def _head(url: str, body: bytes) -> bytes:
    return b" ".join((_FORMAT, hashlib.sha256(body).hexdigest().encode(), url.encode()))


def _make(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(directory, error) from error


def _store(path: Path, url: str, body: bytes) -> None:
    try:
        write_atomic(path, _head(url, body) + b"\n" + body)
    except OSError as error:
        raise _unwritable(path.parent, error) from error


def _unwritable(directory: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{directory}: responses cannot be kept there ({error.strerror}): "
        f"name another directory, set {VARIABLE}, or pass cache=False"
    )
