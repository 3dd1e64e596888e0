"""Task files: exact texts whatever the locale, stable ids, and errors that name the place and the remedy."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.errors import UsageError
from agentdescent.ports import Task
from agentdescent_adapters.tasks.files import keep_labels, load_csv, load_jsonl

ROOT = Path(__file__).parents[2]
AWKWARD = (
    "two\r\nlines",
    "nul\x00",
    "😀 北京 é",
    'said "no", twice',
    "",
    " padded ",
    "\u2028\x85\x0b",
    "x" * 1_000_000,
)

texts = st.text(st.characters(codec="utf-8"), max_size=40)
pairs = st.lists(st.tuples(texts, texts.filter(str.strip)), min_size=1, max_size=8)


def tasks(*rows: tuple[str, str, str]) -> list[Task]:
    return [Task(id, text, {"label": label, "cluster": label}) for id, text, label in rows]


def as_csv(rows: list[tuple[str, ...]]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def as_jsonl(rows: list[tuple[str, str]]) -> bytes:
    return b"".join(json.dumps({"text": text, "label": label}).encode() + b"\n" for text, label in rows)


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    return tmp_path / "some.file"


def test_csv_rows_are_numbered_from_one(file: Path) -> None:
    file.write_bytes(b'label,text,more\r\npin,"my\r\npin",x\r\ncard,"a, card",\r\n\r\npin,last,')
    assert load_csv(file) == tasks(("1", "my\r\npin", "pin"), ("2", "a, card", "card"), ("3", "last", "pin"))


def test_jsonl_rows_are_numbered_by_line(file: Path) -> None:
    file.write_bytes(b'{"text": "my pin", "label": "pin"}\n\n \r\n{"label": 7.50, "more": [1], "text": true}')
    assert load_jsonl(file) == tasks(("1", "my pin", "pin"), ("4", "true", "7.50"))


def test_columns_are_the_callers_choice(file: Path) -> None:
    file.write_bytes(b"key,question,answer\nk1,q1,a1\nk2,q2,a2\n")
    expected = tasks(("k1", "q1", "a1"), ("k2", "q2", "a2"))
    assert load_csv(str(file), text="question", label="answer", id="key") == expected
    file.write_bytes(b'{"key":"k1","question":"q1","answer":"a1"}\n{"key":"k2","question":"q2","answer":"a2"}\n')
    assert load_jsonl(str(file), text="question", label="answer", id="key") == expected


def test_a_byte_order_mark_is_no_part_of_the_first_column(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbftext,label\nhello,\xef\xbb\xbfa\n")
    assert load_csv(file) == tasks(("1", "hello", "\ufeffa"))
    file.write_bytes(b'\xef\xbb\xbf{"text": "hello", "label": "a"}')
    assert load_jsonl(file) == tasks(("1", "hello", "a"))


@given(pairs)
def test_csv_texts_are_exact(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    file = tmp_path_factory.getbasetemp() / "exact.csv"
    file.write_bytes(as_csv([("text", "label"), *rows]))
    assert load_csv(file) == tasks(*((str(n), *row) for n, row in enumerate(rows, 1)))


@given(pairs)
def test_jsonl_texts_are_exact(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    file = tmp_path_factory.getbasetemp() / "exact.jsonl"
    file.write_bytes(as_jsonl(rows))
    assert load_jsonl(file) == tasks(*((str(n), *row) for n, row in enumerate(rows, 1)))


def test_awkward_texts_in_a_process_with_no_utf8_locale(tmp_path: Path) -> None:
    rows = [(text, f"label {n} 北京") for n, text in enumerate(AWKWARD)]
    (tmp_path / "a.csv").write_bytes(as_csv([("text", "label"), *rows]))
    (tmp_path / "a.jsonl").write_bytes(as_jsonl(rows))
    expected = tasks(*((str(n), *row) for n, row in enumerate(rows, 1)))
    assert load_csv(tmp_path / "a.csv") == load_jsonl(tmp_path / "a.jsonl") == expected
    script = (
        "import hashlib, sys; from agentdescent_adapters.tasks.files import load_csv, load_jsonl; "
        "print(*(hashlib.sha256(repr([(t.id, t.prompt, t.meta) for t in load(path)]).encode()).hexdigest() "
        "for load, path in ((load_csv, sys.argv[1]), (load_jsonl, sys.argv[2]))), sys.flags.utf8_mode)"
    )
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}",
    }
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "a.csv", tmp_path / "a.jsonl"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    first, second, mode = done.stdout.split()
    assert (first == second, len(first), mode) == (True, 64, "0")
    digest = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", script, tmp_path / "a.csv", tmp_path / "a.jsonl"],
        env={**environment, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert digest.stdout.split() == [first, second, "1"]


def test_the_field_limit_of_the_process_is_left_alone(file: Path) -> None:
    before = csv.field_size_limit()
    file.write_bytes(as_csv([("text", "label"), ("x" * 200_000, "a")]))
    assert load_csv(file) == tasks(("1", "x" * 200_000, "a"))
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("content", [b'text,label\n"open,a\n', b"text,label\na\n", b"text,label\na,\n"])
def test_a_failure_leaves_the_field_limit_and_the_next_load_alone(file: Path, content: bytes) -> None:
    before = csv.field_size_limit()
    file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_csv(file)
    assert csv.field_size_limit() == before
    file.write_bytes(b"text,label\na,b\n")
    assert load_csv(file) == tasks(("1", "a", "b"))
    assert str(file) in str(caught.value)  # the traceback, and what it keeps alive, was there until here


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": no rows: give it at least one"),
        (b"text,label\n", ": no rows: give it at least one"),
        (b"text,category\na,b\n", ": no column 'label' (label): name another, there is 'text', 'category'"),
        (b"a\tb\nx\ty\n", ": no column 'text' (text): name another, there is 'a\\tb'"),
        (b"text,label,text\na,b,c\n", ": two columns 'text' (text): name another, there is 'text', 'label', 'text'"),
        (b"text,label\na,b\nc, \n", ", row 2 (line 3): the label is empty: fill it in or remove the row"),
        (b"text,label\na,b\nc\n", ", row 2 (line 3): not 2 fields: quote those with commas in them"),
        (b"text,label\na,b,c\n", ", row 1 (line 2): not 2 fields: quote those with commas in them"),
        (b'text,label\n"a,b\n', ", line 2: not CSV (unexpected end of data): check the quotes"),
        (b'text,label\n"a"b,c\n', ", line 2: not CSV (',' expected after '\"'): check the quotes"),
        (b"text,label\na,b\n\xffc,d\n", ", line 3: not UTF-8 (byte 0xff): save it as UTF-8"),
        ("text,label".encode("utf-16"), ", line 1: not UTF-8 (byte 0xff): save it as UTF-8"),
    ],
)
def test_what_is_wrong_with_a_csv(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_csv(file)
    assert str(caught.value) == f"{file}{message}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": no rows: give it at least one"),
        (b"\n\n", ": no rows: give it at least one"),
        (b'{"text": "a"}', ", line 1: no 'label' (label): add it or name another, there is 'text'"),
        (
            b'{"text": null, "label": "b"}',
            ", line 1: no 'text' (text): add it or name another, there is 'text', 'label'",
        ),
        (b"{}", ", line 1: no 'text' (text): add it or name another, there is none"),
        (b'\n{"text": ["a"], "label": "b"}', ", line 2: 'text' (text) is no text: make it one or name another field"),
        (b'{"text": "a", "label": "\\t"}', ", line 1: the label is empty: fill it in or remove the row"),
        (b'{"text": "a", "label": "b"', ", line 1: not JSON: Input data was truncated"),
        (b'{"text": "\\ud800", "label": "b"}', ", line 1: not JSON: Input data was truncated"),
    ],
)
def test_what_is_wrong_with_a_jsonl(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_jsonl(file)
    assert str(caught.value).startswith(f"{file}{message.partition(': Input')[0]}")
    assert "\n" not in str(caught.value)


def test_a_line_that_is_no_object(file: Path) -> None:
    file.write_bytes(b'{"text": "a", "label": "b"}\n["a", "b"]\n')
    with pytest.raises(UsageError, match=r"line 2: not an object: write one \{\.\.\.\} a line"):
        load_jsonl(file)


def test_ids_are_unique(file: Path) -> None:
    file.write_bytes(b"id,text,label\nx,a,b\ny,c,d\nx,e,f\n")
    with pytest.raises(UsageError) as caught:
        load_csv(file, id="id")
    assert str(caught.value) == f"{file}, row 3 (line 4): id 'x' is that of row 1 (line 2) too: make ids unique"
    file.write_bytes(b'{"id":1,"text":"a","label":"b"}\n{"id":"1","text":"c","label":"d"}\n')
    with pytest.raises(UsageError) as caught:
        load_jsonl(file, id="id")
    assert str(caught.value) == f"{file}, line 2: id '1' is that of line 1 too: make ids unique"


@pytest.mark.parametrize("load", [load_csv, load_jsonl])
def test_a_file_that_cannot_be_read(tmp_path: Path, load: Callable[[Path], list[Task]]) -> None:
    with pytest.raises(UsageError, match=r"none\.file: cannot be read \(No such file or directory\): check the path"):
        load(tmp_path / "none.file")
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path)


def test_the_most_frequent_labels_are_kept_in_order() -> None:
    given = tasks(*((str(n), "", label) for n, label in enumerate("bcabdac")))
    assert keep_labels(given, 1) == [given[2], given[5]]
    assert keep_labels(given, 2) == [given[n] for n in (0, 2, 3, 5)]
    assert keep_labels(given, 3) == [given[n] for n in (0, 1, 2, 3, 5, 6)]
    assert keep_labels(given, 9) == given
    with pytest.raises(UsageError, match="cannot keep 0 labels: ask for at least 1"):
        keep_labels(given, 0)
