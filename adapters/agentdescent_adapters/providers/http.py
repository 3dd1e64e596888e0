"""Calls over HTTP: bytes there and back on connections that are kept, every failure by its kind.

One client per running event loop, closed when its loop ends its asynchronous generators, as `asyncio.run` and `evolve`
do. Nothing is imported before the first call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from agentdescent.ports import CallFailed
from agentdescent_adapters.providers.failures import (
    Place,
    TurnedAway,
    dropped,
    late,
    malformed,
    refusal,
    unconnected,
    unreachable,
)

if TYPE_CHECKING:
    import httpx2

GRACE = 3.0
"""Seconds that a server which never answered anything is given to be there."""


class Timeouts(NamedTuple):
    """Seconds. `total`: of one call. `connect`: until it is connected. `stall`: between two pieces of a stream."""

    total: float = 100.0
    connect: float = 10.0
    stall: float = 30.0


class Transport:
    """Posts to one address."""

    def __init__(self, place: Place, path: str, headers: Mapping[str, str], timeouts: Timeouts) -> None:
        self.place = place
        self._url = place.url + path
        self._headers = {"content-type": "application/json", **headers}
        self._timeouts = timeouts
        self._clients: dict[asyncio.AbstractEventLoop, tuple[httpx2.AsyncClient, AsyncGenerator[None]]] = {}
        self._reached = False
        self._missed: float | None = None  # when it was first not reached

    async def post(self, body: bytes) -> bytes:
        """The body of a success. Raises CallFailed, or TurnedAway."""
        async with self._sent(body, self._timeouts.total) as response:
            return await response.aread()

    @asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
        """The content type and the pieces of a success."""
        async with self._sent(body, self._timeouts.stall) as response:
            yield response.headers.get("content-type", ""), response.aiter_bytes()

    @asynccontextmanager
    async def _sent(self, body: bytes, silence: float) -> AsyncIterator[httpx2.Response]:
        import httpx2

        client = await self._client()
        seconds = self._timeouts
        try:
            async with asyncio.timeout(seconds.total):
                timeout = httpx2.Timeout(silence, connect=seconds.connect, pool=None)
                request = client.build_request("POST", self._url, content=body, headers=self._headers, timeout=timeout)
                response = await client.send(request, stream=True)
                try:
                    self._reached = True
                    if not response.is_success:
                        headers = {name.lower(): value for name, value in response.headers.items()}
                        raise refusal(response.status_code, headers, await response.aread(), self.place)
                    yield response
                finally:
                    await response.aclose()
        except httpx2.HTTPError as error:
            self._raise(error)
        except TimeoutError as error:
            raise late(self.place, f"no answer within {seconds.total:g} s") from error

    def _raise(self, error: httpx2.HTTPError) -> NoReturn:
        import httpx2

        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        match error:
            case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.ProxyError():
                raise self._not_reached(reason) from error
            case httpx2.TimeoutException():
                raise late(self.place, f"nothing came for too long ({reason})") from error
            case httpx2.DecodingError():
                raise malformed(f"the body cannot be decoded ({reason})") from error
            case _:
                raise dropped(self.place, reason) from error

    def _not_reached(self, reason: str) -> CallFailed | TurnedAway:
        now = time.monotonic()
        if self._missed is None:
            self._missed = now
        if not self._reached and now - self._missed >= GRACE:
            return unreachable(self.place, reason)
        return unconnected(self.place, reason)

    async def _client(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        kept = self._clients.get(loop)
        if kept is None:
            for closed in [one for one in self._clients if one.is_closed()]:
                del self._clients[closed]
            client = self._made()
            closing = self._closing(client, loop)
            await anext(closing)
            kept = self._clients[loop] = client, closing
        return kept[0]

    def _made(self) -> httpx2.AsyncClient:
        import httpx2

        return httpx2.AsyncClient()

    async def _closing(self, client: httpx2.AsyncClient, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None]:
        """Begun, and never ended but by the loop, which ends all generators before it closes."""
        try:
            yield
        finally:
            self._clients.pop(loop, None)
            await client.aclose()
