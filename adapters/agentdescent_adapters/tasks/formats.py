"""Which reader a file of tasks is for: its suffix says."""

from __future__ import annotations

from pathlib import Path

from agentdescent.errors import UsageError
from agentdescent.ports import Task
from agentdescent_adapters.tasks.files import load_csv, load_jsonl
from agentdescent_adapters.tasks.json_document import load_json
from agentdescent_adapters.tasks.parquet import load_parquet

SUFFIXES = (".csv", ".jsonl", ".ndjson", ".json", ".parquet")


def load_tasks(
    path: str | Path, *, text: str = "text", label: str = "label", id: str | None = None, split: str | None = None
) -> list[Task]:
    """The tasks of a file of any of SUFFIXES, in whatever case. `split` is for a JSON document that holds several."""
    suffix = Path(path).suffix.lower()
    if split is not None and suffix != ".json":
        raise UsageError(f"{path}: only a .json file holds splits: do not name {split!r}")
    match suffix:
        case ".csv":
            return load_csv(path, text=text, label=label, id=id)
        case ".jsonl" | ".ndjson":
            return load_jsonl(path, text=text, label=label, id=id)
        case ".json":
            return load_json(path, text=text, label=label, id=id, split=split)
        case ".parquet":
            return load_parquet(path, text=text, label=label, id=id)
        case _:
            raise UsageError(f"{path}: of unknown format: give one of {', '.join(SUFFIXES)}")
