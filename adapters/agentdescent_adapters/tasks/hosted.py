"""Rows of public data sets over HTTP, without any package for it: a few pages of a large one, or one file.

What is fetched is kept on disk (see `kept`), by its address: server, data set, config, split and offset of a page.
`cache=False` neither reads nor writes what is kept, and is how to get the rows of today.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from agentdescent.errors import RunError, UsageError
from agentdescent_adapters.tasks.fetch import fetch
from agentdescent_adapters.tasks.kept import kept, response_directory
from agentdescent_adapters.tasks.rows import listed

HF_SERVER = "https://datasets-server.huggingface.co"
PAGE = 100
"""Rows a request: the most that the server gives."""


class _Feature(msgspec.Struct):
    name: str
    type: dict[str, object] | list[object] = {}


class _Entry(msgspec.Struct):
    row: dict[str, object]
    truncated_cells: list[str] = []


class _Page(msgspec.Struct):
    rows: list[_Entry]
    num_rows_total: int
    features: list[_Feature] = []


class _Source(msgspec.Struct, frozen=True):
    """A split of a data set at a server, and where its pages are kept."""

    dataset: str
    split: str
    config: str
    base_url: str
    directory: Path | None
    deadline: float

    def page(self, offset: int) -> _Page:
        asked = {"dataset": self.dataset, "config": self.config, "split": self.split, "offset": offset, "length": PAGE}
        url = f"{self.base_url.rstrip('/')}/rows?{urlencode(asked)}"
        remedy = "check data set, config and split; one that is not public is loaded with hf(...)"
        get = partial(fetch, url, remedy, deadline=self.deadline)
        return kept(url, get, partial(_page, url), self.directory)


def hf_rows(
    dataset: str,
    split: str = "train",
    config: str = "default",
    limit: int | None = 100,
    cache: bool = True,
    *,
    directory: str | Path | None = None,
    base_url: str = HF_SERVER,
    deadline: float = 60.0,
) -> list[dict[str, object]]:
    """The first `limit` rows of a split (all of it for None) from the rows API of a Hugging Face dataset server.

    `deadline`: seconds for each page of 100, with its repetitions. Raises UsageError for what the server does not have,
    RunError when it does not answer, cuts cells off, or changed the data set between two pages.
    """
    _check_limit(limit)
    source = _Source(dataset, split, config, base_url, response_directory(cache, directory), deadline)
    rows: list[dict[str, object]] = []
    for page in _pages(source, limit):
        rows += [_whole(source, entry) for entry in page.rows]
    return rows[:limit]


def hf_label_names(
    dataset: str,
    split: str = "train",
    config: str = "default",
    column: str = "label",
    cache: bool = True,
    *,
    directory: str | Path | None = None,
    base_url: str = HF_SERVER,
    deadline: float = 60.0,
) -> list[str]:
    """The names of the classes that a column of `hf_rows` holds the numbers of: what `tasks_of` takes as `names`."""
    source = _Source(dataset, split, config, base_url, response_directory(cache, directory), deadline)
    features = source.page(0).features
    for feature in features:
        if feature.name == column and isinstance(feature.type, dict) and feature.type.get("_type") == "ClassLabel":
            return msgspec.convert(feature.type.get("names"), list[str])
    raise UsageError(f"{dataset}: {column!r} is no column of classes: there is {listed(f.name for f in features)}")


def hf_rows_modelscope(
    url: str,
    limit: int | None = 100,
    cache: bool = True,
    *,
    directory: str | Path | None = None,
    deadline: float = 600.0,
) -> list[dict[str, object]]:
    """The first `limit` rows (all for None) of a JSON or JSONL file at `url`, shaped as Hugging Face shapes them.

    A field that holds nothing but lists of [title, [sentences]] pairs becomes {"title": [...], "sentences": [[...]]} in
    every row. `deadline`: seconds for the file. Raises as `hf_rows` does.
    """
    _check_limit(limit)
    get = partial(fetch, url, "check the address", deadline=deadline)
    rows = kept(url, get, partial(_file_rows, url), response_directory(cache, directory))
    return _normalised(rows)[:limit]


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise UsageError(f"limit {limit}: ask for at least 1 row, or None for all")


def _pages(source: _Source, limit: int | None) -> Iterator[_Page]:
    offset, total = 0, None
    while total is None or offset < (total if limit is None else min(limit, total)):
        page = source.page(offset)
        if page.num_rows_total != (page.num_rows_total if total is None else total):
            raise RunError(
                f"{source.dataset}: {total} rows by one page, {page.num_rows_total} by another: it was changed "
                "meanwhile: pass cache=False, or another directory"
            )
        total = page.num_rows_total
        if not page.rows and offset < total:
            raise RunError(f"{source.dataset}: no rows at {offset} of {total}: ask for fewer, or load it with hf(...)")
        offset += len(page.rows)
        yield page


def _whole(source: _Source, entry: _Entry) -> dict[str, object]:
    if entry.truncated_cells:
        cells = listed(entry.truncated_cells)
        raise RunError(f"{source.dataset}: the server cut off {cells}: load the data set whole, with hf(...)")
    return entry.row


def _page(url: str, body: bytes) -> _Page:
    try:
        return msgspec.json.decode(body, type=_Page)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RunError(f"{url}: the answer is no page of rows ({error}): check the address of the server") from error


def _file_rows(url: str, body: bytes) -> list[dict[str, object]]:
    content = body.removeprefix(b"\xef\xbb\xbf").strip()
    try:
        if content.startswith(b"["):
            return msgspec.json.decode(content, type=list[dict[str, object]])
        lines = [line for line in content.split(b"\n") if line.strip()]
        return [msgspec.json.decode(line, type=dict[str, object]) for line in lines]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RunError(f"{url}: no list of objects, nor one a line ({error}): check the address") from error


def _normalised(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    names = dict.fromkeys(name for row in rows for name in row)
    paired = {name for name in names if _paired([row.get(name) for row in rows])}
    return [{name: _columns(value) if name in paired else value for name, value in row.items()} for row in rows]


def _paired(values: list[object]) -> bool:
    """Whether each value is absent or a list of pairs, and at least one has a pair."""
    return any(values) and all(value is None or _pairs(value) is not None for value in values)


def _pairs(value: object) -> list[tuple[str, list[str]]] | None:
    try:
        return msgspec.convert(value, list[tuple[str, list[str]]])
    except msgspec.ValidationError:
        return None


def _columns(value: object) -> object:
    pairs = _pairs(value)
    if pairs is None:
        return value
    return {"title": [title for title, _ in pairs], "sentences": [sentences for _, sentences in pairs]}
