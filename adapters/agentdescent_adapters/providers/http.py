"""Calls over HTTP: bytes there and back on connections that are kept, every failure by its kind.

One pool of connections per running event loop, closed when its loop ends its asynchronous generators, as `asyncio.run`
and `evolve` do. Nothing is imported before the first call.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, NoReturn
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from agentdescent_adapters.providers.failures import (
    Place,
    dropped,
    late,
    malformed,
    refusal,
    unconnected,
    unreachable,
)
from agentdescent_adapters.providers.waiting import Reach

if TYPE_CHECKING:
    import httpx2

LOCAL = ("localhost", "127.0.0.1", "::1")


class Timeouts(NamedTuple):
    """Seconds. `total`: of one call. `connect`: until it is connected. `stall`: between two pieces of a stream."""

    total: float = 100.0
    connect: float = 10.0
    stall: float = 30.0


@cache
def _ssl_context(secure: bool) -> ssl.SSLContext:
    """One for all clients, since it takes long to make; one that trusts nobody where nothing is encrypted."""
    import httpx2

    return httpx2.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _transport(url: str) -> httpx2.AsyncBaseTransport:
    """Through a proxy where the environment says so, else on connections that cost less. A client of httpx2 on top
    would follow redirects and keep cookies, and take a fifth of the time of a call."""
    import httpx2

    proxy = proxy_for(url)
    if proxy is not None:
        return httpx2.AsyncHTTPTransport(proxy=proxy)
    from agentdescent_adapters.providers.connections import Pool

    return Pool(_ssl_context(url.startswith("https:")))


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address; never one for this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if proxy and host not in LOCAL and not proxy_bypass(host) else None


class Transport:
    """Posts to one address."""

    def __init__(self, place: Place, path: str, headers: Mapping[str, str], timeouts: Timeouts) -> None:
        self.place = place
        self._url = place.url + path
        self._headers = {"content-type": "application/json", "user-agent": "agentdescent", **headers}
        self._timeouts = timeouts
        self._kept: dict[asyncio.AbstractEventLoop, tuple[httpx2.AsyncBaseTransport, AsyncGenerator[None]]] = {}
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
        connections = await self._connections()
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

    async def _connections(self) -> httpx2.AsyncBaseTransport:
        """Those of the running loop."""
        loop = asyncio.get_running_loop()
        kept = self._kept.get(loop)
        if kept is None:
            for closed in [one for one in self._kept if one.is_closed()]:
                del self._kept[closed]
            made = _transport(self._url)
            closing = self._closing(made, loop)
            await anext(closing)
            kept = self._kept[loop] = made, closing
        return kept[0]

    async def _closing(
        self, connections: httpx2.AsyncBaseTransport, loop: asyncio.AbstractEventLoop
    ) -> AsyncGenerator[None]:
        """Begun, and never ended but by the loop, which ends all generators before it closes."""
        try:
            yield
        finally:
            self._kept.pop(loop, None)
            await connections.aclose()
            await asyncio.sleep(0)  # what was closed says so to the loop in its next step
