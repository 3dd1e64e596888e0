"""Tasks of data sets on Hugging Face (extra `hf`) and ModelScope (extra `modelscope`), through their own libraries.

Both take the name of a data set on the hub, or the path of a folder with its files, and keep what they load. Neither is
typed: what comes out of them is cast once, here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, cast, runtime_checkable

import msgspec

from agentdescent.errors import UsageError
from agentdescent.ports import Task
from agentdescent_adapters.tasks.extras import imported
from agentdescent_adapters.tasks.rows import check_columns, tasks_of


class _Table(Protocol):
    """What is used of a `datasets.Dataset`."""

    column_names: list[str]
    features: Mapping[str, object]

    def __len__(self) -> int: ...
    def select(self, indices: Iterable[int]) -> _Table: ...
    def select_columns(self, column_names: list[str]) -> _Table: ...
    def to_list(self) -> object: ...


class _HuggingFace(Protocol):
    def load_dataset(self, path: str, name: str | None, *, split: str) -> _Table: ...


@runtime_checkable
class _Wrapped(Protocol):
    """How ModelScope gives a data set that is not one of plain files; those it gives as they are."""

    def to_hf_dataset(self) -> _Table: ...


class _MsDataset(Protocol):
    def load(self, dataset_name: str, *, subset_name: str | None, split: str) -> object: ...


class _ModelScope(Protocol):
    MsDataset: _MsDataset


def hf(
    dataset: str,
    *,
    split: str = "train",
    config: str | None = None,
    limit: int | None = None,
    text: str = "text",
    label: str = "label",
    id: str | None = None,
) -> list[Task]:
    """A task per row of a split, of the first `limit` if given, known by the number of its row from 1 or by `id`.

    `text`, `label` and `id` name columns; class numbers become the names of their classes. Raises UsageError for what
    cannot be loaded, be it for want of the package, the network, the data set or a column.
    """
    module = imported("datasets", "a Hugging Face data set", "datasets", "hf")
    load = partial(cast(_HuggingFace, module).load_dataset, dataset, config, split=split)
    return _tasks(dataset, load, " and HF_HUB_OFFLINE is not set", limit, text, label, id)


def modelscope(
    dataset: str,
    *,
    split: str = "train",
    config: str | None = None,
    limit: int | None = None,
    text: str = "text",
    label: str = "label",
    id: str | None = None,
) -> list[Task]:
    """As `hf`, from ModelScope; `config` is what it calls a subset."""
    module = imported("modelscope.msdatasets", "a ModelScope data set", "modelscope[datasets]", "modelscope")

    def load() -> _Table:
        loaded = cast(_ModelScope, module).MsDataset.load(dataset, subset_name=config, split=split)
        return loaded.to_hf_dataset() if isinstance(loaded, _Wrapped) else cast(_Table, loaded)

    return _tasks(dataset, load, "", limit, text, label, id)


def _tasks(
    dataset: str,
    load: Callable[[], _Table],
    offline: str,
    limit: int | None,
    text: str,
    label: str,
    id: str | None,
) -> list[Task]:
    """`offline`: what else may be why the hub cannot be reached."""
    if limit is not None and limit < 1:  # before anything is fetched for it
        raise UsageError(f"{dataset}: limit {limit}: ask for at least 1 row, or None for all")
    try:
        table = load()
    except Exception as error:  # a library that raises what its own libraries raise
        raise _unavailable(dataset, error, offline) from error
    check_columns(dataset, table.column_names, text, label, id)
    wanted = list(dict.fromkeys(name for name in (text, label, id) if name is not None))
    chosen = table.select_columns(wanted)
    if limit is not None:
        chosen = chosen.select(range(min(limit, len(chosen))))
    rows = msgspec.convert(chosen.to_list(), list[dict[str, object]])
    return tasks_of(rows, text=text, label=label, id=id, names=_class_names(table, label), source=dataset)


def _class_names(table: _Table, label: str) -> Sequence[str] | None:
    names: object = getattr(table.features[label], "names", None)
    return None if names is None else msgspec.convert(names, list[str])


def _unavailable(dataset: str, error: Exception, offline: str) -> UsageError:
    reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    # ModelScope's error of a passed deadline has not always been an OSError.
    if isinstance(error, ConnectionError | TimeoutError) or "Deadline" in type(error).__name__:
        return UsageError(
            f"{dataset}: cannot be reached ({reason}): load it once where there is a network{offline}, "
            "or name a folder with its files"
        )
    return UsageError(f"{dataset}: cannot be loaded ({reason}): check data set, config and split")
