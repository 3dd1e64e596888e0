"""JSON schemas that constrain replies, and replies checked against them.

What a provider enforces is its own matter; here a reply is checked for `type`, `enum`, `const`, `properties`,
`required`, `additionalProperties: false` and `items`. Other keywords are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec

from agentdescent.artifact.strategy import AppendRules, Components, KeyedRules, SingleSlot, Strategy, normalise
from agentdescent.errors import UsageError

ANSWER = "answer"
"""The field of a chosen answer."""

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
_encoder = msgspec.json.Encoder()


def choice_schema(choices: Sequence[str]) -> dict[str, Any]:
    """An object whose `answer` is one of the choices: a bare enum is no schema to most providers."""
    return _object({ANSWER: {"type": "string", "enum": list(choices)}})


def proposal_schema(strategy: Strategy) -> dict[str, Any]:
    """What `templates.propose_template(strategy, structured=True)` asks for."""
    text: dict[str, Any] = {"type": "string"}
    match strategy:
        case AppendRules():
            op = {"type": "string", "enum": ["add", "replace", "drop", "none"]}
            return _object({"op": op, "number": {"type": "integer"}, "text": text})
        case SingleSlot():
            return _object({"text": text})
        case KeyedRules():
            return _object({"key": {"type": "string", "enum": list(strategy.categories)}, "text": text})
        case Components():
            return _object({"key": {"type": "string"}, "text": text})
        case _:
            assert_never(strategy)


def encoded(schema: Mapping[str, Any], role: str) -> bytes:
    """As it is sent. Raises UsageError that names it by its role."""
    try:
        return _encoder.encode(dict(schema))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{role} is no JSON schema: {error}") from error


def decoded(text: str, schema: bytes) -> Any:
    """The value that a text is. Raises ValueError that says what is wrong with it."""
    try:
        value = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    wrong = _mismatch(value, msgspec.json.decode(schema), "the reply")
    if wrong is not None:
        raise ValueError(wrong)
    return value


def proposal_of(value: Any, strategy: Strategy) -> str | None:
    """The reply, in the grammar of the strategy, that an object with `op`, `key` or `number`, and `text` stands for;
    None when it proposes nothing. Other fields are left alone: a model may reason in one."""
    fields = value if isinstance(value, dict) else {}
    text = fields.get("text")
    body = text.strip() if isinstance(text, str) else ""
    match strategy:
        case SingleSlot():
            return body or None
        case KeyedRules():
            key = fields.get("key")
            return f"{key}: {normalise(body)}" if body and isinstance(key, str) else None
        case Components():
            key = fields.get("key")
            return msgspec.json.encode({key: body}).decode() if body and isinstance(key, str) else None
        case AppendRules():
            key = fields.get("number", fields.get("key"))
            return _directive(fields.get("op", "add"), key, normalise(body))
        case _:
            assert_never(strategy)


def _directive(op: Any, key: Any, text: str) -> str | None:
    if op == "drop":
        return f"drop {key}"
    if op == "replace" and text:
        return f"replace {key}: {text}"
    return f"add: {text}" if op == "add" and text else None


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _mismatch(value: Any, schema: Any, where: str) -> str | None:
    """What about a value is not of the schema; None when nothing is."""
    if not isinstance(schema, dict):
        return f"{where} is not allowed" if schema is False else None
    kinds = schema.get("type")
    names = kinds if isinstance(kinds, list) else [kinds] if isinstance(kinds, str) else []
    if names and not any(_is(value, name) for name in names):
        return f"{where} is not of type {' or '.join(map(str, names))}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} is none of the values allowed"
    if "const" in schema and value != schema["const"]:
        return f"{where} is not the value allowed"
    if isinstance(value, dict):
        return _fields(value, schema, where)
    if isinstance(value, list) and "items" in schema:
        found = (_mismatch(one, schema["items"], f"{where}[{i}]") for i, one in enumerate(value))
        return next(filter(None, found), None)
    return None


def _fields(value: dict[str, Any], schema: dict[str, Any], where: str) -> str | None:
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where} has no {name!r}"
    properties = schema.get("properties", {})
    for name, one in value.items():
        if name in properties:
            wrong = _mismatch(one, properties[name], f"{name!r} of {where}")
            if wrong is not None:
                return wrong
        elif schema.get("additionalProperties") is False:
            return f"{where} has {name!r}, which is not allowed"
    return None


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, object))
