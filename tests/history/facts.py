"""Arbitrary events, and a small plain log, for tests of everything that writes or reads one."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from agentdescent.artifact.diff import Add, Drop, digest
from agentdescent.budget.usage import Amount, Usage
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import Decided, Event, GateOpened, Interrupted, Judged, Proposed, RolledOut
from agentdescent.history.log import GENESIS, encode
from agentdescent.merge.verdict import GateEvidence

_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    str: st.text(st.characters(codec="utf-8"), max_size=20),
    type(None): st.none(),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Everything of a type that a record may hold, and that JSON can carry: int64, finite floats, no surrogates."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(values, arguments))
    if origin is tuple and arguments[-1:] == (...,):
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, arguments))
    assert issubclass(kind, msgspec.Struct), kind
    return st.builds(kind, **{field.name: values(field.type) for field in msgspec.structs.fields(kind)})


events: st.SearchStrategy[Event] = st.deferred(lambda: values(Event))

AWKWARD = '北京 🌍\r\n\x00\x85\u2028 \\ " \ufeff'


def rollout(command: int, worker: int = 0, *, purpose: Literal["rollout", "gate"] = "rollout") -> Decided:
    return Decided(Rollout(command, purpose, "a" * 32, 3, 512, Amount(tokens=600)), 1, worker)


def propose(command: int, reads: int, worker: int = 0) -> Decided:
    return Decided(Propose(command, "a" * 32, reads, 3, 0, 250_000, 512, Amount(tokens=600)), 1, worker, 0)


def rolled(command: int, output: str = "") -> RolledOut:
    data = output.encode()
    return RolledOut(command, 500_000, len(data), digest(data), Usage(prompt=90, completion=10))


def small_log() -> tuple[Event, ...]:
    """One turn of one worker, with every awkward character."""
    return (
        rollout(0),
        rolled(0, AWKWARD),
        propose(1, 0),
        Proposed(1, (Add("k", AWKWARD), Drop("北京")), Usage(prompt=5)),
        GateOpened(0, (0,), "b" * 32, 99, "a" * 32, 0, 1_000_000, 0, 500_000, Amount(tokens=600)),
        rollout(2, purpose="gate"),
        rolled(2, "no"),
        Judged(0, "regression", (0,), GateEvidence(0, 500_000, 250_000, 500_000, 1, 1)),
        Interrupted("cancelled"),
    )


def lines_of(facts: Sequence[Event]) -> list[bytes]:
    after, lines = GENESIS, []
    for n, event in enumerate(facts):
        line, after = encode(n, after, event)
        lines.append(line)
    return lines
