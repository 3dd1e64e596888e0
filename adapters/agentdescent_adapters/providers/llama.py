"""Exact token counts of a llama.cpp server, by the tokenizer of the very model that it serves."""

from __future__ import annotations

import msgspec

from agentdescent.ports import CallFailed
from agentdescent_adapters.providers.failures import NOT_MADE, Place, TurnedAway, malformed
from agentdescent_adapters.providers.http import Transport
from agentdescent_adapters.providers.openai_format import OpenAIFormat
from agentdescent_adapters.providers.settings import key_of, timeouts_of, url_of
from agentdescent_adapters.providers.waiting import DEFAULT_WAIT
from agentdescent_adapters.providers.wire import parsed


class _Content(msgspec.Struct):
    content: str
    add_special: bool = False
    parse_special: bool = True


class _Tokens(msgspec.Struct):
    tokens: list[int]


class LlamaCounter:
    """Asks `/tokenize`, which costs a round trip for each text that is new, and no tokens. Special tokens in a text
    count as the server will read them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def __call__(self, text: str) -> int:
        try:
            body = await self._transport.post(msgspec.json.encode(_Content(text)))
        except TurnedAway as turned:
            raise turned.after(DEFAULT_WAIT) from turned
        except CallFailed as failed:
            raise CallFailed(failed.kind, f"tokens were not counted: {failed}", NOT_MADE) from failed
        said = parsed(body, _Tokens)
        if said is None:
            raise malformed("tokens were not counted: the answer of /tokenize has none", NOT_MADE)
        return len(said.tokens)


def llama_counter(
    base_url: str, *, api_key: str | None = None, api_key_env: str = "OPENAI_API_KEY", timeout: float = 10.0
) -> LlamaCounter:
    """`base_url`: that of the model, with or without /v1. Raises UsageError."""
    url = url_of(base_url, "/v1/tokenize")
    timeouts = timeouts_of(timeout, min(timeout, 10.0), timeout)
    key = key_of(api_key, api_key_env, url)
    place = Place(url, "the tokenizer", api_key_env, key)
    return LlamaCounter(Transport(place, "/tokenize", OpenAIFormat().headers(key), timeouts))
