"""How a reply becomes ops, and entries become the text an agent reads. Pure and total.

Reply grammar, one directive a line, for strategies with several keys:

    add: TEXT          append a rule
    replace KEY: TEXT  put a rule in the place of another
    drop KEY           remove a rule

KEY is the key of an entry, or the hash of the words it holds now: an agent sees the text of a rule, and can compute
the one but not the other once a rule was replaced. A reply without a directive is one new rule. Blank or NONE (any
case) proposes nothing.

For components the reply is a JSON object of the new texts by name. What is no such object proposes nothing.
"""

from __future__ import annotations

import re
from typing import TypeAlias, assert_never

import msgspec

from agentdescent.artifact.diff import Add, Drop, Entries, Op, Ops, Replace, digest
from agentdescent.record import Record

_DIRECTIVE = re.compile(r"(?:(add)\s*:\s*(.*)|(replace)\s+(\S+?)\s*:\s*(.*)|(drop)\s+(\S+))\s*", re.I | re.S)


class AppendRules(Record, frozen=True, tag="append-rules"):
    """A title and one bullet per rule, in commit order; the key of a rule is the hash of its words."""

    title: str = "# Playbook"
    blast_radius: float = 0.2
    max_ops: int = 6
    max_chars: int = 32_000


class SingleSlot(Record, frozen=True, tag="single-slot"):
    """One text, replaced whole; a proposal shorter than `min_chars` is no proposal."""

    key: str = "text"
    min_chars: int = 1
    blast_radius: float = 0.2
    max_ops: int = 6
    max_chars: int = 32_000


class KeyedRules(Record, frozen=True, tag="keyed-rules"):
    """A section per category, `category: text` a line; an unknown category falls back to a content hash."""

    categories: tuple[str, ...]
    title: str = "# Playbook"
    blast_radius: float = 0.2
    max_ops: int = 6
    max_chars: int = 32_000


class Components(Record, frozen=True, tag="components"):
    """Named texts, those of the start artifact and no others, each replaced whole and kept to the character.

    Rendered as a JSON object in the order of the entries, so that `components` reads back exactly what there is.
    """

    blast_radius: float = 0.2
    max_ops: int = 6
    max_chars: int = 32_000


Strategy: TypeAlias = AppendRules | SingleSlot | KeyedRules | Components
_TEXTS: TypeAlias = dict[str, str]


def grammar(strategy: Strategy) -> tuple[object, ...]:
    """What its replies are written in: strategies with an equal one take each other's replies."""
    return type(strategy), strategy.categories if isinstance(strategy, KeyedRules) else ()


def normalise(text: str) -> str:
    """One rule on one line: runs of white space become one space."""
    return " ".join(text.split())


def rule_key(text: str) -> str:
    """The key of a rule: 8 hex digits of the digest of its words, whatever their case and spacing."""
    return digest(normalise(text).casefold().encode("utf-8", "surrogatepass"))[:8]


def render(strategy: Strategy, entries: Entries) -> str:
    """The text an agent reads."""
    match strategy:
        case AppendRules():
            return "\n".join((strategy.title, *(f"- {text}" for _, text in entries)))
        case SingleSlot():
            return entries[0][1] if entries else ""
        case KeyedRules():
            sections = (f"\n## {key}\n{text}" for key, text in entries)
            return "\n".join((strategy.title, *sections))
        case Components():
            return msgspec.json.encode(dict(entries)).decode()
        case _:
            assert_never(strategy)


def components(text: str) -> dict[str, str]:
    """The texts by name, in their order, that a JSON object holds: what `render` made of Components, or a reply.

    Raises msgspec.DecodeError for anything else.
    """
    return msgspec.json.decode(text, type=_TEXTS)


def parse(strategy: Strategy, entries: Entries, reply: str | None) -> Ops:
    """Ops of a reply to an agent that held `entries`; empty when it proposes nothing that has an effect.

    What is too large stays recognisable and bounded: at most `max_ops` + 1 ops, `max_chars` + 1 characters a text.
    """
    text = (reply or "").strip()
    if not text or text.upper() == "NONE":
        return ()
    match strategy:
        case AppendRules():
            ops = _directives(text, entries) or (Add(rule_key(text), normalise(text)),)
        case SingleSlot():
            ops = (Add(strategy.key, text),) if len(text) >= strategy.min_chars else ()
        case KeyedRules():
            ops = _directives(text, entries) or _sections(strategy, text)
        case Components():
            ops = _replaced(text)
        case _:
            assert_never(strategy)
    last = {op.key: op for op in ops}
    held = dict(entries)
    kept = tuple(op for op in last.values() if _acts(op, held))
    return tuple(_clip(op, strategy.max_chars) for op in kept[: strategy.max_ops + 1])


def oversized(strategy: Strategy, ops: Ops) -> bool:
    """Outside the trust region: more than `max_ops` ops or a text over `max_chars` characters."""
    return len(ops) > strategy.max_ops or any(
        not isinstance(op, Drop) and len(op.text) > strategy.max_chars for op in ops
    )


def _acts(op: Op, held: dict[str, str]) -> bool:
    match op:
        case Add():
            return held.get(op.key) != op.text and bool(op.text)
        case Replace():
            return op.key in held and held[op.key] != op.text and bool(op.text)
        case Drop():
            return op.key in held
        case _:
            assert_never(op)


def _clip(op: Op, limit: int) -> Op:
    if isinstance(op, Drop) or len(op.text) <= limit:
        return op
    return type(op)(op.key, op.text[: limit + 1])


def _directives(text: str, entries: Entries) -> Ops:
    keys = {rule_key(held): key for key, held in entries} | {key: key for key, _ in entries}
    ops: list[Op] = []
    for line in text.splitlines():
        found = _DIRECTIVE.fullmatch(line.strip())
        if found is None:
            continue
        added, new, replaced, key, instead, _, dropped = found.groups()
        if added:
            ops.append(Add(rule_key(new), normalise(new)))
        elif replaced:
            ops.append(Replace(keys.get(key, key), normalise(instead)))
        else:
            ops.append(Drop(keys.get(dropped, dropped)))
    return tuple(ops)


def _sections(strategy: KeyedRules, text: str) -> Ops:
    known = {category.casefold() for category in strategy.categories}
    ops: list[Op] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        category, colon, body = line.partition(":")
        key = category.strip().casefold()
        if colon and key in known:
            ops.append(Add(key, normalise(body)))
        else:
            ops.append(Add(rule_key(line), normalise(line)))
    return tuple(ops)


def _replaced(text: str) -> Ops:
    try:
        return tuple(Replace(name, new) for name, new in components(text).items())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ()
