"""Rows to labelled tasks: the same checks wherever the rows come from.

Whatever is wrong with a row is a UsageError of one line that names its source, its place and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import msgspec

from agentdescent.errors import UsageError
from agentdescent.ports import Task


class Row(msgspec.Struct, frozen=True):
    """A row as text. `place` says where in its source it is; `cluster` is that of its label when None."""

    place: str
    id: str
    text: str
    label: str
    cluster: str | None = None


def tasks_of(
    rows: Iterable[Mapping[str, object]],
    *,
    text: str = "text",
    label: str = "label",
    id: str | None = None,
    cluster: str | None = None,
    names: Sequence[str] | None = None,
    source: str = "rows",
) -> list[Task]:
    """A task per row. `text`, `label`, `id` and `cluster` name fields; numbers and booleans become text.

    Without `id` a task is known by the number of its row, from 1; without `cluster` tasks of one label are similar.
    `names` are those of the classes when labels are class numbers, from 0. `source` is what errors call the rows.
    """
    return checked(source, (_row(source, n, row, text, label, id, cluster, names) for n, row in enumerate(rows, 1)))


def checked(source: str | Path, rows: Iterable[Row]) -> list[Task]:
    """A task per row. UsageError for an empty label, an id used twice, and no row at all."""
    tasks: list[Task] = []
    places: dict[str, str] = {}
    for row in rows:
        if not row.label.strip():
            raise UsageError(f"{source}, {row.place}: the label is empty: fill it in or remove the row")
        if row.id in places:
            raise UsageError(f"{source}, {row.place}: id {row.id!r} is that of {places[row.id]} too: make ids unique")
        places[row.id] = row.place
        cluster = row.label if row.cluster is None else row.cluster
        tasks.append(Task(row.id, row.text, {"label": row.label, "cluster": cluster}))
    if not tasks:
        raise UsageError(f"{source}: no rows: give it at least one")
    return tasks


def check_columns(source: str | Path, columns: Sequence[str], text: str, label: str, id: str | None) -> None:
    """UsageError unless each column that is named is there, once."""
    for role, name in (("text", text), ("label", label), ("id", id)):
        if name is not None and columns.count(name) != 1:
            problem = "two columns" if name in columns else "no column"
            raise UsageError(f"{source}: {problem} {name!r} ({role}): name another, there is {listed(columns)}")


def as_text(where: str, role: str, name: str, value: object) -> str:
    """A value as the text of a task: numbers in full, booleans as JSON has them. UsageError for anything else."""
    match value:
        case None:
            raise UsageError(f"{where}: no {name!r} ({role}): fill it in or remove the row")
        case str():
            return _valid(where, name, value)
        case bool():
            return "true" if value else "false"
        case int() | float() | Decimal() if value == value:
            return str(value)
        case float() | Decimal():
            raise UsageError(f"{where}: {name!r} ({role}) is not a number (NaN): fill it in or remove the row")
        case _:
            raise UsageError(f"{where}: {name!r} ({role}) is no text: make it one or name another field")


def class_name(where: str, name: str, value: object, names: Sequence[str]) -> object:
    """The name of the class with that number. UsageError for one there is none of; what is no number stays."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if not 0 <= value < len(names):
        raise UsageError(
            f"{where}: {name!r} is {value}, and there are {len(names)} classes from 0: "
            "remove the row, or load a split that has labels"
        )
    return names[value]


def listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _valid(where: str, name: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{where}: {name!r} is not valid text ({error.reason}): correct it") from error
    return value


def _row(
    source: str,
    number: int,
    row: Mapping[str, object],
    text: str,
    label: str,
    id: str | None,
    cluster: str | None,
    names: Sequence[str] | None,
) -> Row:
    place = f"row {number}"
    where = f"{source}, {place}"

    def field(role: str, name: str) -> str:
        if name not in row:
            raise UsageError(f"{where}: no {name!r} ({role}): add it or name another, there is {listed(row)}")
        value = row[name]
        if role == "label" and names is not None:
            value = class_name(where, name, value, names)
        return as_text(where, role, name, value)

    return Row(
        place,
        str(number) if id is None else field("id", id),
        field("text", text),
        field("label", label),
        None if cluster is None else field("cluster", cluster),
    )
