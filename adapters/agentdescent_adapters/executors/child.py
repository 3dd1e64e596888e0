"""One worker process and the pipe to it: bytes of an item there, bytes of a result back."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from multiprocessing.connection import Connection, wait
from typing import Any, TypeAlias

from agentdescent.errors import UsageError
from agentdescent_adapters.executors.sending import Perform, answer

Pipe: TypeAlias = "Connection[Any, Any]"

_SPAWN = multiprocessing.get_context("spawn")  # not fork: this process has threads
_HAVE_IT = b"have it"

_DYING, _GONE = 1.0, 5.0
"""Seconds from the end of its pipe, and from being killed, to the end of a process."""


class Child:
    """EOFError or OSError from any method: it died. TimeoutError: it did not answer in time, and has to be ended."""

    def __init__(self, payload: bytes) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(theirs,), name="agentdescent", daemon=True)
        self._payload = payload
        self._lock = threading.Lock()
        self._ended = False
        try:
            self._process.start()
        except BaseException:
            self._pipe.close()
            raise
        finally:
            theirs.close()

    def load(self, seconds: float) -> None:
        """Wait until it can perform. Raises UsageError with what it says when it cannot."""
        self._pipe.send_bytes(self._payload)
        fault = self.receive(seconds).decode()
        if fault:
            raise UsageError(f"another process cannot load what it is sent ({fault}): it must be importable there")

    def send(self, data: bytes, seconds: float) -> None:
        """Returns once it has the item. When this says that it died, nothing was begun: an idle process that is dying
        still takes what is written to its pipe."""
        self._pipe.send_bytes(data)
        self.receive(seconds)

    def receive(self, seconds: float) -> bytes:
        if not self._pipe.poll(seconds):
            raise TimeoutError
        return self._pipe.recv_bytes()

    def kill(self) -> None:
        """From any thread."""
        with self._lock:
            if not self._ended:
                self._process.kill()

    def end(self, *, died: bool = False) -> str:
        """Kill it, unless it `died` of itself, and leave nothing of it; how it ended, in words. Only from the thread
        that feeds it."""
        if died:
            self._process.join(_DYING)
        self._process.kill()
        self._process.join(_GONE)
        self._pipe.close()
        code = self._process.exitcode
        with self._lock:
            self._ended = True
            if code is not None:
                self._process.close()
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _serve(pipe: Pipe) -> None:
    """The life of the process. Ctrl-C is for the run, which settles what is open; with the run it ends, also when
    that is killed in the midst of a call."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        perform: Perform = pickle.loads(pipe.recv_bytes())
    except BaseException as error:  # loading imports code we do not know
        pipe.send_bytes(f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
        return
    try:
        pipe.send_bytes(b"")
        while True:
            data = pipe.recv_bytes()
            pipe.send_bytes(_HAVE_IT)
            pipe.send_bytes(answer(perform, data))
    except (EOFError, OSError):  # nobody waits for it any more
        return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
