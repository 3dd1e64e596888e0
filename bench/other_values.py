"""Every other value that a field could have, by its type: what an edit of a log puts there."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any, Literal

import msgspec


def variants(value: Any, hint: Any) -> Iterator[Any]:
    """Values of the same type that differ from `value` in one leaf, or by an item that was added or removed."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for member in arguments:
            if isinstance(value, _class_of(member)):
                yield from variants(value, member)
            else:
                yield sample(member)
    elif origin is Literal:
        yield from (other for other in arguments if other != value)
    elif origin is tuple:
        yield from _tuples(value, arguments)
    elif issubclass(hint, msgspec.Struct):
        for name, inner in typing.get_type_hints(hint).items():
            if name in hint.__struct_fields__:
                for other in variants(getattr(value, name), inner):
                    yield msgspec.structs.replace(value, **{name: other})
    elif hint is bool:
        yield not value
    elif hint in (int, float):
        yield from (value + 1, value - 1)
    elif hint is str:
        yield from {f"{value}x", value[1:], value[:-1] + "\u00df", value.swapcase()} - {value}
    elif hint is not types.NoneType:
        raise TypeError(f"no other values of {hint} are known")


def _tuples(value: tuple[Any, ...], hints: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    free = len(hints) == 2 and hints[1] is Ellipsis
    for at, item in enumerate(value):
        before, after = value[:at], value[at + 1 :]
        for other in variants(item, hints[0] if free else hints[at]):
            yield (*before, other, *after)
        if free:
            yield (*before, *after)
            yield (*before, item, item, *after)
            if after and after[0] != item:
                yield (*before, after[0], item, *after[1:])
    if free and not value:
        yield (sample(hints[0]),)


def _class_of(hint: Any) -> Any:
    origin = typing.get_origin(hint)
    return str if origin is Literal else origin or hint


def sample(hint: Any) -> Any:
    """Some value of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return sample(arguments[0])
    if origin is Literal:
        return arguments[0]
    if origin is tuple:
        return () if arguments[-1] is Ellipsis else tuple(map(sample, arguments))
    if issubclass(hint, msgspec.Struct):
        hints = typing.get_type_hints(hint)
        required = (field.name for field in msgspec.structs.fields(hint) if field.required)
        return hint(**{name: sample(hints[name]) for name in required})
    return None if hint is types.NoneType else hint(1)
