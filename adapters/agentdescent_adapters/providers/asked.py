"""A Model out of its parts: a format to write and read, a line that carries bytes, and who counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from agentdescent.budget.tariff import Prices
from agentdescent.ports import CallFailed, Repeat
from agentdescent_adapters.providers.events import Events
from agentdescent_adapters.providers.failures import TurnedAway
from agentdescent_adapters.providers.model import Reply, Request, Terms
from agentdescent_adapters.providers.prices import Price
from agentdescent_adapters.providers.settings import name_of, terms_of
from agentdescent_adapters.providers.tokens import Counter, Gauge
from agentdescent_adapters.providers.waiting import Waits
from agentdescent_adapters.providers.wire import Format, Parameters


class Line(Protocol):
    """Carries one call. Both raise CallFailed, or TurnedAway."""

    async def post(self, body: bytes) -> bytes:
        """The body of a success."""

    async def stream(self, body: bytes, feed: Callable[[bytes], None]) -> bytes | None:
        """Feeds the pieces of an answer that comes in pieces; returns one that came whole. `feed` may raise."""


class AskedModel:
    """Any event loop may call it; every attempt is one request."""

    repeat: Repeat = "charged"

    def __init__(
        self,
        wire: Format,
        parameters: Parameters,
        terms: Terms,
        line: Line,
        *,
        counter: Counter | None,
        stream: bool,
    ) -> None:
        self.name = name_of(wire.name, parameters)
        self.terms = terms
        self._wire = wire
        self._parameters = parameters
        self._line = line
        self._gauge = None if counter is None else Gauge(counter, terms.overhead)
        self._stream = stream
        self._waits = Waits()

    async def complete(self, request: Request) -> Reply:
        """As Model.complete. A ceiling above the model's own is lowered to it."""
        counted = None if self._gauge is None else await self._gauge.count(request)
        body = self._wire.encode(request, self._parameters, stream=self._stream)
        try:
            reply = await (self._streamed(body, request) if self._stream else self._whole(body, request))
        except TurnedAway as turned:
            raise turned.after(self._waits.next(request, turned.asked)) from turned
        self._waits.answered(request)
        if self._gauge is not None:
            self._gauge.learn(request, counted, reply.usage)
        return reply

    async def _whole(self, body: bytes, request: Request) -> Reply:
        return self._wire.decode(await self._line.post(body), request)

    async def _streamed(self, body: bytes, request: Request) -> Reply:
        reading, events = self._wire.reading(), Events()

        def feed(piece: bytes) -> None:
            for event in events.feed(piece):
                reading.feed(event)

        try:
            whole = await self._line.stream(body, feed)
        except CallFailed:
            if not reading.ended:
                raise
            whole = None  # all was said before the connection broke, or was silent
        if whole is not None:
            return self._wire.decode(whole, request)
        for event in events.end():
            reading.feed(event)
        return reading.reply(request)


def model_of(
    wire: Format,
    parameters: Parameters,
    line: Line,
    *,
    stream: bool,
    overhead: int,
    counter: Counter | None,
    bytes_per_token: int | None,
    prices: Prices | Price | Mapping[str, Price] | None,
    strict: bool,
) -> AskedModel:
    """What every constructor of a model comes to. Raises UsageError for a bound that nothing keeps."""
    terms = terms_of(
        parameters,
        overhead=overhead,
        bytes_per_token=bytes_per_token,
        counter=counter,
        prices=prices,
        strict=strict,
    )
    return AskedModel(wire, parameters, terms, line, counter=counter, stream=stream)
