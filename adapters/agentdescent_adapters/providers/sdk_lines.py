"""Calls through a client of the user's own, sync or async: its retries off, its exceptions by their kind.

The packages of the clients are not imported here: an exception is known by its name, and by what it carries.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol, TypeVar, cast

import msgspec

from agentdescent.ports import CallFailed
from agentdescent_adapters.providers.failures import (
    UNBILLED,
    Place,
    TurnedAway,
    dropped,
    late,
    malformed,
    refusal,
    unconnected,
    unreachable,
)
from agentdescent_adapters.providers.waiting import Reach

T = TypeVar("T")

_KEYWORDS = ("model", "messages", "max_tokens", "stream")
"""What every version takes by name; the rest goes into the body as it is."""


class _Answered(Protocol):
    headers: Mapping[str, str]
    content: bytes


class _Whole(Protocol):
    http_response: _Answered


class _Pieces(Protocol):
    def iter_bytes(self) -> Iterator[bytes]: ...


class _AsyncPieces(Protocol):
    def iter_bytes(self) -> AsyncIterator[bytes]: ...


class _Raw(Protocol):
    def create(self, **body: object) -> _Whole: ...


class _AsyncRaw(Protocol):
    async def create(self, **body: object) -> _Whole: ...


class _Streaming(Protocol):
    def create(self, **body: object) -> AbstractContextManager[_Pieces]: ...


class _AsyncStreaming(Protocol):
    def create(self, **body: object) -> AbstractAsyncContextManager[_AsyncPieces]: ...


class Resource(Protocol):
    """What is used of `chat.completions` and of `messages`."""

    with_raw_response: _Raw
    with_streaming_response: _Streaming


class AsyncResource(Protocol):
    with_raw_response: _AsyncRaw
    with_streaming_response: _AsyncStreaming


class _Failing(Protocol):
    status_code: int
    response: _Answered


class Failures:
    """Tells what an exception of a client means."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.reach = Reach()

    def of(self, error: Exception) -> CallFailed | TurnedAway:
        place, reason = self._place, f"{type(error).__name__}: {error}"
        names = {kind.__name__ for kind in type(error).__mro__}
        if "APIStatusError" in names:
            return self._status(cast("_Failing", error), reason)
        cause = error.__cause__
        if cause is not None and "APIConnectionError" in names:
            names |= {kind.__name__ for kind in type(cause).__mro__}
            reason = f"{type(cause).__name__}: {cause}"
        if names & {"ConnectError", "ConnectTimeout", "ProxyError"}:
            return unreachable(place, reason) if self.reach.missed() else unconnected(place, reason)
        if names & {"APITimeoutError", "TimeoutException", "TimeoutError"}:
            return late(place, reason)
        if names & {"APIConnectionError", "TransportError"}:
            return dropped(place, reason)
        if isinstance(error, json.JSONDecodeError) or "APIResponseValidationError" in names:
            return malformed(reason)
        if isinstance(error, RuntimeError) and "loop" in str(error):
            remedy = "an asynchronous client belongs to one event loop: use it with async_evolve, or a synchronous one"
            return CallFailed("contract", f"{reason} ({remedy})", UNBILLED)
        if isinstance(error, TypeError | ValueError):
            return CallFailed("contract", f"the client refused the call: {reason}", UNBILLED)
        return CallFailed("provider", reason)

    def _status(self, error: _Failing, reason: str) -> CallFailed | TurnedAway:
        self.reach.answered()
        if error.status_code < 300:  # an error in a stream that began with success
            return CallFailed("provider", reason)
        response = error.response
        headers = {name.lower(): value for name, value in response.headers.items()}
        return refusal(error.status_code, headers, response.content, self._place)


def _arguments(body: bytes) -> dict[str, object]:
    fields = msgspec.json.decode(body, type=dict[str, object])
    named = {name: fields.pop(name) for name in _KEYWORDS if name in fields}
    return {**named, "extra_body": fields}


class AsyncLine:
    def __init__(self, resource: AsyncResource, failures: Failures, total: float) -> None:
        self._resource = resource
        self._failures = failures
        self._total = total

    async def post(self, body: bytes) -> bytes:
        try:
            async with asyncio.timeout(self._total):
                answer = await self._resource.with_raw_response.create(**_arguments(body))
        except Exception as error:  # a client is code we do not know: whatever it raises is a fact about this call
            raise self._failures.of(error) from error
        self._failures.reach.answered()
        return answer.http_response.content

    async def stream(self, body: bytes, feed: Callable[[bytes], None]) -> bytes | None:
        try:
            async with (
                asyncio.timeout(self._total),
                self._resource.with_streaming_response.create(**_arguments(body)) as response,
            ):
                self._failures.reach.answered()
                async for piece in response.iter_bytes():
                    feed(piece)
        except CallFailed:
            raise
        except Exception as error:  # as above
            raise self._failures.of(error) from error
        return None


class ThreadLine:
    """Of a synchronous client: every call has a thread, in which it also ends when nobody waits for it any more: a
    daemon, since a pool's would hold up the end of the process until a silent server gives in."""

    def __init__(self, resource: Resource, failures: Failures, total: float) -> None:
        self._resource = resource
        self._failures = failures
        self._total = total

    async def post(self, body: bytes) -> bytes:
        answer = await self._run(lambda: self._resource.with_raw_response.create(**_arguments(body)))
        return answer.http_response.content

    async def stream(self, body: bytes, feed: Callable[[bytes], None]) -> bytes | None:
        def work() -> None:
            with self._resource.with_streaming_response.create(**_arguments(body)) as response:
                for piece in response.iter_bytes():
                    feed(piece)

        await self._run(work)
        return None

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(self._total):
                done = await asyncio.wrap_future(_begun(work))
        except CallFailed:
            raise
        except Exception as error:  # as above
            raise self._failures.of(error) from error
        self._failures.reach.answered()
        return done


def _begun(work: Callable[[], T]) -> Future[T]:
    """What a thread of its own will make of it."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # it cannot be taken back any more

    def perform() -> None:
        try:
            result = work()
        except BaseException as error:  # told to whoever waits
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=perform, name="model", daemon=True).start()
    return future
