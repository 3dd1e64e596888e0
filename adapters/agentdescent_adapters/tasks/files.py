"""Labelled tasks from JSONL and CSV files: UTF-8 whatever the locale, fields as they are, byte for byte.

A task is known by its row: the line number in JSONL, the number of the record in CSV, both from 1, or by an id column.
Whatever is wrong with a file is a UsageError of one line that names the file, the place and the remedy.
"""

from __future__ import annotations

import csv
import io
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from agentdescent.errors import UsageError
from agentdescent.ports import Task
from agentdescent_adapters.tasks.rows import Row, check_columns, checked, listed

_lock = threading.Lock()
_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def load_jsonl(path: str | Path, *, text: str = "text", label: str = "label", id: str | None = None) -> list[Task]:
    """A task per line that is not blank. `text`, `label` and `id` name fields; numbers and booleans become text."""
    return checked(path, _jsonl_rows(path, read_text(path), text, label, id))


def load_csv(path: str | Path, *, text: str = "text", label: str = "label", id: str | None = None) -> list[Task]:
    """A task per record. `text`, `label` and `id` name columns of the header, which is required."""
    return checked(path, list(_csv_rows(path, read_text(path), text, label, id)))


def keep_labels(tasks: Sequence[Task], n: int) -> list[Task]:
    """The tasks of the n most frequent labels, in order; equally frequent labels by name. UsageError for n < 1."""
    if n < 1:
        raise UsageError(f"cannot keep {n} labels: ask for at least 1")
    counts = Counter(str(task.meta["label"]) for task in tasks)
    kept = frozenset(sorted(counts, key=lambda label: (-counts[label], label))[:n])
    return [task for task in tasks if task.meta["label"] in kept]


def unreadable(path: str | Path, error: OSError) -> UsageError:
    return UsageError(f"{path}: cannot be read ({error.strerror}): check the path")


def read_text(path: str | Path) -> str:
    """The text of a file without its byte order mark."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{path}, line {line}: not UTF-8 (byte 0x{data[error.start]:02x}): save it as UTF-8"
        ) from error


def _jsonl_rows(path: str | Path, content: str, text: str, label: str, id: str | None) -> Iterator[Row]:
    # Not splitlines: a string in JSON may contain other line ends than this one.
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            fields = _decoder.decode(line)
        except msgspec.ValidationError as error:
            raise UsageError(f"{where}: not an object: write one {{...}} a line ({error})") from error
        except msgspec.DecodeError as error:
            raise UsageError(f"{where}: not JSON: {error}") from error
        key = str(number) if id is None else raw_text(where, fields, "id", id)
        yield Row(f"line {number}", key, raw_text(where, fields, "text", text), raw_text(where, fields, "label", label))


def raw_text(where: str, fields: Mapping[str, msgspec.Raw], role: str, name: str) -> str:
    """A field as text; a number as it is written."""
    raw = bytes(fields[name]) if name in fields else b"null"
    if raw == b"null":
        raise UsageError(f"{where}: no {name!r} ({role}): add it or name another, there is {listed(fields)}")
    if raw[:1] in (b"{", b"["):
        raise UsageError(f"{where}: {name!r} ({role}) is no text: make it one or name another field")
    try:
        return msgspec.json.decode(raw, type=str) if raw[:1] == b'"' else raw.decode()
    except msgspec.DecodeError as error:
        raise UsageError(f"{where}: {name!r} is not valid text: {error}") from error


def _csv_rows(path: str | Path, content: str, text: str, label: str, id: str | None) -> Iterator[Row]:
    with _field_limit(len(content) + 1):
        reader = csv.DictReader(io.StringIO(content, newline=""), strict=True)
        try:
            columns = list(reader.fieldnames or ())
            if columns:
                check_columns(path, columns, text, label, id)
            for number, row in enumerate(reader, 1):
                place = f"row {number} (line {reader.line_num})"
                if None in row or None in row.values():
                    raise UsageError(f"{path}, {place}: not {len(columns)} fields: quote those with commas in them")
                yield Row(place, str(number) if id is None else row[id], row[text], row[label])
        except csv.Error as error:
            # The line after the last good record: where an unclosed quote may be, not where the file ends.
            raise UsageError(f"{path}, line {reader.line_num + 1}: not CSV ({error}): check the quotes") from error


@contextmanager
def _field_limit(limit: int) -> Iterator[None]:
    """Let fields be that long meanwhile. The limit is one for the whole process: do not suspend what holds it."""
    with _lock:
        before = csv.field_size_limit(limit)
        try:
            yield
        finally:
            csv.field_size_limit(before)
