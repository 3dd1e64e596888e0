"""Labelled tasks from one JSON document: a list of rows, or an object that holds one list a split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from agentdescent.errors import UsageError
from agentdescent.ports import Task
from agentdescent_adapters.tasks.files import raw_text, read_text
from agentdescent_adapters.tasks.rows import Row, checked, listed

_Document: TypeAlias = list[msgspec.Raw] | dict[str, msgspec.Raw]
_T = TypeVar("_T")
_document: msgspec.json.Decoder[_Document] = msgspec.json.Decoder(_Document)
_list = msgspec.json.Decoder(list[msgspec.Raw])


def load_json(
    path: str | Path, *, text: str = "text", label: str = "label", id: str | None = None, split: str | None = None
) -> list[Task]:
    """A task per row, known by its number from 1. `text`, `label` and `id` name fields of rows that are objects; a row
    may also be a pair [text, label]. `split` names the list to take from a document that is an object."""
    source = path if split is None else f"{path}, {split}"
    return checked(source, _rows(source, _raw_rows(path, split), text, label, id))


def _raw_rows(path: str | Path, split: str | None) -> list[msgspec.Raw]:
    document = _decoded(path, _document, read_text(path))
    if isinstance(document, list):
        if split is not None:
            raise UsageError(f"{path}: one list without splits: do not name {split!r}")
        return document
    if split is None or split not in document:
        problem = "an object" if split is None else f"no split {split!r}"
        raise UsageError(f"{path}: {problem}: name the list in it as split, there is {listed(document)}")
    return _decoded(f"{path}, {split}", _list, document[split])


def _decoded(where: str | Path, decoder: msgspec.json.Decoder[_T], data: str | msgspec.Raw) -> _T:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: no list of rows: write [...] ({error})") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{where}: not JSON ({error}): name a file of one object a line .jsonl") from error


def _rows(source: str | Path, rows: list[msgspec.Raw], text: str, label: str, id: str | None) -> Iterator[Row]:
    for number, raw in enumerate(rows, 1):
        place = f"row {number}"
        where = f"{source}, {place}"
        fields, text_name, label_name = _fields(where, raw, text, label)
        key = str(number) if id is None else raw_text(where, fields, "id", id)
        yield Row(place, key, raw_text(where, fields, "text", text_name), raw_text(where, fields, "label", label_name))


def _fields(where: str, raw: msgspec.Raw, text: str, label: str) -> tuple[Mapping[str, msgspec.Raw], str, str]:
    """The fields of a row and which of them are its text and its label."""
    try:
        row = _document.decode(raw)
    except msgspec.DecodeError as error:
        raise UsageError(f"{where}: neither an object nor a pair: write {{...}} or [text, label]") from error
    if isinstance(row, dict):
        return row, text, label
    if len(row) != 2:
        raise UsageError(f"{where}: a list of {len(row)}, no pair: write {{...}} or [text, label]")
    return {"text": row[0], "label": row[1]}, "text", "label"
