"""Any callable as a Model: `complete(prompt)`, synchronous or not.

A synchronous one stays synchronous: it is a BlockingModel, whose calls are made in threads of the run and never on its
loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from agentdescent.budget.tariff import Prices
from agentdescent.budget.usage import Usage
from agentdescent.errors import UsageError
from agentdescent.ports import Answer, CallFailed, Repeat
from agentdescent.wiring import name_of
from agentdescent_adapters.providers.model import Model, Reply, Request, Terms

Count: TypeAlias = Callable[[str], int]
"""Tokens of a text, exactly as the provider counts them."""

BETWEEN = "\n\n"
"""What joins the system and the user text of a callable that takes one prompt."""

OPTIONAL = frozenset(("ceiling", "sample", "schema", "system"))
"""What a callable is told if it has a parameter of that name."""

NOT_SENT = Usage(calls=0)


@runtime_checkable
class BlockingModel(Model, Protocol):
    """A Model whose calls block."""

    def complete_blocking(self, request: Request) -> Reply | Awaitable[Reply]:
        """As `complete`, in the thread of the caller; an awaitable where the callable returns one after all."""


class CallableModel:
    """`takes`: which of OPTIONAL the callable is told. `count`: None where nothing counts exactly."""

    def __init__(
        self, function: Callable[..., Any], name: str, terms: Terms, repeat: Repeat, count: Count | None
    ) -> None:
        self.name = name
        self.terms = terms
        self.repeat: Repeat = repeat
        self.count = count
        self.takes = _takes(function)
        self._function = function

    async def complete(self, request: Request) -> Reply:
        with _failures():
            value = self._call(request)
            return reply_of(await value if inspect.isawaitable(value) else value)

    def _call(self, request: Request) -> Any:
        schema = None if request.schema is None else msgspec.json.decode(request.schema)
        told = {"ceiling": request.ceiling, "sample": request.sample, "schema": schema, "system": request.system}
        apart = "system" in self.takes or not request.system
        prompt = request.user if apart else f"{request.system}{BETWEEN}{request.user}"
        self._check_length(request, prompt)
        return self._function(prompt, **{name: told[name] for name in self.takes})

    def _check_length(self, request: Request, prompt: str) -> None:
        if self.count is None or request.prompt_limit is None:
            return
        texts = (prompt, *((request.system,) if "system" in self.takes else ()), *self._schema(request))
        tokens = self.terms.overhead + sum(map(self.count, texts))
        if tokens > request.prompt_limit:
            message = f"the prompt is {tokens} tokens, and {request.prompt_limit} were reserved for it"
            raise CallFailed("overflow", message, NOT_SENT)

    def _schema(self, request: Request) -> tuple[str, ...]:
        return (request.schema.decode(),) if request.schema is not None and "schema" in self.takes else ()


class BlockingCallableModel(CallableModel):
    """Of a synchronous callable. Its `complete` waits in a thread; who can should call `complete_blocking`."""

    async def complete(self, request: Request) -> Reply:
        reply = await asyncio.to_thread(self.complete_blocking, request)
        return await reply if inspect.isawaitable(reply) else reply

    def complete_blocking(self, request: Request) -> Reply | Awaitable[Reply]:
        with _failures():
            value = self._call(request)
            return _later(value) if inspect.isawaitable(value) else reply_of(value)


def as_model(
    complete: Model | Callable[..., Any],
    *,
    name: str | None = None,
    ceiling: int | None = None,
    overhead: int = 64,
    bytes_per_token: int = 1,
    prices: Prices | None = None,
    count: Count | None = None,
    repeat: Repeat = "charged",
) -> Model:
    """A Model of `complete(prompt) -> str | Answer | Reply | None`, plain or async; a Model is returned as it is.

    Where it has parameters of these names it is told `ceiling` (completion tokens at most, None where nothing says so),
    `sample`, `schema` (a JSON schema as a dict, None for free text) and `system` (else the prompt begins with that
    text). With `ceiling`, completion tokens that no call exceeds, its costs are promised (strict): at most `overhead` +
    bytes / `bytes_per_token` + ceiling tokens a call; more than one byte a token needs `count`, an exact counter, so
    that what is longer is not sent. Without, costs are observed. `name` should change whenever its answers may: a
    resume is refused then. Raises UsageError for what cannot be.
    """
    if isinstance(complete, Model):
        if (name, ceiling, prices, count) != (None, None, None, None):
            raise UsageError(f"{complete.name} is a Model and says its own terms: give as_model only the callable")
        return complete
    if not callable(complete):
        raise UsageError(f"complete cannot be called: {complete!r}")
    _check_arity(complete)
    _check_terms(ceiling, overhead, bytes_per_token, count)
    strict = ceiling is not None
    between = len(BETWEEN) if "system" not in _takes(complete) else 0
    terms = Terms(ceiling or 0, overhead + between, bytes_per_token, strict, prices)
    asynchronous = inspect.iscoroutinefunction(complete) or inspect.iscoroutinefunction(type(complete).__call__)
    kind = CallableModel if asynchronous else BlockingCallableModel
    return kind(complete, name or name_of(complete), terms, repeat, count)


def reply_of(value: Any) -> Reply:
    """What a callable returned, as a Reply. Raises CallFailed("contract") for what is none."""
    if isinstance(value, Reply):
        return value
    usage: Usage | None = None
    if isinstance(value, Answer):
        value, usage = value.value, value.usage
    if value is None:
        value = ""
    if not isinstance(value, str):
        message = f"complete returned {type(value).__name__}: return text, Answer(text, usage), a Reply or None"
        raise CallFailed("contract", message, usage)
    return Reply(value, "unknown", usage)


async def _later(value: Awaitable[Any]) -> Reply:
    with _failures():
        return reply_of(await value)


@contextmanager
def _failures() -> Iterator[None]:
    """Whatever a callable raises is a CallFailed."""
    try:
        yield
    except CallFailed:
        raise
    except UsageError as error:
        raise CallFailed("contract", str(error), NOT_SENT) from error
    except TimeoutError as error:
        raise CallFailed("timeout", f"{type(error).__name__}: {error}") from error
    except Exception as error:  # a callable is code we do not know
        raise CallFailed("provider", f"{type(error).__name__}: {error}") from error


def _takes(function: Callable[..., Any]) -> frozenset[str]:
    """By name, so that a function which passes on whatever it is given is called as it always was."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):
        return frozenset()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return OPTIONAL & {parameter.name for parameter in parameters if parameter.kind in kinds}


def _check_arity(function: Callable[..., Any]) -> None:
    try:
        inspect.signature(function).bind("", **dict.fromkeys(_takes(function)))
    except TypeError as error:
        raise UsageError(f"{name_of(function)} must accept (prompt): {error}") from error
    except ValueError:  # a builtin without a signature: it is asked, not inspected
        return


def _check_terms(ceiling: int | None, overhead: int, bytes_per_token: int, count: Count | None) -> None:
    if ceiling is not None and (type(ceiling) is not int or ceiling < 1):
        raise UsageError(f"ceiling is {ceiling!r}: it must be a positive whole number of tokens, or left out")
    if type(overhead) is not int or overhead < 0:
        raise UsageError(f"overhead is {overhead!r}: it must be a whole number of tokens")
    if type(bytes_per_token) is not int or not 1 <= bytes_per_token <= 64:
        raise UsageError(f"bytes_per_token is {bytes_per_token!r}: it must be a whole number from 1 to 64")
    if bytes_per_token > 1 and ceiling is not None and count is None:
        raise UsageError(
            f"bytes_per_token={bytes_per_token} is no bound on its own: give count=, an exact counter of tokens, or "
            "leave it at 1"
        )
