"""Labelled tasks from Parquet files. Needs the extra `parquet`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from agentdescent.errors import UsageError
from agentdescent.ports import Task
from agentdescent_adapters.tasks.extras import missing
from agentdescent_adapters.tasks.files import unreadable
from agentdescent_adapters.tasks.rows import Row, as_text, check_columns, checked

if TYPE_CHECKING:
    import pyarrow


def load_parquet(path: str | Path, *, text: str = "text", label: str = "label", id: str | None = None) -> list[Task]:
    """A task per row, known by its number from 1. `text`, `label` and `id` name columns; numbers and booleans become
    text, categories their names. Only the named columns are read."""
    table = _table(path, text, label, id)
    return checked(path, _rows(path, table, text, label, id))


def _table(path: str | Path, text: str, label: str, id: str | None) -> pyarrow.Table:
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise missing("a Parquet file", "pyarrow", "parquet", error) from error
    with _opened(path) as file:
        try:
            parquet = ParquetFile(file)
            check_columns(path, parquet.schema_arrow.names, text, label, id)
            return parquet.read(columns=list(dict.fromkeys(name for name in (text, label, id) if name is not None)))
        except (pyarrow.ArrowException, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise UsageError(f"{path}: not a whole Parquet file ({reason}): write it again") from error


def _opened(path: str | Path) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise unreadable(path, error) from error


def _rows(path: str | Path, table: pyarrow.Table, text: str, label: str, id: str | None) -> Iterator[Row]:
    ids = None if id is None else _texts(path, table, "id", id)
    pairs = zip(_texts(path, table, "text", text), _texts(path, table, "label", label), strict=True)
    for number, (prompt, right) in enumerate(pairs, 1):
        yield Row(f"row {number}", str(number) if ids is None else next(ids), prompt, right)


def _texts(path: str | Path, table: pyarrow.Table, role: str, name: str) -> Iterator[str]:
    for number, scalar in enumerate(table.column(name), 1):
        where = f"{path}, row {number}"
        try:
            value: object = scalar.as_py()
        except UnicodeDecodeError as error:
            raise UsageError(f"{where}: {name!r} is not UTF-8 (byte {error.start + 1}): write it as UTF-8") from error
        yield as_text(where, role, name, value)
