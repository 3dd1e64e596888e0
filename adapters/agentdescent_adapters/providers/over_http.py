"""Models asked over HTTP: OpenAI-compatible servers, and Claude. Needs the extra `providers`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from agentdescent.budget.tariff import Prices
from agentdescent.errors import UsageError
from agentdescent_adapters.providers.anthropic_format import AnthropicFormat
from agentdescent_adapters.providers.asked import AskedModel, model_of
from agentdescent_adapters.providers.failures import Place
from agentdescent_adapters.providers.http import Timeouts, Transport
from agentdescent_adapters.providers.openai_format import OpenAIFormat
from agentdescent_adapters.providers.prices import Price
from agentdescent_adapters.providers.settings import (
    CeilingField,
    ceiling_field_at,
    key_of,
    parameters_of,
    timeouts_of,
    url_of,
)
from agentdescent_adapters.providers.tokens import Counter
from agentdescent_adapters.providers.wire import Format

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"


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
) -> AskedModel:
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
        ceiling_field=ceiling_field or ceiling_field_at(url_of(base_url, OpenAIFormat.path)),
        extra=extra,
    )
    timeouts = timeouts_of(timeout, connect_timeout, stall_timeout)
    transport = _transport(OpenAIFormat(), model, base_url, api_key, api_key_env, timeouts)
    return model_of(
        OpenAIFormat(),
        parameters,
        transport,
        stream=stream,
        overhead=overhead,
        counter=counter,
        bytes_per_token=bytes_per_token,
        prices=prices,
        strict=strict,
    )


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
) -> AskedModel:
    """A model behind Anthropic's messages; arguments as of `openai_compatible`. There is no seed, and recent models
    take no temperature: by default none is sent. Thinking counts towards the ceiling."""
    parameters = parameters_of(model, ceiling=ceiling, temperature=temperature, extra=extra)
    timeouts = timeouts_of(timeout, connect_timeout, stall_timeout)
    transport = _transport(AnthropicFormat(), model, base_url, api_key, api_key_env, timeouts)
    return model_of(
        AnthropicFormat(),
        parameters,
        transport,
        stream=stream,
        overhead=overhead,
        counter=counter,
        bytes_per_token=bytes_per_token,
        prices=prices,
        strict=strict,
    )


def _transport(
    wire: Format, model: str, base_url: str, api_key: str | None, variable: str, timeouts: Timeouts
) -> Transport:
    if find_spec("httpx2") is None:
        raise UsageError("models over HTTP need the package httpx2: install agentdescent[providers]")
    url = url_of(base_url, wire.path)
    key = key_of(api_key, variable, url)
    return Transport(Place(url, model, variable, key), wire.path, wire.headers(key), timeouts)
