"""Calls over HTTP: bytes there and back on connections that are kept, every failure by its kind.

Nothing is imported before the first call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from agentdescent_adapters.providers.failures import (
    Place,
    dropped,
    late,
    malformed,
    refusal,
    unconnected,
    unreachable,
)
from agentdescent_adapters.providers.pools import Pools
from agentdescent_adapters.providers.waiting import Reach

if TYPE_CHECKING:
    import httpx2


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
        self._headers = {"content-type": "application/json", "user-agent": "agentdescent", **headers}
        self._timeouts = timeouts
        self._pools = Pools(self._url)
        self._built: tuple[httpx2.URL, httpx2.Headers] | None = None
        self._reach = Reach()

    async def post(self, body: bytes) -> bytes:
        """The body of a success. Raises CallFailed, or TurnedAway."""
        async with self._sent(body, None) as response:
            return await response.aread()

    async def stream(self, body: bytes, feed: Callable[[bytes], None]) -> bytes | None:
        """Feeds the pieces of a success; returns the body where the server does not stream."""
        async with self._sent(body, self._timeouts.stall) as response:
            if "json" in response.headers.get("content-type", ""):
                return await response.aread()
            async for piece in response.aiter_bytes():
                feed(piece)
        return None

    @asynccontextmanager
    async def _sent(self, body: bytes, silence: float | None) -> AsyncIterator[httpx2.Response]:
        """`silence`: seconds in which nothing may come; None: only the whole is limited."""
        import httpx2

        seconds = self._timeouts
        connections = await self._pools.here()
        limits = {"connect": seconds.connect, "read": silence, "write": silence, "pool": None}
        try:
            async with asyncio.timeout(seconds.total):
                response = await connections.handle_async_request(self._request(body, limits))
                try:
                    self._reach.answered()
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

    def _request(self, body: bytes, limits: Mapping[str, float | None]) -> httpx2.Request:
        """Built around what is the same for every call: parsing it anew would take longer than all the rest."""
        import httpx2

        if self._built is None:
            self._built = httpx2.URL(self._url), httpx2.Headers(self._headers)
        url, headers = self._built
        return httpx2.Request("POST", url, headers=headers, content=body, extensions={"timeout": limits})

    def _raise(self, error: httpx2.HTTPError) -> NoReturn:
        import httpx2

        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        match error:
            case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.ProxyError():
                if self._reach.missed():
                    raise unreachable(self.place, reason) from error
                raise unconnected(self.place, reason) from error
            case httpx2.TimeoutException():
                raise late(self.place, f"nothing came for too long ({reason})") from error
            case httpx2.DecodingError():
                raise malformed(f"the body cannot be decoded ({reason})") from error
            case _:
                raise dropped(self.place, reason) from error
