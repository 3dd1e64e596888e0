"""A Dask cluster: other machines, or more processes than one machine should have.

Dask performs a task again when its worker dies, and loses every task with its scheduler. Effects that are charged are
claimed on the scheduler before they are performed, by a lock that nobody releases while the run lasts: whoever comes
second finds it taken. A lost connection is told at once, and the run is resumed from its log.

Effects are sent, and results fetched, as many together as there are. `Client.get_executor` would send and fetch each by
itself, which costs more than twice the time of the scheduler and of this process.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from agentdescent.effects import failure
from agentdescent.engine.command import Command
from agentdescent.engine.event import Failed
from agentdescent.errors import ExecutorLost, UsageError
from agentdescent.ports import Item, Repeat
from agentdescent_adapters.executors.batches import drain, gathered
from agentdescent_adapters.executors.remote import Claimed, fault_of, perform_freely, perform_once
from agentdescent_adapters.executors.sending import Done, Perform, Told, pack_callable, pack_item, unpack

_LOST = "the scheduler was lost, and with it what was in flight"

MISSING = "the executor dask needs the package distributed: pip install 'agentdescent[dask]'"

RETRIES = 2
"""Of a free effect whose task raised. What the death of its worker comes to is for the scheduler to say."""

SLOW = 1.0
"""Seconds after which results that were asked for should be there."""

_AT_ONCE = 64
"""Claims given back together."""

_FAREWELL = 0.5
"""Seconds: distributed goes on trying to connect while it closes."""


class _Open(NamedTuple):
    command: Command
    data: bytes
    done: Done


class Dask:
    """An Executor of a cluster: the address of its scheduler, or a Client, which is left open.

    `patience`: seconds after which a scheduler that does not answer counts as lost; one whose connection broke is lost
    at once. A cluster without workers is waited for as long when the run begins. Raises UsageError when distributed is
    not installed.
    """

    def __init__(self, address_or_client: Any, *, patience: float = 5.0) -> None:
        try:
            self._distributed: Any = import_module("distributed")
        except ImportError as error:
            raise UsageError(MISSING) from error
        self._cluster = address_or_client
        self._patience = patience
        self._client: Any = None
        self._payload: Any = None
        self._repeat: Repeat = "charged"
        self._run = uuid.uuid4().hex[:12]
        self._count = 0
        self._names = itertools.count()
        self._open: dict[int, _Open] = {}
        self._futures: dict[int, Any] = {}
        self._holders: list[str] = []
        self._to_send: queue.SimpleQueue[tuple[int, str, bytes] | None] = queue.SimpleQueue()
        self._to_fetch: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._lost: ExecutorLost | None = None
        self._closed = threading.Event()

    def open(self, perform: Perform, repeat: Repeat) -> None:
        # cloudpickle, unlike pickle, sends what was defined in __main__ by value: no worker could import it.
        payload = pack_callable(perform, import_module("cloudpickle").dumps)
        self._repeat = repeat
        self._client = self._connected()
        self._look_at_workers(payload)
        # As a task, not scattered: data without a task is lost with the last worker that holds it.
        with import_module("dask").config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            self._payload = self._client.submit(bytes, payload, pure=False)
        for work in (self._send, self._fetch, self._watch):
            threading.Thread(
                target=work, args=(self._client,), name=f"agentdescent{work.__name__}", daemon=True
            ).start()

    def submit(self, item: Item, done: Done) -> None:
        data = pack_item(item)
        if isinstance(data, Failed):
            done((data, ""))
            return
        with self._lock:
            number, self._count = self._count, self._count + 1
            lost = self._lost
            if lost is None:
                self._open[number] = _Open(item.command, data, done)
        if lost is not None:
            done(lost)
            return
        self._enqueue(number, item.command, data)

    def close(self) -> None:
        """Takes at most `patience` for the goodbyes, and where the scheduler was lost hardly any time."""
        with self._lock:
            self._closed.set()
            self._open.clear()
        self._to_send.put(None)
        self._to_fetch.put(None)
        client, self._client = self._client, None
        if client is not None:
            _start(self._leave, client).join(self._patience if self._lost is None else _FAREWELL)

    def _enqueue(self, number: int, command: Command, data: bytes) -> None:
        name = f"agentdescent-{self._run}-{command.id}-{next(self._names)}"
        self._to_send.put((number, name, data))

    # --- there and back -----------------------------------------------------------------------------------------------

    def _send(self, client: Any) -> None:
        while (several := drain(self._to_send)) is not None:
            numbers, names, items = zip(*several, strict=True)
            arguments, free = ([self._payload] * len(items), items, names), self._repeat == "free"
            perform: Callable[..., Any] = perform_freely if free else perform_once
            retries = RETRIES if free else 0
            try:
                futures = client.map(perform, *arguments, key=list(names), pure=False, retries=retries)
                with self._lock:
                    closed = self._closed.is_set()
                    self._futures.update(zip(numbers, futures, strict=True))
                if closed:  # `close` did not know of these
                    client.cancel(futures)
                    return
            except Exception as error:  # of a client that was closed
                self._lose(f"the cluster takes no more work ({type(error).__name__}: {error})")
                return
            for number, future in zip(numbers, futures, strict=True):
                future.add_done_callback(partial(self._ended, number))

    def _ended(self, number: int, future: Any) -> None:
        """In the thread that Dask has for it. Nobody but the cluster cancels what is in flight."""
        if future.status == "cancelled":
            self._lose(_LOST)
        else:
            self._to_fetch.put(number)

    def _fetch(self, client: Any) -> None:
        while (numbers := drain(self._to_fetch)) is not None:
            with self._lock:
                futures = {number: self._futures.pop(number) for number in numbers if number in self._futures}
            with suppress(RuntimeError):  # the loop of a client that was closed
                asyncio.run_coroutine_threadsafe(self._gather(client, futures), client.loop.asyncio_loop)

    async def _gather(self, client: Any, futures: dict[int, Any]) -> None:
        """What several came to; of those that take long each by itself. A scheduler asks a worker that has just died
        for its results for half a minute, and for all that were asked for together: meanwhile what is free is made
        again, and what is charged is waited for."""
        task = asyncio.ensure_future(gathered(client, futures))
        await asyncio.wait({task}, timeout=SLOW)
        if not task.done() and len(futures) > 1:
            await asyncio.gather(*(self._gather(client, {number: future}) for number, future in futures.items()))
            return
        again = not task.done() and self._repeat == "free"
        for number in futures:
            found = self._open.get(number)
            if again and found is not None:
                self._enqueue(number, found.command, found.data)
        values = await task
        for number in futures:
            value = values.get(number)
            if value is not None or not again:
                self._tell(number, value)

    def _tell(self, number: int, value: Any) -> None:
        if value is None:
            self._lose(_LOST)
            return
        with self._lock:
            found = self._open.pop(number, None)
        if found is not None:
            found.done(self._told(found.command, value))

    def _told(self, command: Command, value: Any) -> Told:
        if isinstance(value, Claimed):
            if value.data is None:
                return Failed(command.id, "provider", "the worker that performed it died"), ""
            self._holders.append(value.holder)
            return unpack(value.data, command)
        if isinstance(value, self._distributed.KilledWorker):
            return Failed(command.id, "provider", "every worker that performed it died"), ""
        return (failure(command, value), "") if isinstance(value, Exception) else unpack(value, command)

    # --- the cluster --------------------------------------------------------------------------------------------------

    def _connected(self) -> Any:
        if not isinstance(self._cluster, str):
            if getattr(self._cluster, "asynchronous", True):
                raise UsageError("give Dask the address of a scheduler, or a Client that is not asynchronous")
            return self._cluster
        try:
            return self._distributed.Client(self._cluster, set_as_default=False, timeout=self._patience)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"no Dask scheduler answers at {self._cluster} ({error}): start one with `dask scheduler`"
            ) from error

    def _look_at_workers(self, payload: bytes) -> None:
        """Raises UsageError when there are none, or one cannot import what it is sent."""
        try:
            self._client.wait_for_workers(1, timeout=self._patience)
        except TimeoutError as error:
            raise UsageError("the Dask cluster has no workers: start some with `dask worker ADDRESS`") from error
        for address, fault in self._client.run(fault_of, payload, on_error="return").items():
            if fault:
                raise UsageError(
                    f"the worker {address} cannot load what it is sent ({fault}): agentdescent and the modules of the "
                    "agent and the reward must be importable there"
                )

    def _watch(self, client: Any) -> None:
        """A connection that broke is seen in the status of the client, and nowhere else by what waits for an answer. A
        scheduler that hangs keeps its connection: it is asked for something now and then."""
        probe, asked = None, 0.0
        while not self._closed.wait(self._patience / 20):
            try:
                if probe is None or (probe.done() and probe.result() is not None):
                    probe = asyncio.run_coroutine_threadsafe(client.scheduler.ncores(), client.loop.asyncio_loop)
                    asked = time.monotonic()
                alive = client.status == "running" and time.monotonic() - asked < self._patience
            except Exception:  # a connection that closed, a client that somebody closed
                alive = False
            if not alive:
                self._lose("the scheduler does not answer any more")
                break
        if probe is not None:
            probe.cancel()

    def _lose(self, message: str) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            self._lost = self._lost or ExecutorLost(message)
            lost, open_ = self._lost, tuple(self._open.values())
            self._open.clear()
        for found in open_:
            found.done(lost)

    def _leave(self, client: Any) -> None:
        """Each step whatever became of the one before."""
        with self._lock:
            futures = list(self._futures.values())
        with suppress(Exception):
            client.cancel(futures)
        if self._lost is None and self._holders:
            with suppress(Exception):
                client.sync(self._release, client.scheduler, callback_timeout=self._patience / 2)
        self._futures.clear()
        self._payload = None
        if client is not self._cluster:
            with suppress(Exception):
                client.close(timeout=self._patience)

    async def _release(self, scheduler: Any) -> None:
        """Forget the claims to what was answered; one whose attempt may still be at work stays."""
        for first in range(0, len(self._holders), _AT_ONCE):
            holders = self._holders[first : first + _AT_ONCE]
            await asyncio.gather(*(scheduler.multi_lock_release(id=holder) for holder in holders))


def _start(work: Callable[[Any], None], client: Any) -> threading.Thread:
    thread = threading.Thread(target=work, args=(client,), name=f"agentdescent-dask{work.__name__}", daemon=True)
    thread.start()
    return thread
