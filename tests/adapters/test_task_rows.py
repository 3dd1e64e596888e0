"""Rows of any origin, JSON documents and Parquet files: one set of checks, and errors that name place and remedy."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.errors import UsageError
from agentdescent.ports import Task
from agentdescent_adapters.tasks.formats import load_tasks
from agentdescent_adapters.tasks.json_document import load_json
from agentdescent_adapters.tasks.parquet import load_parquet
from agentdescent_adapters.tasks.rows import tasks_of
from tests.adapters.test_task_files import AWKWARD, as_csv, as_jsonl, tasks

ROOT = Path(__file__).parents[2]
texts = st.text(st.characters(codec="utf-8"), max_size=40)
pairs = st.lists(st.tuples(texts, texts.filter(str.strip)), min_size=1, max_size=8)


def as_parquet(**columns: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    return tmp_path / "some.file"


def test_rows_are_numbered_from_one_and_values_become_text() -> None:
    rows: list[dict[str, object]] = [
        {"text": "a", "label": 7, "group": "g"},
        {"text": 7.5, "label": True, "group": False},
        {"text": Decimal("1.50"), "label": "c", "group": "g"},
    ]
    assert tasks_of(rows) == tasks(("1", "a", "7"), ("2", "7.5", "true"), ("3", "1.50", "c"))
    assert tasks_of(rows, id="label", cluster="group") == [
        Task("7", "a", {"label": "7", "cluster": "g"}),
        Task("true", "7.5", {"label": "true", "cluster": "false"}),
        Task("c", "1.50", {"label": "c", "cluster": "g"}),
    ]


@given(pairs)
def test_loaders_of_one_set_of_rows_agree(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    base = tmp_path_factory.getbasetemp()
    expected = tasks(*((str(n), *row) for n, row in enumerate(rows, 1)))
    objects = [{"text": text, "label": label} for text, label in rows]
    contents = {
        "a.csv": as_csv([("text", "label"), *rows]),
        "a.jsonl": as_jsonl(rows),
        "a.ndjson": as_jsonl(rows),
        "a.json": json.dumps(objects, indent=2).encode(),
        "a.PARQUET": as_parquet(text=[text for text, _ in rows], label=[label for _, label in rows]),
    }
    for name, content in contents.items():
        (base / name).write_bytes(content)
        assert load_tasks(base / name) == expected
    (base / "a.json").write_text(json.dumps({"train": rows, "test": []}))
    assert load_tasks(base / "a.json", split="train") == tasks_of(objects) == expected


def test_awkward_texts_in_a_process_with_no_utf8_locale(tmp_path: Path) -> None:
    rows = [(text, f"label {n} 北京") for n, text in enumerate(AWKWARD)]
    (tmp_path / "a.csv").write_bytes(as_csv([("text", "label"), *rows]))
    (tmp_path / "a.jsonl").write_bytes(as_jsonl(rows))
    (tmp_path / "a.json").write_bytes(json.dumps({"北京": rows}, ensure_ascii=False).encode())
    (tmp_path / "a.parquet").write_bytes(as_parquet(text=[row[0] for row in rows], label=[row[1] for row in rows]))
    script = (
        "import hashlib, sys; from agentdescent_adapters.tasks.formats import load_tasks; "
        "print(sys.flags.utf8_mode, *(hashlib.sha256(repr([(t.id, t.prompt, t.meta) for t in load_tasks(path, split="
        "'\\u5317\\u4eac' if path.endswith('.json') else None)]).encode()).hexdigest() for path in sys.argv[1:]))"
    )
    files = [str(tmp_path / f"a.{suffix}") for suffix in ("csv", "jsonl", "json", "parquet")]
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}",
    }
    command = [sys.executable, "-W", "error", "-c", script, *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    mode, *digests = done.stdout.split()
    assert (mode, len(digests), len(set(digests))) == ("0", 4, 1)
    expected = tasks(*((str(n), *row) for n, row in enumerate(rows, 1)))
    assert load_parquet(files[3]) == load_json(files[2], split="北京") == expected


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "a"}, "no 'label' (label): add it or name another, there is 'text'"),
        ({}, "no 'text' (text): add it or name another, there is none"),
        ({"text": None, "label": "b"}, "no 'text' (text): fill it in or remove the row"),
        ({"text": ["a"], "label": "b"}, "'text' (text) is no text: make it one or name another field"),
        ({"text": b"a", "label": "b"}, "'text' (text) is no text: make it one or name another field"),
        ({"text": float("nan"), "label": "b"}, "'text' (text) is not a number (NaN): fill it in or remove the row"),
        ({"text": "\ud800", "label": "b"}, "'text' is not valid text (surrogates not allowed): correct it"),
        ({"text": "a", "label": " "}, "the label is empty: fill it in or remove the row"),
    ],
)
def test_what_is_wrong_with_a_row(row: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        tasks_of([{"text": "x", "label": "y"}, row], source="my rows")
    assert str(caught.value) == f"my rows, row 2: {message}"


def test_what_is_wrong_with_all_rows() -> None:
    with pytest.raises(UsageError, match=r"^rows: no rows: give it at least one$"):
        tasks_of([])
    with pytest.raises(UsageError, match=r"^rows, row 2: id 'a' is that of row 1 too: make ids unique$"):
        tasks_of([{"text": "a", "label": "x"}, {"text": "a", "label": "y"}], id="text")


@pytest.mark.parametrize("label", [-1, 2])
def test_numbers_of_no_class(label: int) -> None:
    rows: list[dict[str, object]] = [{"text": "a", "label": 1}, {"text": "b", "label": "as it is"}]
    assert [task.meta["label"] for task in tasks_of(rows, names=["no", "yes"])] == ["yes", "as it is"]
    with pytest.raises(UsageError, match=f"^rows, row 1: 'label' is {label}, and there are 2 classes from 0: remove"):
        tasks_of([{"text": "a", "label": label}], names=["no", "yes"])


def test_parquet_columns_of_many_types(file: Path) -> None:
    content = as_parquet(
        **{
            "q.1": pa.array(["a", "b"], pa.large_string()),
            "kind": pa.array(["x", "y"]).dictionary_encode(),
            "key": pa.array([2**63, 7], pa.uint64()),
            "unread": pa.array([[1], None]),
        }
    )
    file.write_bytes(content)
    assert load_parquet(file, text="q.1", label="kind", id="key") == tasks((str(2**63), "a", "x"), ("7", "b", "y"))
    assert load_parquet(file, text="kind", label="kind") == tasks(("1", "x", "x"), ("2", "y", "y"))
    file.write_bytes(as_parquet(text=[True, False], label=pa.array([Decimal("1.50"), Decimal("2.00")])))
    assert load_parquet(file) == tasks(("1", "true", "1.50"), ("2", "false", "2.00"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (as_parquet(text=[], label=[]), ": no rows: give it at least one"),
        (as_parquet(text=["a"], kind=["b"]), ": no column 'label' (label): name another, there is 'text', 'kind'"),
        (as_parquet(text=["a", None], label=["b", "c"]), ", row 2: no 'text' (text): fill it in or remove the row"),
        (as_parquet(text=["a", "b"], label=["b", " "]), ", row 2: the label is empty: fill it in or remove the row"),
        (
            as_parquet(text=["a"], label=[float("nan")]),
            ", row 1: 'label' (label) is not a number (NaN): fill it in or remove the row",
        ),
        (
            as_parquet(text=["a"], label=[["b"]]),
            ", row 1: 'label' (label) is no text: make it one or name another field",
        ),
        (
            as_parquet(text=pa.array([b"a", b"b\xff"]).view(pa.string()), label=["x", "y"]),
            ", row 2: 'text' is not UTF-8 (byte 2): write it as UTF-8",
        ),
    ],
)
def test_what_is_wrong_with_a_parquet_file(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_parquet(file)
    assert str(caught.value) == f"{file}{message}"


def test_a_parquet_file_that_is_not_whole(file: Path) -> None:
    whole = as_parquet(text=["a" * 1000], label=["b"])
    for content in (b"", b"text,label\na,b\n", whole[:-20], whole[:4] + b"\xff" * 40 + whole[44:]):
        file.write_bytes(content)
        with pytest.raises(UsageError, match=r"some\.file: not a whole Parquet file \(.+\): write it again$") as caught:
            load_parquet(file)
        assert "\n" not in str(caught.value)


def test_parquet_without_its_package(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(
        UsageError, match=r"^a Parquet file needs the package pyarrow \(.+\): pip install 'agentdescent\[pa"
    ):
        load_parquet(file)


@pytest.mark.parametrize(
    ("content", "split", "message"),
    [
        ("[]", None, ": no rows: give it at least one"),
        ('{"a": [], "b": []}', None, ": an object: name the list in it as split, there is 'a', 'b'"),
        ('{"a": [], "b": []}', "c", ": no split 'c': name the list in it as split, there is 'a', 'b'"),
        ('{"a": []}', "a", ", a: no rows: give it at least one"),
        ('{"a": 1}', "a", ", a: no list of rows: write [...] (Expected `array`, got `int`)"),
        ("[]", "a", ": one list without splits: do not name 'a'"),
        ("3", None, ": no list of rows: write [...] (Expected `object | array`, got `int`)"),
        ('["a"]', None, ", row 1: neither an object nor a pair: write {...} or [text, label]"),
        ('[["a", "b", "c"]]', None, ", row 1: a list of 3, no pair: write {...} or [text, label]"),
        ('[["a", null]]', None, ", row 1: no 'label' (label): add it or name another, there is 'text', 'label'"),
        ('{"a": [["x", "y"], ["z", ""]]}', "a", ", a, row 2: the label is empty: fill it in or remove the row"),
    ],
)
def test_what_is_wrong_with_a_json_document(file: Path, content: str, split: str | None, message: str) -> None:
    file.write_text(content)
    with pytest.raises(UsageError) as caught:
        load_json(file, split=split)
    assert str(caught.value) == f"{file}{message}"


def test_json_numbers_are_as_written_and_lines_are_no_document(file: Path) -> None:
    file.write_bytes(b'\xef\xbb\xbf[{"text": 7.50, "label": true, "id": 9007199254740993}, ["b", 1e3]]')
    assert load_json(file) == tasks(("1", "7.50", "true"), ("2", "b", "1e3"))
    file.write_bytes(b'[{"text": "a", "label": "b", "id": 9007199254740993}]')
    assert load_json(file, id="id") == tasks(("9007199254740993", "a", "b"))
    file.write_bytes(b'{"text": "a", "label": "b"}\n{"text": "c", "label": "d"}\n')
    with pytest.raises(UsageError, match=r"not JSON \(.+\): name a file of one object a line \.jsonl"):
        load_json(file)


def test_files_of_no_format() -> None:
    with pytest.raises(
        UsageError, match=r"^a\.xls: of unknown format: give one of \.csv, \.jsonl, \.ndjson, \.json, \.par"
    ):
        load_tasks("a.xls")
    with pytest.raises(UsageError, match=r"^a\.csv: only a \.json file holds splits: do not name 'train'$"):
        load_tasks("a.csv", split="train")
    for suffix in ("csv", "jsonl", "json", "parquet"):
        with pytest.raises(UsageError, match=r"cannot be read \(No such file or directory\): check the path"):
            load_tasks(f"/nowhere/none.{suffix}")
