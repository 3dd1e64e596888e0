"""Connections for httpx2 on asyncio itself: one write for a request, no layer between it and the event loop.

Through the layers that httpx2 puts there by default a call takes 1.2 ms of CPU, most of it in the two writes of a
request (head and body) and in cancel scopes around every read; this way it takes about half.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager

import httpcore2
import httpx2

IDLE = 4.0
"""Seconds for which an idle connection is kept: less than servers usually wait before they close one."""


@contextmanager
def _errors(slow: type[Exception], broken: type[Exception]) -> Iterator[None]:
    """What the pool understands. A TimeoutError of the operating system is a broken connection, ours a slow one."""
    try:
        yield
    except TimeoutError as error:
        raise (slow if error.errno is None else broken)(str(error)) from error
    except (OSError, ssl.SSLError) as error:
        raise broken(str(error)) from error


class Connection(httpcore2.AsyncNetworkStream):
    """What is written is sent together when an answer is read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._unsent: list[bytes] = []

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._unsent:
            await self._send(timeout)
        with _errors(httpcore2.ReadTimeout, httpcore2.ReadError):
            if timeout is None:
                return await self._reader.read(max_bytes)
            async with asyncio.timeout(timeout):
                return await self._reader.read(max_bytes)

    async def _send(self, timeout: float | None) -> None:
        data, self._unsent = b"".join(self._unsent), []
        with _errors(httpcore2.WriteTimeout, httpcore2.WriteError):
            self._writer.write(data)
            async with asyncio.timeout(timeout):
                await self._writer.drain()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:
            self._unsent.append(buffer)

    async def aclose(self) -> None:
        """At once: nothing is owed to the other side, and a farewell could hang."""
        self._writer.transport.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> Connection:
        try:
            with _errors(httpcore2.ConnectTimeout, httpcore2.ConnectError):
                async with asyncio.timeout(timeout):
                    await self._writer.start_tls(ssl_context, server_hostname=server_hostname)
        except BaseException:
            await self.aclose()  # nobody else knows of it yet
            raise
        return self

    def get_extra_info(self, info: str) -> object:
        """`is_readable`: an idle connection on which something comes was closed by the server."""
        if info == "is_readable":
            return self._reader.at_eof() or self._writer.is_closing()
        return None


class Backend(httpcore2.AsyncNetworkBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> Connection:
        """The pool below sets neither a local address nor options of the socket."""
        with _errors(httpcore2.ConnectTimeout, httpcore2.ConnectError):
            async with asyncio.timeout(timeout):
                return Connection(*await asyncio.open_connection(host, port, happy_eyeballs_delay=0.25))


_FAILURES = (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError)


@contextmanager
def _translated(request: httpx2.Request) -> Iterator[None]:
    """Both libraries have the same names for failures."""
    try:
        yield
    except _FAILURES as error:
        kind = getattr(httpx2, type(error).__name__, httpx2.TransportError)
        raise kind(str(error), request=request) from error


class _Body(httpx2.AsyncByteStream):
    def __init__(self, request: httpx2.Request, response: httpcore2.Response) -> None:
        self._request = request
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated(self._request):
            async for piece in self._response.aiter_stream():
                yield piece

    async def aclose(self) -> None:
        with _translated(self._request):
            await self._response.aclose()


class Pool(httpx2.AsyncBaseTransport):
    """Connections of one event loop to anywhere, HTTP/1.1. As many as there are calls in flight."""

    def __init__(self, ssl_context: ssl.SSLContext) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context, max_connections=None, keepalive_expiry=IDLE, network_backend=Backend()
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        sent = httpcore2.Request(
            request.method,
            target,
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated(request):
            response = await self._pool.handle_async_request(sent)
        return httpx2.Response(
            response.status,
            headers=response.headers,
            stream=_Body(request, response),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()
