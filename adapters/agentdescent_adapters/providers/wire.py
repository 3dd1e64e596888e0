"""What the two formats have in common: how a request becomes bytes, and the bytes of an answer a Reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

import msgspec

from agentdescent.budget.usage import Usage
from agentdescent.ports import CallFailed
from agentdescent_adapters.providers.failures import malformed
from agentdescent_adapters.providers.model import Finish, Reply, Request
from agentdescent_adapters.providers.wrapping import unfenced, without_reasoning

T = TypeVar("T")


class Parameters(msgspec.Struct, frozen=True):
    """What is the same for every call of a model. None is not sent. `extra`: further fields of the body."""

    model: str
    ceiling: int
    temperature: float | None = None
    seed: int | None = None
    ceiling_field: str = "max_tokens"
    extra: Mapping[str, object] = {}

    def ceiling_of(self, request: Request) -> int:
        return self.ceiling if request.ceiling is None else min(self.ceiling, request.ceiling)


class Reading(Protocol):
    """An answer that comes in events."""

    @property
    def ended(self) -> bool:
        """No event that matters follows."""

    def feed(self, data: bytes) -> None:
        """One event. Raises CallFailed."""

    def reply(self, request: Request) -> Reply:
        """What was said. Raises CallFailed when it is not whole."""


class Format(Protocol):
    """How a provider is spoken to."""

    name: str
    path: str
    """Of a call, below the base URL."""

    def headers(self, key: str) -> Mapping[str, str]: ...

    def encode(self, request: Request, parameters: Parameters, *, stream: bool) -> bytes: ...

    def decode(self, body: bytes, request: Request) -> Reply:
        """Raises CallFailed."""

    def reading(self) -> Reading: ...


def with_extra(body: bytes, extra: Mapping[str, object]) -> bytes:
    """The JSON object with further fields. Where it has one of them already, they are put together, and the object has
    the last word."""
    if not extra:
        return body
    own = msgspec.json.decode(body, type=dict[str, object])
    return msgspec.json.encode({**extra, **{name: _both(extra.get(name), value) for name, value in own.items()}})


def _both(other: object, own: object) -> object:
    return {**other, **own} if isinstance(other, Mapping) and isinstance(own, Mapping) else own


def answer(text: str, finish: Finish, usage: Usage | None, request: Request) -> Reply:
    """A Reply, if it is one. Raises CallFailed for an answer without text, or that is not the JSON asked for."""
    if not text:
        if finish == "length":
            raise CallFailed("truncated", "the ceiling was reached before any text", usage)
        why = " (content filter)" if finish == "filter" else ""
        raise CallFailed("empty", f"an answer without text{why}", usage)
    if request.schema is not None and finish in ("stop", "unknown"):
        inside = without_reasoning(text)
        try:
            msgspec.json.decode("" if inside is None else unfenced(inside))
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
            raise malformed(f"JSON was asked for, and the answer is none: {error}", usage) from error
    return Reply(text, finish, usage)


def parsed(data: bytes, shape: type[T]) -> T | None:
    """None for what does not have the shape."""
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.MsgspecError:
        return None
