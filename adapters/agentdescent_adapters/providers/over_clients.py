"""Models asked through a client of the user's own: `openai.OpenAI`, `anthropic.Anthropic` and theirs, sync or async."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, cast

from agentdescent.budget.tariff import Prices
from agentdescent.errors import UsageError
from agentdescent_adapters.providers.anthropic_format import AnthropicFormat
from agentdescent_adapters.providers.asked import AskedModel, Line, model_of
from agentdescent_adapters.providers.failures import Place
from agentdescent_adapters.providers.http import Timeouts
from agentdescent_adapters.providers.openai_format import OpenAIFormat
from agentdescent_adapters.providers.prices import Price
from agentdescent_adapters.providers.sdk_lines import AsyncLine, AsyncResource, Failures, Resource, ThreadLine
from agentdescent_adapters.providers.settings import CeilingField, parameters_of, public, timeouts_of
from agentdescent_adapters.providers.tokens import Counter

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic
    from openai import AsyncOpenAI, OpenAI


class _Client(Protocol):
    """What is used of either client. A copy with other options shares its connections."""

    @property
    def base_url(self) -> object: ...

    def with_options(self, *, max_retries: int, timeout: float) -> object: ...


def from_openai(
    client: OpenAI | AsyncOpenAI,
    model: str,
    *,
    temperature: float | None = 0.0,
    seed: int | None = None,
    ceiling: int = 1024,
    ceiling_field: CeilingField = "max_completion_tokens",
    extra: Mapping[str, object] | None = None,
    stream: bool = False,
    timeout: float = Timeouts().total,
    overhead: int = 64,
    counter: Counter | None = None,
    bytes_per_token: int | None = None,
    prices: Prices | Price | Mapping[str, Price] | None = None,
    strict: bool = True,
) -> AskedModel:
    """A model behind your `openai` client, which is used without its retries; other arguments as of
    `openai_compatible`. An asynchronous client belongs to one event loop: give it to `async_evolve`. Raises
    UsageError."""
    parameters = parameters_of(
        model,
        ceiling=ceiling,
        temperature=temperature,
        seed=seed,
        ceiling_field=ceiling_field,
        extra=extra,
    )

    def completions(quiet: object) -> object:
        return cast("OpenAI", quiet).chat.completions

    line = _line(client, model, timeout, "OPENAI_API_KEY", completions)
    return model_of(
        OpenAIFormat(),
        parameters,
        line,
        stream=stream,
        overhead=overhead,
        counter=counter,
        bytes_per_token=bytes_per_token,
        prices=prices,
        strict=strict,
    )


def from_anthropic(
    client: Anthropic | AsyncAnthropic,
    model: str,
    *,
    temperature: float | None = None,
    ceiling: int = 1024,
    extra: Mapping[str, object] | None = None,
    stream: bool = False,
    timeout: float = Timeouts().total,
    overhead: int = 64,
    counter: Counter | None = None,
    bytes_per_token: int | None = None,
    prices: Prices | Price | Mapping[str, Price] | None = None,
    strict: bool = True,
) -> AskedModel:
    """A model behind your `anthropic` client, which is used without its retries; other arguments as of `claude`. An
    asynchronous client belongs to one event loop: give it to `async_evolve`. Raises UsageError."""
    parameters = parameters_of(model, ceiling=ceiling, temperature=temperature, extra=extra)

    def messages(quiet: object) -> object:
        return cast("Anthropic", quiet).messages

    line = _line(client, model, timeout, "ANTHROPIC_API_KEY", messages)
    return model_of(
        AnthropicFormat(),
        parameters,
        line,
        stream=stream,
        overhead=overhead,
        counter=counter,
        bytes_per_token=bytes_per_token,
        prices=prices,
        strict=strict,
    )


def _line(client: object, model: str, timeout: float, variable: str, resource: Callable[[object], object]) -> Line:
    timeouts_of(timeout, Timeouts().connect, Timeouts().stall)
    try:
        own = cast("_Client", client)
        place = Place(public(str(own.base_url)), model, variable, str(getattr(client, "api_key", None) or ""))
        calls = resource(own.with_options(max_retries=0, timeout=timeout))
    except AttributeError as error:
        raise UsageError(f"{type(client).__name__} is no client that can be asked for {model!r}: {error}") from error
    if hasattr(client, "__aenter__"):
        return AsyncLine(cast("AsyncResource", calls), Failures(place), timeout)
    return ThreadLine(cast("Resource", calls), Failures(place), timeout)
