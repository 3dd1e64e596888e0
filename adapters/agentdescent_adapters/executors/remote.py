"""What runs on a Dask worker: load what was sent, claim what may be performed only once, perform."""

from __future__ import annotations

import pickle
import threading
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from agentdescent_adapters.executors.sending import Perform, answer

_LOCK = threading.Lock()


class Claimed(NamedTuple):
    """Who holds the claim to an effect, and what came of it; nothing when another attempt was there before."""

    holder: str
    data: bytes | None


@lru_cache(maxsize=4)
def _loaded(payload: bytes) -> Perform:
    perform: Perform = pickle.loads(payload)
    return perform


def load(payload: bytes) -> Perform:
    """The callable, one for all threads of this process. Raises what importing its modules raises."""
    with _LOCK:
        return _loaded(payload)


def fault_of(payload: bytes) -> str:
    """Why this worker cannot perform anything; "" when it can."""
    try:
        load(payload)
    except BaseException as error:  # loading imports code we do not know
        return f"{type(error).__name__}: {error}"
    return ""


def perform_freely(payload: bytes, item: bytes, name: str) -> bytes:
    """Perform it, as often as Dask likes."""
    return answer(load(payload), item)


def perform_once(payload: bytes, item: bytes, claim: str) -> Claimed:
    """Perform it unless an attempt that bears this claim has begun to, whatever became of that.

    distributed's Lock and Semaphore would not do: they lapse when their holder dies. MultiLock does not, and taking it
    is one step on the scheduler, so that of two workers of which each believes the other dead one performs.
    """
    perform = load(payload)
    lock: Any = import_module("distributed").MultiLock([claim], client=_client())
    if not lock.acquire(blocking=False):
        return Claimed("", None)
    return Claimed(lock.id, answer(perform, item))


def _client() -> Any:
    """The client of this worker, made once: distributed would make one for each thread that asks at the same time."""
    with _LOCK:
        return import_module("distributed").get_client()
