"""A run in one TOML file: sections, or all keys flat. Every message names the file, the key and the remedy.

Which sections there are, and which keys are in them, says `sections`. Paths are relative to the file.
"""

from __future__ import annotations

import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from agentdescent.errors import UsageError
from agentdescent_adapters.command.config import FILES, RunConfig, local
from agentdescent_adapters.command.sections import SECTIONS, homes, nearest

_HINTS = typing.get_type_hints(RunConfig)
_KINDS: dict[object, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "a text in quotes"}
_SECRETS = ("api_key", "key", "token", "secret", "password", "api_token")


def merge(file: str | None, flags: dict[str, Any]) -> RunConfig:
    """A config of a TOML file (if any) with flags on top. Raises UsageError that names the key and the remedy."""
    values = {} if file is None else read(file)
    try:
        return msgspec.convert({**values, **flags}, RunConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"{file or 'flags'}: {error}: `agentdescent run --help` says what each takes") from error


def read(file: str) -> dict[str, Any]:
    """Fields and values of a file, paths as seen from here."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror}): check the path") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8 ({error}): save it as UTF-8") from error
    values = parse(text, file)
    for field in FILES:
        value = values.get(field)
        if isinstance(value, str) and local(field, value):
            values[field] = str(Path(file).parent / value)
    return values


def parse(text: str, file: str) -> dict[str, Any]:
    """Fields and values of such a text, which is that of `file`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        twice = str(error).startswith(("Cannot overwrite", "Cannot declare"))
        remedy = "it is given twice, leave out one of them" if twice else "write it as TOML, `key = value` a line"
        raise UsageError(f"{file}: {error}: {remedy}") from error
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for name, value in document.items():
        rows = _section(file, name, value) if isinstance(value, dict) else [_top(file, name)]
        for place, field, key in rows:
            if field in values:
                raise UsageError(f"{file}: {places[field]} and {place} are one key: leave out one of them")
            values[field] = _checked(file, place, field, value[key] if key is not None else value)
            places[field] = place
    return values


def _top(file: str, name: str) -> tuple[str, str, str | None]:
    """Place, field, and the key of it if it is in a section."""
    if name in _HINTS:
        return name, name, None
    if name in SECTIONS:
        raise UsageError(f"{file}: {name!r} is a section: write [{name}] on a line of its own, and its keys below")
    raise UsageError(f"{file}: unknown key {name!r}{_remedy(name, [*_HINTS, *SECTIONS])}")


def _section(file: str, section: str, keys: Mapping[str, object]) -> list[tuple[str, str, str | None]]:
    if section not in SECTIONS:
        if section in _HINTS:
            raise UsageError(f"{file}: [{section}] is no section: it is the key {homes(section)[0]}")
        near = nearest(section, SECTIONS) or f": the sections are {', '.join(SECTIONS)}"
        raise UsageError(f"{file}: unknown section [{section}]{near}")
    known = SECTIONS[section]
    for key in keys:
        if key not in known:
            raise UsageError(f"{file}: unknown key {key!r} in [{section}]{_remedy(key, known)}")
    return [(f"[{section}] {key}", known[key], key) for key in keys]


def _remedy(name: str, known: Mapping[str, str] | list[str]) -> str:
    """Where a name that is unknown here belongs, or which one was meant."""
    if name.lower() in _SECRETS:
        return ": a config holds no credentials; put it into a variable of the environment, and its name as api_key_env"
    elsewhere = homes(name)
    if elsewhere:
        return f": it is {' or '.join(elsewhere)}"
    return nearest(name, known) or f": the keys are {', '.join(known)}"


def _checked(file: str, place: str, field: str, value: object) -> object:
    """The value, if it is one of that field."""
    try:
        return msgspec.convert(value, _HINTS[field])
    except msgspec.ValidationError as error:
        options = _options(_HINTS[field])
        near = nearest(value, [word for word in options if " " not in word]) if isinstance(value, str) else ""
        raise UsageError(f"{file}: {place} is {_shown(value)}: it takes {' or '.join(options)}{near}") from error


def _options(hint: object) -> list[str]:
    """What a field takes, in words: `a whole number`, or the words themselves."""
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return [word for member in members if member is not type(None) for word in _options(member)]
    if origin is typing.Literal:
        return [str(word) for word in members]
    return [_KINDS.get(hint, str(hint))]


def _shown(value: object) -> str:
    """A value as TOML writes it, cut to fit on a line."""
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
