"""What the constructors of models check and share."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from agentdescent.budget.tariff import Prices
from agentdescent.errors import UsageError
from agentdescent_adapters.providers.http import Timeouts
from agentdescent_adapters.providers.model import Terms
from agentdescent_adapters.providers.pools import LOCAL
from agentdescent_adapters.providers.prices import Price, prices_of
from agentdescent_adapters.providers.tokens import Counter
from agentdescent_adapters.providers.wire import Parameters

CeilingField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]

_CEILING = "give ceiling=, and ceiling_field= if need be"
_OURS: Mapping[str, str] = {
    "max_tokens": _CEILING,
    "max_completion_tokens": _CEILING,
    **{name: f"give {name}=" for name in ("model", "temperature", "seed", "stream")},
    **dict.fromkeys(("messages", "system", "stream_options"), "leave it out"),
    "n": "every answer but the first would be paid for, and not read",
}
"""Fields that `extra` may not have, and what to do instead."""


def parameters_of(
    model: str,
    *,
    ceiling: int,
    temperature: float | None,
    seed: int | None = None,
    ceiling_field: CeilingField = "max_tokens",
    extra: Mapping[str, object] | None = None,
) -> Parameters:
    """Raises UsageError that names what cannot be sent."""
    if type(model) is not str or not model:
        raise UsageError(f"model is {model!r}: give the name that the provider knows it by")
    if type(ceiling) is not int or ceiling < 1:
        raise UsageError(f"ceiling is {ceiling!r}: it must be a number of completion tokens, at least 1")
    if temperature is not None and not (
        type(temperature) in (int, float) and math.isfinite(temperature) and temperature >= 0
    ):
        raise UsageError(f"temperature is {temperature!r}: it must be a number of at least 0, or None to send none")
    if seed is not None and type(seed) is not int:
        raise UsageError(f"seed is {seed!r}: it must be a whole number, or None to send none")
    if ceiling_field not in ("max_tokens", "max_completion_tokens"):
        raise UsageError(f"ceiling_field is {ceiling_field!r}: it is max_tokens or max_completion_tokens")
    return Parameters(model, ceiling, temperature, seed, ceiling_field, _extra({} if extra is None else extra))


def _extra(extra: object) -> Mapping[str, object]:
    """Further fields, none of which says anew what the request says: how much a call costs is among that."""
    if not isinstance(extra, Mapping) or not all(isinstance(name, str) for name in extra):
        raise UsageError(f"extra is {extra!r}: give the further fields of a request by name")
    for name, remedy in _OURS.items():
        if name in extra:
            raise UsageError(f"extra has {name!r}, which is not for it to say: {remedy}")
    try:
        msgspec.json.encode(extra)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise UsageError(f"extra cannot be sent as JSON: {error}") from error
    return dict(extra)


def name_of(format_name: str, parameters: Parameters) -> str:
    """All that changes an answer; not who is asked, so that a run may go on where the model is served elsewhere."""
    said = [f"temperature={parameters.temperature}", f"ceiling={parameters.ceiling}"]
    if parameters.seed is not None:
        said.append(f"seed={parameters.seed}")
    if parameters.extra:
        said.append(f"extra={msgspec.json.encode(parameters.extra, order='deterministic').decode()}")
    return " ".join((format_name, parameters.model, *said))


def terms_of(
    parameters: Parameters,
    *,
    overhead: int,
    bytes_per_token: int | None,
    counter: Counter | None,
    prices: Prices | Price | Mapping[str, Price] | None,
    strict: bool,
) -> Terms:
    """Raises UsageError for a bound that nothing keeps."""
    if counter is not None and not callable(counter):
        raise UsageError(f"counter is {counter!r}: it must be a function from a text to its tokens")
    ratio = bytes_per_token if bytes_per_token is not None else 1 if counter is None else 2
    if type(ratio) is not int or not 1 <= ratio <= 64:
        raise UsageError(f"bytes_per_token is {ratio!r}: it must be a whole number from 1 to 64")
    if ratio > 1 and counter is None:
        raise UsageError(
            f"bytes_per_token is {ratio}, and nothing counts the tokens: give counter=, or leave bytes_per_token at 1"
        )
    if type(overhead) is not int or overhead < 0:
        raise UsageError(f"overhead is {overhead!r}: it must be the tokens that a template adds, at least 0")
    return Terms(parameters.ceiling, overhead, ratio, strict, prices_of(parameters.model, prices))


def timeouts_of(timeout: float, connect: float, stall: float) -> Timeouts:
    for name, seconds in (("timeout", timeout), ("connect_timeout", connect), ("stall_timeout", stall)):
        if type(seconds) not in (int, float) or not (math.isfinite(seconds) and seconds > 0):
            raise UsageError(f"{name} is {seconds!r}: it must be a positive number of seconds")
    return Timeouts(timeout, connect, stall)


def url_of(base_url: object, path: str) -> str:
    """The base URL without what the path repeats of it. Raises UsageError for what cannot be asked, or would tell a
    password to whoever reads a message."""
    url = base_url if isinstance(base_url, str) else ""
    if "@" in url.partition("://")[2].partition("/")[0] or "?" in url or "#" in url:
        raise UsageError("base_url holds a user, a password or a query: leave them out; the key is given by itself")
    try:
        parts = urlsplit(url)
        named = bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError as error:  # a port that is none, brackets that do not close, a name that is too long
        raise UsageError(f"base_url is no address ({error}): give one like https://host/v1") from error
    if not (named and parts.scheme in ("http", "https") and url.isprintable() and " " not in url):
        raise UsageError(f"base_url is {base_url!r}: give one like https://host/v1")
    url = url.rstrip("/")
    first = path[: path.index("/", 1)] if "/" in path[1:] else ""
    return url.removesuffix(path).removesuffix(first) if first else url.removesuffix(path)


def ceiling_field_at(base_url: str) -> CeilingField:
    """The field in which a server wants the ceiling: models of OpenAI refuse the older one, others know only that."""
    return "max_completion_tokens" if urlsplit(base_url).hostname == "api.openai.com" else "max_tokens"


def public(url: str) -> str:
    """An address without user, password and query, for messages."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def key_of(api_key: str | None, variable: str, url: str) -> str:
    """The key given, else that of the environment. A local server needs none."""
    given: object = os.environ.get(variable, "") if api_key is None else api_key
    if not isinstance(given, str):
        raise UsageError(f"api_key is a {type(given).__name__}: it must be text")
    key = given.strip()
    if not key and api_key is None and urlsplit(url).hostname not in LOCAL:
        raise UsageError(f"no key for {url}: set {variable}, or give api_key= (api_key='' for none)")
    if not key.isascii() or not key.isprintable():
        raise UsageError("the key has characters that no header can carry: copy it again")
    return key
