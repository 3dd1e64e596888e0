"""Data sets through `datasets` and `modelscope`: real ones where installed, on local files, never over a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from agentdescent.errors import UsageError
from agentdescent.ports import Task
from agentdescent_adapters.tasks.hub import hf, modelscope
from tests.adapters.test_task_files import tasks

ROOT = Path(__file__).parents[2]
Load = Callable[..., list[Task]]

needs_modelscope = pytest.mark.skipif(
    find_spec("modelscope") is None,
    reason="modelscope[datasets] pins datasets<=4.8.4 and takes 700 MB: install it in an environment of its own",
)

SCRIPT = """
import json, sys
from agentdescent.errors import UsageError
from agentdescent_adapters.tasks import hub
said = []
for arguments in json.loads(sys.argv[2]):
    name = arguments.pop("dataset")
    try:
        said.append([[t.id, t.prompt, t.meta["label"]] for t in getattr(hub, sys.argv[1])(name, **arguments)])
    except UsageError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def really(load: str, home: Path, *calls: dict[str, object]) -> list[object]:
    """What real calls give or say, in a process of their own that is offline and keeps everything under `home`."""
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(home / "hf"),
        "MODELSCOPE_CACHE": str(home / "ms"),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "adapters"))),
    }
    command = [sys.executable, "-c", SCRIPT, load, json.dumps(calls)]
    done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=True, timeout=300)
    said: list[object] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    (tmp_path / "rows").mkdir()
    lines = [{"q": f"question {n} 北京", "a": n % 2, "key": f"k{n}"} for n in range(1, 6)]
    (tmp_path / "rows" / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "holes").mkdir()
    (tmp_path / "holes" / "test.csv").write_text("text,label\na,b\n,c\n")
    return tmp_path


def local_calls(folder: Path) -> list[dict[str, object]]:
    rows = {"dataset": str(folder / "rows"), "text": "q", "label": "a"}
    return [
        {**rows, "id": "key", "limit": 2},
        {**rows, "limit": 99},
        {**rows, "limit": 0},
        {**rows, "label": "b"},
        {**rows, "split": "test"},
        {"dataset": str(folder / "holes"), "split": "test"},
    ]


def check_local(folder: Path, said: list[object]) -> None:
    source = folder / "rows"
    two, five, *wrong = said
    assert two == [["k1", "question 1 北京", "1"], ["k2", "question 2 北京", "0"]]
    assert five == [[str(n), f"question {n} 北京", str(n % 2)] for n in range(1, 6)]
    zero, column, split, hole = map(str, wrong)
    assert zero == f"{source}: limit 0: ask for at least 1 row, or None for all"
    assert column == f"{source}: no column 'b' (label): name another, there is 'q', 'a', 'key'"
    assert split.startswith(f"{source}: cannot be loaded (ValueError: Unknown split")
    assert split.endswith(": check data set, config and split")
    assert hole == f"{folder / 'holes'}, row 2: no 'text' (text): fill it in or remove the row"


def test_hugging_face_for_real(folder: Path) -> None:
    *said, offline = really("hf", folder, *local_calls(folder), {"dataset": "no/such"})
    check_local(folder, said)
    assert str(offline).startswith(
        "no/such: cannot be reached (ConnectionError: Couldn't reach 'no/such' on the Hub (Off"
    )
    assert str(offline).endswith(
        ": load it once where there is a network and HF_HUB_OFFLINE is not set, or name a folder with its files"
    )


@needs_modelscope
def test_modelscope_for_real(folder: Path) -> None:
    check_local(folder, really("modelscope", folder, *local_calls(folder)))


class Table:
    """As much of a `datasets.Dataset` as is used."""

    def __init__(self, rows: list[dict[str, object]], features: dict[str, object]) -> None:
        self.rows = rows
        self.features = features
        self.column_names = list(features)

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, indices: Iterable[int]) -> Table:
        return Table([self.rows[n] for n in indices], self.features)

    def select_columns(self, column_names: list[str]) -> Table:
        rows = [{name: row[name] for name in column_names} for row in self.rows]
        return Table(rows, {name: self.features[name] for name in column_names})

    def to_list(self) -> list[dict[str, object]]:
        return self.rows


class ClassLabel:
    def __init__(self, *names: str) -> None:
        self.names = list(names)


class Wrapped:
    """As `MsDataset` wraps a data set of files on disk."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def to_hf_dataset(self) -> Table:
        return self.table


class _DownloadDeadlineError(Exception):
    pass


TABLE = Table(
    [{"text": "a", "label": 1, "image": object()}, {"text": "b", "label": 0, "image": object()}],
    {"text": None, "label": ClassLabel("no", "yes"), "image": None},
)


def stub(monkeypatch: pytest.MonkeyPatch, result: object) -> list[tuple[object, ...]]:
    """Put modules in place of both libraries that return or raise `result`, and record what they are asked."""
    asked: list[tuple[object, ...]] = []

    def give(*of: object) -> object:
        asked.append(of)
        if isinstance(result, Exception):
            raise result
        return result

    class MsDataset:
        @staticmethod
        def load(dataset_name: str, *, subset_name: str | None, split: str) -> object:
            return give(dataset_name, subset_name, split)

    def load_dataset(path: str, name: str | None, *, split: str) -> object:
        return give(path, name, split)

    datasets, scope = ModuleType("datasets"), ModuleType("modelscope.msdatasets")
    datasets.__dict__["load_dataset"] = load_dataset
    scope.__dict__["MsDataset"] = MsDataset
    monkeypatch.setitem(sys.modules, "modelscope", ModuleType("modelscope"))
    monkeypatch.setitem(sys.modules, "datasets", datasets)
    monkeypatch.setitem(sys.modules, "modelscope.msdatasets", scope)
    return asked


@pytest.mark.parametrize(("load", "result"), [(hf, TABLE), (modelscope, TABLE), (modelscope, Wrapped(TABLE))])
def test_classes_become_names_and_other_columns_stay_where_they_are(
    monkeypatch: pytest.MonkeyPatch, load: Load, result: object
) -> None:
    asked = stub(monkeypatch, result)
    assert load("a/b", split="test", config="c") == tasks(("1", "a", "yes"), ("2", "b", "no"))
    assert load("a/b", limit=1) == tasks(("1", "a", "yes"))
    assert asked == [("a/b", "c", "test"), ("a/b", None, "train")]


def test_a_split_without_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    stub(monkeypatch, Table([{"text": "a", "label": -1}], {"text": None, "label": ClassLabel("no", "yes")}))
    with pytest.raises(
        UsageError, match=r"^a/b, row 1: 'label' is -1, and there are 2 classes from 0: remove the row, or"
    ):
        hf("a/b")


@pytest.mark.parametrize("load", [hf, modelscope])
def test_a_limit_is_refused_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch, load: Load) -> None:
    asked = stub(monkeypatch, TABLE)
    with pytest.raises(UsageError, match="limit 0"):
        load("a/b", limit=0)
    assert asked == []


@pytest.mark.parametrize("load", [hf, modelscope])
@pytest.mark.parametrize(
    "error", [ConnectionError("no\nnetwork"), TimeoutError("late"), _DownloadDeadlineError("下载总时限已耗尽")]
)
def test_no_network(monkeypatch: pytest.MonkeyPatch, load: Load, error: Exception) -> None:
    stub(monkeypatch, error)
    with pytest.raises(UsageError) as caught:
        load("a/b")
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    offline = " and HF_HUB_OFFLINE is not set" if load is hf else ""
    assert str(caught.value) == (
        f"a/b: cannot be reached ({reason}): load it once where there is a network{offline}, "
        "or name a folder with its files"
    )


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (hf, r"a Hugging Face data set needs the package datasets (.+): pip install 'agentdescent\[hf\]'"),
        (
            modelscope,
            r"a ModelScope data set needs the package modelscope\[datasets\] (.+)'agentdescent\[modelscope\]'",
        ),
    ],
)
def test_no_package(monkeypatch: pytest.MonkeyPatch, load: Load, message: str) -> None:
    stub(monkeypatch, TABLE)
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.setitem(sys.modules, "modelscope.msdatasets", None)
    with pytest.raises(UsageError, match=message):
        load("a/b")
