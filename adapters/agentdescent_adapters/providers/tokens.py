"""Exact counts of tokens, and what they are for: a prompt that would cost more than was reserved is not sent.

A counter knows the text; what a provider's template adds to it is learned from what the first answers were billed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from importlib import import_module
from inspect import isawaitable
from typing import Protocol, TypeAlias, cast
from warnings import catch_warnings, filterwarnings

from agentdescent.budget.usage import Usage
from agentdescent.errors import UsageError
from agentdescent.ports import CallFailed
from agentdescent_adapters.providers.failures import NOT_MADE
from agentdescent_adapters.providers.model import Request

SLACK = 2
"""Tokens by which a text may be split otherwise inside a template than alone."""
_O200K = ("gpt-4o", "gpt-4.1", "gpt-5", "chatgpt-4o", "o1", "o3", "o4")
"""How the names of models begin that share an encoding, most of which the package does not know."""
_TEXTS = 512
_SHAPES = 64


Counter: TypeAlias = Callable[[str], int | Awaitable[int]]
"""The tokens of a text, exactly; may be asynchronous. One that raises fails the call, which costs nothing then."""

Shape: TypeAlias = tuple[bool, bytes | None]
"""What a template depends on: whether there is a system text, and the schema."""


class Gauge:
    """Refuses what does not fit. `guess`: tokens of the template while nothing is known of it."""

    def __init__(self, counter: Counter, guess: int) -> None:
        self._counter = counter
        self._guess = guess
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._added: OrderedDict[Shape, int] = OrderedDict()

    def overhead(self, request: Request) -> int:
        """Tokens that the template adds to the texts of such a request."""
        added = self._added.get(_shape(request))
        return self._guess if added is None else added + SLACK

    async def count(self, request: Request) -> int | None:
        """The tokens of its texts; None where the prompt is not limited. Raises CallFailed when it does not fit."""
        limit = request.prompt_limit
        if limit is None:
            return None
        schema = "" if request.schema is None else request.schema.decode("utf-8", "replace")
        counted = sum([await self._count(text) for text in (request.system, request.user, schema) if text])
        added = self.overhead(request)
        if counted + added > limit:
            raise CallFailed(
                "overflow",
                f"the prompt is {counted} tokens and about {added} of its template, and {limit} were reserved: shorten "
                "it, or lower bytes_per_token",
                NOT_MADE,
            )
        return counted

    async def _count(self, text: str) -> int:
        known = self._counts.get(text)
        if known is None:
            known = self._counts[text] = await self._asked(text)
            if len(self._counts) > _TEXTS:
                self._counts.popitem(last=False)
        return known

    async def _asked(self, text: str) -> int:
        try:
            answer = self._counter(text)
            tokens = await answer if isawaitable(answer) else answer
            if type(tokens) is not int or tokens < 0:
                raise TypeError(f"{tokens!r} is no number of tokens")
        except CallFailed:
            raise
        except Exception as error:  # a counter is code we do not know
            raise CallFailed("provider", f"the counter failed: {type(error).__name__}: {error}", NOT_MADE) from error
        return tokens

    def learn(self, request: Request, counted: int | None, usage: Usage | None) -> None:
        """The most that any answer was billed beyond its texts. A schema may count for less than its text."""
        if counted is None or usage is None:
            return
        shape = _shape(request)
        beyond = usage.prompt - counted
        if request.schema is None:
            beyond = max(0, beyond)
        self._added[shape] = max(beyond, self._added.get(shape, beyond))
        if len(self._added) > _SHAPES:
            self._added.popitem(last=False)


def _shape(request: Request) -> Shape:
    return bool(request.system), request.schema


class _Encoding(Protocol):
    def encode_ordinary(self, text: str) -> list[int]: ...


class _Encodings(Protocol):
    """What is used of bpe_openai, which has no types."""

    def list_encoding_names(self) -> list[str]: ...

    def get_encoding(self, encoding_name: str) -> _Encoding: ...

    def encoding_for_model(self, model_name: str) -> _Encoding: ...


def bpe_counter(name: str) -> Callable[[str], int]:
    """Counts as OpenAI does, for a model ("gpt-4o", also with its date) or an encoding ("o200k_base"). Needs the extra
    `count`."""
    encoding = _encoding(name)
    return lambda text: len(encoding.encode_ordinary(text))


def _encodings() -> _Encodings:
    try:
        with catch_warnings():
            # Of the way in which the package reads its own data, when it is imported for the first time.
            filterwarnings("ignore", "open_binary is deprecated", DeprecationWarning)
            return cast("_Encodings", import_module("bpe_openai"))
    except ImportError as error:
        raise UsageError("bpe_counter needs the package bpe-openai: install agentdescent[count]") from error


def _encoding(name: str) -> _Encoding:
    encodings = _encodings()
    known = encodings.list_encoding_names()
    model = "o200k_base" if name.startswith(_O200K) else name
    try:
        return encodings.get_encoding(model) if model in known else encodings.encoding_for_model(model)
    except (KeyError, RuntimeError) as error:
        raise UsageError(
            f"no encoding is known for {name!r}: give that of the model, one of {', '.join(known)}"
        ) from error
