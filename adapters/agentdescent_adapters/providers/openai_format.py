"""The chat completions of OpenAI, as many servers speak them. Unknown fields are ignored."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from agentdescent.budget.usage import Usage
from agentdescent_adapters.providers.failures import malformed, reported, truncated
from agentdescent_adapters.providers.model import Finish, Reply, Request
from agentdescent_adapters.providers.usage import counts, given, usage_of
from agentdescent_adapters.providers.wire import Parameters, answer, parsed, with_extra

_SEEDS = 2**31
_FINISH: Mapping[str, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "length": "length",
    "model_length": "length",
    "content_filter": "filter",
}


# --- what is sent -----------------------------------------------------------------------------------------------------


class _Message(msgspec.Struct):
    role: str
    content: str


class _Schema(msgspec.Struct):
    schema: msgspec.Raw
    name: str = "answer"
    strict: bool = True


class _ResponseFormat(msgspec.Struct):
    json_schema: _Schema
    type: str = "json_schema"


class _StreamOptions(msgspec.Struct):
    include_usage: bool = True


class _Body(msgspec.Struct, omit_defaults=True):
    model: str
    messages: list[_Message]
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    response_format: _ResponseFormat | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None


# --- what comes back --------------------------------------------------------------------------------------------------


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None


class _Said(msgspec.Struct):
    """A message, or what is new of one. Reasoning has fields of its own, which are not read."""

    content: str | list[_Part] | None = None
    refusal: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content if part.type == "text")
        return self.content or ""


class _Choice(msgspec.Struct):
    message: _Said | None = None
    delta: _Said | None = None
    finish_reason: str | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _Bill(msgspec.Struct):
    usage: msgspec.Raw = msgspec.Raw()


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Counts(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None


def _usage(raw: msgspec.Raw) -> Usage | None:
    """Some providers leave reasoning out of the completion, but never out of the total."""
    said = counts(raw, _Counts)
    if said is None:
        return None
    prompt, completion = said.prompt_tokens, said.completion_tokens
    if prompt is not None and completion is not None and said.total_tokens is not None:
        completion = max(completion, said.total_tokens - prompt)
    details = said.prompt_tokens_details
    spellings = (details and details.cached_tokens, said.prompt_cache_hit_tokens, said.cached_tokens)
    return usage_of(prompt, completion, next((count for count in spellings if count), None))


def _finish(reason: str | None) -> Finish:
    return _FINISH.get(reason or "", "unknown")


# --- the format -------------------------------------------------------------------------------------------------------


class OpenAIFormat:
    name = "openai"
    path = "/chat/completions"

    def headers(self, key: str) -> Mapping[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def encode(self, request: Request, parameters: Parameters, *, stream: bool) -> bytes:
        system = [_Message("system", request.system)] if request.system else []
        ceiling, seed = parameters.ceiling_of(request), parameters.seed
        legacy = parameters.ceiling_field == "max_tokens"
        body = _Body(
            model=parameters.model,
            messages=[*system, _Message("user", request.user)],
            temperature=parameters.temperature,
            seed=None if seed is None else (seed + request.sample) % _SEEDS,
            max_tokens=ceiling if legacy else None,
            max_completion_tokens=None if legacy else ceiling,
            response_format=None if request.schema is None else _ResponseFormat(_Schema(msgspec.Raw(request.schema))),
            stream=stream,
            stream_options=_StreamOptions() if stream else None,
        )
        return with_extra(msgspec.json.encode(body), parameters.extra)

    def decode(self, body: bytes, request: Request) -> Reply:
        said = parsed(body, _Answer)
        if said is None:
            bill = parsed(body, _Bill)
            raise malformed("the body is no chat completion", None if bill is None else _usage(bill.usage))
        usage = _usage(said.usage)
        choice = said.choices[0] if said.choices else None
        if choice is None or choice.message is None:
            raise malformed("an answer without choices", usage) if not given(said.error) else reported(body, usage)
        return answer(choice.message.text, _finish(choice.finish_reason), usage, request)

    def reading(self) -> _Reading:
        return _Reading()


class _Reading:
    def __init__(self) -> None:
        self.ended = False
        self._texts: list[str] = []
        self._reason: str | None = None
        self._usage: Usage | None = None

    def feed(self, data: bytes) -> None:
        if data == b"[DONE]":
            self.ended = True
            return
        chunk = parsed(data, _Answer)
        if chunk is None:
            raise malformed("an event of the stream is no chunk of a chat completion")
        choices = chunk.choices or []
        if given(chunk.error) and not choices:
            raise reported(data)
        self._usage = _usage(chunk.usage) or self._usage
        for choice in choices[:1]:
            if choice.delta is not None:
                self._texts.append(choice.delta.text)
            self._reason = choice.finish_reason or self._reason

    def reply(self, request: Request) -> Reply:
        if self._reason is None:
            raise truncated()
        return answer("".join(self._texts), _finish(self._reason), self._usage, request)
