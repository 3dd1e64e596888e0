"""The messages of Anthropic. Unknown fields and kinds of content are ignored."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from agentdescent.budget.usage import Usage
from agentdescent_adapters.providers.failures import malformed, reported, truncated
from agentdescent_adapters.providers.model import Finish, Reply, Request
from agentdescent_adapters.providers.usage import counts, given, usage_of
from agentdescent_adapters.providers.wire import Parameters, answer, parsed, with_extra

VERSION = "2023-06-01"
_FINISH: Mapping[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filter",
}


# --- what is sent -----------------------------------------------------------------------------------------------------


class _Message(msgspec.Struct):
    content: str
    role: str = "user"


class _Schema(msgspec.Struct):
    schema: msgspec.Raw
    type: str = "json_schema"


class _OutputConfig(msgspec.Struct):
    format: _Schema


class _Body(msgspec.Struct, omit_defaults=True):
    model: str
    max_tokens: int
    messages: list[_Message]
    system: str = ""
    temperature: float | None = None
    output_config: _OutputConfig | None = None
    stream: bool = False


# --- what comes back --------------------------------------------------------------------------------------------------


class _Block(msgspec.Struct):
    type: str = ""
    text: str | None = None


class _Answer(msgspec.Struct):
    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _Bill(msgspec.Struct):
    usage: msgspec.Raw = msgspec.Raw()


class _Delta(msgspec.Struct):
    type: str = ""
    text: str | None = None
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    type: str
    message: _Answer | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: msgspec.Raw = msgspec.Raw()


class _Counts(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    def updated(self, later: _Counts) -> _Counts:
        """Those of a later event are sums, and stand for the earlier ones where they are given."""
        return _Counts(
            *(
                old if new is None else new
                for old, new in zip(msgspec.structs.astuple(self), msgspec.structs.astuple(later), strict=True)
            )
        )

    @property
    def usage(self) -> Usage | None:
        """No input tokens at all is how some servers say that they do not count."""
        if self.input_tokens is None:
            return None
        read = self.cache_read_input_tokens or 0
        prompt = self.input_tokens + read + (self.cache_creation_input_tokens or 0)
        return usage_of(prompt, self.output_tokens, read)


def _usage(raw: msgspec.Raw) -> Usage | None:
    said = counts(raw, _Counts)
    return None if said is None else said.usage


def _text(block: _Block | None) -> str:
    return (block.text or "") if block is not None and block.type == "text" else ""


def _finish(reason: str | None) -> Finish:
    return _FINISH.get(reason or "", "unknown")


# --- the format -------------------------------------------------------------------------------------------------------


class AnthropicFormat:
    name = "anthropic"
    path = "/v1/messages"

    def headers(self, key: str) -> Mapping[str, str]:
        return {"x-api-key": key, "anthropic-version": VERSION}

    def encode(self, request: Request, parameters: Parameters, *, stream: bool) -> bytes:
        schema = request.schema
        body = _Body(
            model=parameters.model,
            max_tokens=parameters.ceiling_of(request),
            messages=[_Message(request.user)],
            system=request.system,
            temperature=parameters.temperature,
            output_config=None if schema is None else _OutputConfig(_Schema(msgspec.Raw(schema))),
            stream=stream,
        )
        return with_extra(msgspec.json.encode(body), parameters.extra)

    def decode(self, body: bytes, request: Request) -> Reply:
        said = parsed(body, _Answer)
        if said is None:
            bill = parsed(body, _Bill)
            raise malformed("the body is no message", None if bill is None else _usage(bill.usage))
        usage = _usage(said.usage)
        if said.content is None:
            raise malformed("an answer without content", usage) if not given(said.error) else reported(body, usage)
        return answer("".join(map(_text, said.content)), _finish(said.stop_reason), usage, request)

    def reading(self) -> _Reading:
        return _Reading()


class _Reading:
    def __init__(self) -> None:
        self.ended = False
        self._texts: list[str] = []
        self._reason: str | None = None
        self._counts = _Counts()
        self._counted = False

    def feed(self, data: bytes) -> None:
        event = parsed(data, _Event)
        if event is None:
            raise malformed("an event of the stream is none of a message")
        match event.type:
            case "message_start" if event.message is not None:
                self._count(event.message.usage)
            case "content_block_start":
                self._texts.append(_text(event.content_block))
            case "content_block_delta" if event.delta is not None and event.delta.type == "text_delta":
                self._texts.append(event.delta.text or "")
            case "message_delta":
                self._reason = (event.delta and event.delta.stop_reason) or self._reason
                self._counted = self._count(event.usage) or self._counted
            case "message_stop":
                self.ended = True
            case "error":
                raise reported(data)
            case _:  # pings, and what is yet to come
                pass

    def _count(self, raw: msgspec.Raw) -> bool:
        said = counts(raw, _Counts)
        if said is not None:
            self._counts = self._counts.updated(said)
        return said is not None

    def reply(self, request: Request) -> Reply:
        """Before the last count the completion is not counted: what was said then is not the usage."""
        if self._reason is None:
            raise truncated()
        usage = self._counts.usage if self._counted else None
        return answer("".join(self._texts), _finish(self._reason), usage, request)
