"""Connections to one address: a pool for each event loop, closed with it, or when nobody can use it any more.

A loop ends its asynchronous generators before it is closed, as `asyncio.run` and `evolve` have it do: one that was
begun in it, and waits, closes the pool then.
"""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from agentdescent.errors import UsageError

if TYPE_CHECKING:
    import httpx2

    _Kept: TypeAlias = dict[asyncio.AbstractEventLoop, tuple[httpx2.AsyncBaseTransport, AsyncGenerator[None]]]

LOCAL = ("localhost", "127.0.0.1", "::1")


class Pools:
    """Those to one address."""

    def __init__(self, url: str) -> None:
        """Raises UsageError for a proxy that cannot be used."""
        _check_proxy(proxy_for(url))
        self._url = url
        self._kept: _Kept = {}
        weakref.finalize(self, _release, self._kept).atexit = False

    async def here(self) -> httpx2.AsyncBaseTransport:
        """The pool of the running loop."""
        loop = asyncio.get_running_loop()
        kept = self._kept.get(loop)
        if kept is None:
            for closed in [one for one in self._kept if one.is_closed()]:
                del self._kept[closed]
            pool = _transport(self._url)
            closing = _closing(self._kept, pool, loop)
            await anext(closing)
            kept = self._kept[loop] = pool, closing
        return kept[0]


async def _closing(
    kept: _Kept, pool: httpx2.AsyncBaseTransport, loop: asyncio.AbstractEventLoop
) -> AsyncGenerator[None]:
    """It must not refer to who owns the pools: both would be collected at once, and the connections with them."""
    try:
        yield
    finally:
        kept.pop(loop, None)
        await pool.aclose()
        await asyncio.sleep(0)  # what was closed says so to the loop in its next step


def _release(kept: _Kept) -> None:
    """In whatever thread collects garbage: the loop closes what is its own."""
    for loop, (_, closing) in tuple(kept.items()):
        with suppress(RuntimeError):  # the loop is closed, and with it the pool
            loop.call_soon_threadsafe(_close, loop, closing)


def _close(loop: asyncio.AbstractEventLoop, closing: AsyncGenerator[None]) -> None:
    loop.create_task(closing.aclose())


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


def _check_proxy(proxy: str | None) -> None:
    scheme = "" if proxy is None else urlsplit(proxy).scheme
    if scheme.startswith("socks") and find_spec("socksio") is None:
        raise UsageError(f"the environment names a proxy of {scheme}: install socksio, or set no_proxy")
    if proxy is not None and scheme not in ("http", "https", "socks5", "socks5h"):
        raise UsageError(f"the environment names a proxy of {scheme}: name one of http, or set no_proxy")


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address; never one for this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or host in LOCAL or proxy_bypass(host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
