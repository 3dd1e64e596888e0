"""Calls over HTTP: bytes there and back on connections that are kept, every failure by its kind.

One client per running event loop, closed when its loop ends its asynchronous generators, as `asyncio.run` and `evolve`
do. Nothing is imported before the first call.
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


def proxied(url: str) -> bool:
    """Whether the environment names a proxy for this address; never for this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = getproxies()
    return host not in LOCAL and bool(proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(host)


class Transport:
    """Posts to one address."""

    def __init__(self, place: Place, path: str, headers: Mapping[str, str], timeouts: Timeouts) -> None:
        self.place = place
        self._url = place.url + path
        self._headers = {"content-type": "application/json", **headers}
        self._timeouts = timeouts
        self._clients: dict[asyncio.AbstractEventLoop, tuple[httpx2.AsyncClient, AsyncGenerator[None]]] = {}
        self._built: tuple[httpx2.URL, httpx2.Headers] | None = None
        self._reach = Reach()

    async def post(self, body: bytes) -> bytes:
        """The body of a success. Raises CallFailed, or TurnedAway."""
        async with self._sent(body, self._timeouts.total) as response:
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
    async def _sent(self, body: bytes, silence: float) -> AsyncIterator[httpx2.Response]:
        import httpx2

        client = await self._client()
        seconds = self._timeouts
        try:
            async with asyncio.timeout(seconds.total):
                timeout = httpx2.Timeout(silence, connect=seconds.connect, pool=None)
                request = self._request(body, timeout)
                response = await client.send(request, stream=True)
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

    def _request(self, body: bytes, timeout: httpx2.Timeout) -> httpx2.Request:
        """Built around what is the same for every call: parsing it anew would take longer than all the rest."""
        import httpx2

        if self._built is None:
            self._built = httpx2.URL(self._url), httpx2.Headers(self._headers)
        url, headers = self._built
        return httpx2.Request("POST", url, headers=headers, content=body, extensions={"timeout": timeout.as_dict()})

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
        """Through a proxy where the environment says so, else on connections of our own, which cost less."""
        import httpx2

        if proxied(self._url):
            return httpx2.AsyncClient()
        from agentdescent_adapters.providers.connections import Pool

        return httpx2.AsyncClient(transport=Pool(_ssl_context(self._url.startswith("https:"))), trust_env=False)

    async def _closing(self, client: httpx2.AsyncClient, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None]:
        """Begun, and never ended but by the loop, which ends all generators before it closes."""
        try:
            yield
        finally:
            self._clients.pop(loop, None)
            await client.aclose()
            await asyncio.sleep(0)  # what was closed says so to the loop in its next step
