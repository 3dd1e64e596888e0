"""A cache of responses on disk: one SQLite file, private to the user, shared by any number of threads and processes.

A reply is found by everything that the provider was asked: the model and its parameters (its name), system and user
text, schema, ceiling, and the number of the sample. Only answers are kept. A call that failed, a reply without text,
one that was cut off or withheld, and one that is not of its schema are asked for again.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import warnings
import weakref
from collections.abc import Awaitable
from pathlib import Path

import msgspec

from agentdescent.artifact.diff import digest
from agentdescent.budget.usage import Usage
from agentdescent.errors import UsageError
from agentdescent.ports import CallFailed
from agentdescent_adapters.llm.replies import text_of
from agentdescent_adapters.llm.schemas import decoded
from agentdescent_adapters.providers.calling import BlockingModel
from agentdescent_adapters.providers.model import Finish, Model, Reply, Request, Terms

HIT = Usage(calls=0, hits=1)
"""What an answer out of the cache consumed."""

PRIVATE = 0o600
BUSY_SECONDS = 2.0
"""How long a write waits for that of another process; then the reply is not kept."""

_APPLICATION = 0x41_44_52_43
"""What tells the file from any other SQLite file."""
_VERSION = 1


class Kept(msgspec.Struct, frozen=True):
    """A reply as it is kept: without its usage, which is that of a call that is not made again."""

    text: str
    finish: Finish


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Kept)


class Store:
    """The file. Raises UsageError when it cannot be opened or belongs to something else. May be pickled, and be used
    from several threads, and in a child of the process. What goes wrong with it later costs calls, and no run: it is a
    warning."""

    def __init__(self, path: str | Path) -> None:
        self.path = os.path.abspath(path)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._connection = connect(self.path)
        self._inherited: list[sqlite3.Connection] = []
        weakref.finalize(self, _close, self._process, self._connection)

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        return Store, (self.path,)

    def get(self, key: bytes) -> Reply | None:
        """The reply kept under a key; None where there is none that can be read."""
        try:
            with self._lock:
                found = self._own().execute("SELECT digest, reply FROM replies WHERE key = ?", (key,)).fetchone()
        except (sqlite3.Error, UsageError) as error:
            self._warn(error)
            return None
        if found is None or not all(isinstance(part, bytes) for part in found) or _digest(found[1]) != found[0]:
            return None
        try:
            kept = _decoder.decode(found[1])
        except msgspec.DecodeError:
            return None
        return Reply(kept.text, kept.finish, HIT)

    def put(self, key: bytes, reply: Reply) -> None:
        """Keep it, in the place of what is there."""
        data = _encoder.encode(Kept(reply.text.encode("utf-8", "replace").decode(), reply.finish))
        try:
            with self._lock:
                self._own().execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (key, _digest(data), data))
        except (sqlite3.Error, UsageError) as error:
            self._warn(error)

    def _own(self) -> sqlite3.Connection:
        """The connection of this process. One that a fork has copied is neither used nor closed; the lock is held."""
        if self._process != os.getpid():
            self._inherited.append(self._connection)
            self._process, self._connection = os.getpid(), connect(self.path)
        return self._connection

    def _warn(self, error: Exception) -> None:
        warnings.warn(f"{self.path}: a cached reply was not read, or not kept: {error}", RuntimeWarning, stacklevel=3)


class Cached:
    """A model that answers from a store what it has been asked before."""

    def __init__(self, model: Model, store: Store) -> None:
        self.name = model.name
        self.terms: Terms = model.terms
        self.repeat = model.repeat
        self.takes = getattr(model, "takes", None)
        self.count = getattr(model, "count", None)
        self._model = model
        self._store = store

    async def complete(self, request: Request) -> Reply:
        key = key_of(self.name, request)
        return self._store.get(key) or self._keep(key, request, await self._model.complete(request))

    def _keep(self, key: bytes, request: Request, reply: Reply) -> Reply:
        if answers(request, reply):
            self._store.put(key, reply)
        return reply


class BlockingCached(Cached):
    """Of a model whose calls block."""

    def __init__(self, model: BlockingModel, store: Store) -> None:
        super().__init__(model, store)
        self._blocking = model

    def complete_blocking(self, request: Request) -> Reply | Awaitable[Reply]:
        key = key_of(self.name, request)
        found = self._store.get(key)
        if found is not None:
            return found
        reply = self._blocking.complete_blocking(request)
        return self._keep(key, request, reply) if isinstance(reply, Reply) else self._later(key, request, reply)

    async def _later(self, key: bytes, request: Request, reply: Awaitable[Reply]) -> Reply:
        return self._keep(key, request, await reply)


def cached(model: Model, path: str | Path, *, cache: bool = True) -> Model:
    """`model` with a cache of its replies in the file `path`, which is made when absent. What comes out of it costs
    nothing (`Usage.hits`). Its name stays: a run may be resumed with the cache and without. `cache=False` neither reads
    nor writes, and leaves the file alone. Raises UsageError when the file is no cache."""
    if not cache:
        return model
    store = Store(path)
    return BlockingCached(model, store) if isinstance(model, BlockingModel) else Cached(model, store)


def key_of(model: str, request: Request) -> bytes:
    """Of everything that an answer may depend on; what was reserved for it is not among that."""
    asked = (model, request.system, request.user, request.schema, request.ceiling, request.sample)
    return digest(repr(asked).encode("utf-8", "surrogatepass")).encode()


def answers(request: Request, reply: Reply) -> bool:
    """Whether a reply is an answer, to be kept."""
    try:
        text = text_of(reply, partial=False)
        if request.schema is not None:
            decoded(text, request.schema)
    except (CallFailed, ValueError):
        return False
    return True


def _digest(data: bytes) -> bytes:
    return digest(data).encode()


def _close(process: int, connection: sqlite3.Connection) -> None:
    if process == os.getpid():
        connection.close()


def connect(path: str) -> sqlite3.Connection:
    """Open a cache, made when absent. Raises UsageError; a file that is none is left as it is."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE))
        connection = sqlite3.connect(path, BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"{path}: cannot be opened ({error}): check the path of the cache") from error
    connection.text_factory = bytes  # a damaged row is then a row, and no error
    try:
        _prepare(path, connection)
        os.chmod(path, PRIVATE)
        _log_ahead(connection)
    except (OSError, sqlite3.Error) as error:
        connection.close()
        raise UsageError(f"{path}: no cache of responses ({error}): remove it, or name another file") from error
    except UsageError:
        connection.close()
        raise
    return connection


def _prepare(path: str, connection: sqlite3.Connection) -> None:
    """Make the table of an empty file. Raises UsageError when it is another application's."""
    with connection:
        connection.execute("BEGIN")
        if _is_ours(path, connection):
            return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        if not _is_ours(path, connection):  # another process may have been first
            connection.execute("CREATE TABLE replies (key BLOB PRIMARY KEY, digest BLOB, reply BLOB) WITHOUT ROWID")
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")


def _is_ours(path: str, connection: sqlite3.Connection) -> bool:
    """In a transaction. False for an empty file; raises UsageError for another's."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if (application, version) == (_APPLICATION, _VERSION):
        return True
    if application or version or tables:
        raise UsageError(f"{path}: not a cache of responses of this version: remove it, or name another file")
    return False


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Readers then wait for no writer. The one-time conversion does not wait for others by itself."""
    last = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError:
            if time.monotonic() > last:
                raise
            time.sleep(0.005)
    connection.execute("PRAGMA synchronous = NORMAL")
