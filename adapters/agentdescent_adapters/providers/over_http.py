"""Models asked over HTTP: OpenAI-compatible servers, and Claude. Needs the extra `providers`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from agentdescent.budget.tariff import Prices
from agentdescent.errors import UsageError
from agentdescent.ports import Repeat
from agentdescent_adapters.providers.anthropic_format import AnthropicFormat
from agentdescent_adapters.providers.events import Events
from agentdescent_adapters.providers.failures import Place, TurnedAway
from agentdescent_adapters.providers.http import Timeouts, Transport
from agentdescent_adapters.providers.model import Reply, Request, Terms
from agentdescent_adapters.providers.openai_format import OpenAIFormat
from agentdescent_adapters.providers.prices import Price
from agentdescent_adapters.providers.settings import (
    CeilingField,
    key_of,
    name_of,
    parameters_of,
    terms_of,
    timeouts_of,
    url_of,
)
from agentdescent_adapters.providers.tokens import Counter, Gauge
from agentdescent_adapters.providers.waiting import Waits
from agentdescent_adapters.providers.wire import Format, Parameters

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"


class HttpModel:
    """A Model over HTTP. Any event loop may call it; every attempt is one request."""

    repeat: Repeat = "charged"

    def __init__(
        self,
        wire: Format,
        parameters: Parameters,
        terms: Terms,
        transport: Transport,
        *,
        counter: Counter | None,
        stream: bool,
    ) -> None:
        self.name = name_of(wire.name, parameters)
        self.terms = terms
        self._wire = wire
        self._parameters = parameters
        self._transport = transport
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
        return self._wire.decode(await self._transport.post(body), request)

    async def _streamed(self, body: bytes, request: Request) -> Reply:
        reading, events = self._wire.reading(), Events()
        async with self._transport.stream(body) as (kind, pieces):
            if "json" in kind:  # a server that does not stream
                return self._wire.decode(b"".join([piece async for piece in pieces]), request)
            async for piece in pieces:
                for event in events.feed(piece):
                    reading.feed(event)
            for event in events.end():
                reading.feed(event)
        return reading.reply(request)


def openai_compatible(
    model: str,
    *,
    base_url: str = OPENAI_URL,
    api_key: str | None = None,
    api_key_env: str = "OPENAI_API_KEY",
    temperature: float | None = 0.0,
    seed: int | None = None,
    ceiling: int = 1024,
    ceiling_field: CeilingField | None = None,
    extra: Mapping[str, object] | None = None,
    stream: bool = False,
    timeout: float = Timeouts().total,
    connect_timeout: float = Timeouts().connect,
    stall_timeout: float = Timeouts().stall,
    overhead: int = 64,
    counter: Counter | None = None,
    bytes_per_token: int | None = None,
    prices: Prices | Price | Mapping[str, Price] | None = None,
    strict: bool = True,
) -> HttpModel:
    """A model behind OpenAI's chat completions, wherever they are served.

    `api_key`: by default that of the variable `api_key_env`; a local server needs none. `temperature` None sends none.
    `seed`: sent with the number of the sample added to it, so that samples differ. `ceiling`: completion tokens at
    most, sent as `ceiling_field` [max_completion_tokens at OpenAI itself, else max_tokens]. `extra`: further fields of
    the request. `timeout`, `connect_timeout`, `stall_timeout`: seconds of a call, until it is connected, and between
    two pieces of a stream. `counter`: counts tokens exactly (`bpe_counter`, `llama_counter`, or a function), so that
    `bytes_per_token` may be above 1 [2 with a counter]. `prices` [TABLE]. `strict`: False for a provider that bills
    beyond the ceiling. Raises UsageError.
    """
    parameters = parameters_of(
        model,
        ceiling=ceiling,
        temperature=temperature,
        seed=seed,
        ceiling_field=ceiling_field or ("max_completion_tokens" if base_url == OPENAI_URL else "max_tokens"),
        extra=extra,
    )
    terms = terms_of(
        parameters,
        overhead=overhead,
        bytes_per_token=bytes_per_token,
        counter=counter,
        prices=prices,
        strict=strict,
    )
    timeouts = timeouts_of(timeout, connect_timeout, stall_timeout)
    transport = _transport(OpenAIFormat(), model, base_url, api_key, api_key_env, timeouts)
    return HttpModel(OpenAIFormat(), parameters, terms, transport, counter=counter, stream=stream)


def claude(
    model: str,
    *,
    base_url: str = ANTHROPIC_URL,
    api_key: str | None = None,
    api_key_env: str = "ANTHROPIC_API_KEY",
    temperature: float | None = None,
    ceiling: int = 1024,
    extra: Mapping[str, object] | None = None,
    stream: bool = False,
    timeout: float = Timeouts().total,
    connect_timeout: float = Timeouts().connect,
    stall_timeout: float = Timeouts().stall,
    overhead: int = 64,
    counter: Counter | None = None,
    bytes_per_token: int | None = None,
    prices: Prices | Price | Mapping[str, Price] | None = None,
    strict: bool = True,
) -> HttpModel:
    """A model behind Anthropic's messages; arguments as of `openai_compatible`. There is no seed, and recent models
    take no temperature: by default none is sent. Thinking counts towards the ceiling."""
    parameters = parameters_of(model, ceiling=ceiling, temperature=temperature, extra=extra)
    terms = terms_of(
        parameters,
        overhead=overhead,
        bytes_per_token=bytes_per_token,
        counter=counter,
        prices=prices,
        strict=strict,
    )
    timeouts = timeouts_of(timeout, connect_timeout, stall_timeout)
    transport = _transport(AnthropicFormat(), model, base_url, api_key, api_key_env, timeouts)
    return HttpModel(AnthropicFormat(), parameters, terms, transport, counter=counter, stream=stream)


def _transport(
    wire: Format, model: str, base_url: str, api_key: str | None, variable: str, timeouts: Timeouts
) -> Transport:
    if find_spec("httpx2") is None:
        raise UsageError("models over HTTP need the package httpx2: install agentdescent[providers]")
    url = url_of(base_url, wire.path)
    key = key_of(api_key, variable, url)
    return Transport(Place(url, model, variable), wire.path, wire.headers(key), timeouts)
