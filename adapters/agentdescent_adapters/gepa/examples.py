"""Examples of any kind as tasks: a text that says what they are, an id, a cluster, and which part they belong to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar

import msgspec

from agentdescent.effects import clean
from agentdescent.errors import UsageError
from agentdescent.ports import Task

D = TypeVar("D")
D_co = TypeVar("D_co", covariant=True)
Naming: TypeAlias = Callable[[D], str]

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_AS_MAPPING = ("toDict", "model_dump", "to_dict")


class Loader(Protocol[D_co]):
    """gepa.core.data_loader.DataLoader."""

    def all_ids(self) -> Sequence[Any]: ...
    def fetch(self, ids: Sequence[Any]) -> Sequence[D_co]: ...


class Split(TypedDict, total=False):
    """The options of `evolve` that make its parts the given ones: tests first, then held-out, the rest trains."""

    shuffle: bool
    heldout_share: float
    heldout_limit: int
    test_share: float
    test_limit: int


def listed(examples: Iterable[D] | Loader[D]) -> list[D]:
    if hasattr(examples, "all_ids") and hasattr(examples, "fetch"):
        return list(examples.fetch(examples.all_ids()))
    return list(examples)


def plain(value: object) -> str:
    """JSON of a value of any kind; where it holds something else, that as a mapping if it can say so, or as text.

    Equal in every process for equal values: without addresses, and with sets and keys in order.
    """
    try:
        return msgspec.json.encode(value, enc_hook=_other, order="deterministic").decode()
    except Exception:  # the methods of an object we do not know, or a value that is no text
        return msgspec.json.encode(_text(value)).decode()


def _other(value: object) -> object:
    for name in _AS_MAPPING:
        method = getattr(value, name, None)
        if callable(method):
            return method()
    return _text(value)


def _text(value: object) -> str:
    try:
        return _ADDRESS.sub("", clean(str(value)))
    except Exception:  # an object that cannot even be printed
        return type(value).__name__


def tasks_of(
    part: str,
    examples: Sequence[D],
    id: Naming[D] | None,
    text: Naming[D] | None,
    cluster: Naming[D] | None,
) -> list[Task]:
    """One task an example. Raises UsageError when a function of the caller fails or returns no text."""
    found = list[Task]()
    for number, example in enumerate(examples):
        place = f"{part}-{number}"
        name = place if id is None else _asked("id", id, example, place)
        said = _asked("text", text, example, place) if text is not None else _prompt(example)
        meta = {} if cluster is None else {"cluster": _asked("cluster", cluster, example, place)}
        found.append(Task(name, said, meta))
    return found


def _prompt(example: object) -> str:
    return example if isinstance(example, str) else plain(example)


def _asked(what: str, function: Naming[D], example: D, place: str) -> str:
    try:
        found = function(example)
    except Exception as error:  # a function we do not know; nothing was spent yet
        raise UsageError(f"{what}= failed for example {place}: {type(error).__name__}: {error}") from error
    if not isinstance(found, str):
        raise UsageError(f"{what}= returned {found!r} for example {place}: return text")
    return found


def split_of(train: int, heldout: int | None, test: int) -> Split:
    """Nothing to say where the parts are drawn from one list."""
    n = train + (heldout or 0) + test
    if heldout is None:
        return Split()
    return Split(
        shuffle=False, heldout_share=heldout / n, heldout_limit=heldout, test_share=test / n, test_limit=max(1, test)
    )
