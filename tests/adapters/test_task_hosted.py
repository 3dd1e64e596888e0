"""Rows over HTTP: pages, what is kept of them, and what is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentdescent.errors import RunError, UsageError
from agentdescent_adapters.tasks.hosted import hf_label_names, hf_rows, hf_rows_modelscope
from agentdescent_adapters.tasks.kept import cache_directory, response_directory
from agentdescent_adapters.tasks.rows import tasks_of
from tests.adapters.row_server import Response, rows_api, scripted, serving

ROOT = Path(__file__).parents[2]


def rows(n: int, version: str = "v1") -> list[dict[str, object]]:
    return [{"text": f"{version} 北京 {k}", "label": k % 3} for k in range(n)]


def page(*given: dict[str, object], total: int | None = None) -> Response:
    entries = [{"row": row, "row_idx": n, "truncated_cells": []} for n, row in enumerate(given)]
    return Response(json.dumps({"rows": entries, "num_rows_total": len(given) if total is None else total}).encode())


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTDESCENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def entries(tmp_path: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("limit", "offsets"), [(1, [0]), (100, [0]), (101, [0, 100]), (250, [0, 100, 200]), (None, [0, 100, 200])]
)
def test_pages(limit: int | None, offsets: list[int]) -> None:
    with serving(rows_api(rows(230))) as server:
        assert hf_rows("a/b c", "test", "main", limit, base_url=server.url + "/") == rows(230)[:limit]
        asked = [f"/rows?dataset=a%2Fb+c&config=main&split=test&offset={n}&length=100" for n in offsets]
        assert server.asked == asked
        assert hf_rows("a/b c", "test", "main", limit, base_url=server.url) == rows(230)[:limit]
        assert server.asked == asked


def test_an_empty_split() -> None:
    with serving(rows_api([])) as server:
        assert hf_rows("a/b", base_url=server.url) == []


def test_without_the_cache_every_answer_is_new_and_what_is_kept_stays(tmp_path: Path) -> None:
    answers = [page({"text": f"answer {n}"}) for n in range(4)]
    with serving(scripted(*answers)) as server:
        url = server.url
        assert hf_rows("a/b", base_url=url, cache=False) == [{"text": "answer 0"}]
        assert not (tmp_path / "cache").exists()
        assert hf_rows("a/b", base_url=url) == [{"text": "answer 1"}]
        before = entries(tmp_path)
        assert [hf_rows("a/b", base_url=url, cache=False) for _ in range(2)] == [
            [{"text": f"answer {n}"}] for n in (2, 3)
        ]
        assert (entries(tmp_path), len(before), len(server.asked)) == (before, 1, 4)
        assert hf_rows("a/b", base_url=url) == [{"text": "answer 1"}]
        assert len(server.asked) == 4


def test_a_file_without_the_cache(tmp_path: Path) -> None:
    with serving(scripted(*(Response(b'[{"n": %d}]' % n) for n in range(4)))) as server:
        url = f"{server.url}/data.json"
        assert hf_rows_modelscope(url) == hf_rows_modelscope(url) == [{"n": 0}]
        before = entries(tmp_path)
        assert [hf_rows_modelscope(url, cache=False) for _ in range(2)] == [[{"n": 1}], [{"n": 2}]]
        assert (entries(tmp_path), hf_rows_modelscope(url)) == (before, [{"n": 0}])


@pytest.mark.parametrize("damage", ["empty", "cut", "one byte less", "changed", "another format", "another address"])
def test_a_broken_entry_is_fetched_again_and_replaced(tmp_path: Path, damage: str) -> None:
    with serving(rows_api(rows(5))) as server:
        assert hf_rows("a/b", base_url=server.url) == rows(5)
        (entry,) = (tmp_path / "cache").rglob("*.response")
        whole = entry.read_bytes()
        entry.write_bytes(
            {
                "empty": b"",
                "cut": whole[: len(whole) // 2],
                "one byte less": whole[:-1],
                "changed": whole.replace(b"v1", b"v2", 1),
                "another format": whole.replace(b"response-1", b"response-0"),
                "another address": whole.replace(b"dataset=a", b"dataset=c"),
            }[damage]
        )
        assert entry.read_bytes() != whole
        assert hf_rows("a/b", base_url=server.url) == rows(5)
        assert (entries(tmp_path), len(server.asked)) == ({entry.name: whole}, 2)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"rows": [', b"[]", b'{"rows": 3, "num_rows_total": 1}', b'"\xff"'])
def test_what_is_no_page_is_never_kept(tmp_path: Path, body: bytes) -> None:
    with serving(scripted(Response(body), page({"text": "good"}))) as server:
        with pytest.raises(
            RunError, match=r"offset=0&length=100: the answer is no page of rows \(.+\): check the addr"
        ):
            hf_rows("a/b", base_url=server.url)
        assert entries(tmp_path) == {}
        assert hf_rows("a/b", base_url=server.url) == [{"text": "good"}]


def test_entries_differ_by_all_that_changes_the_answer(tmp_path: Path) -> None:
    with serving(rows_api(rows(150))) as one, serving(rows_api(rows(150, "v2"))) as other:
        for dataset, split, config in (("a", "t", "c"), ("b", "t", "c"), ("a", "u", "c"), ("a", "t", "d")):
            hf_rows(dataset, split, config, 150, base_url=one.url)
        assert hf_rows("a", "t", "c", 1, base_url=other.url) == rows(1, "v2")
        assert (len(one.asked), len(other.asked), len(entries(tmp_path))) == (8, 1, 9)


def test_the_directory_may_be_given(tmp_path: Path) -> None:
    with serving(rows_api(rows(1))) as server:
        hf_rows("a", base_url=server.url, directory=tmp_path / "mine" / "deep")
        assert len(list((tmp_path / "mine" / "deep").iterdir())) == 1
        assert not (tmp_path / "cache").exists()
        (tmp_path / "file").touch()
        with pytest.raises(
            UsageError, match=r"file/x: responses cannot be kept there .*AGENTDESCENT_CACHE, or pass cache=F"
        ):
            hf_rows("b", base_url=server.url, directory=tmp_path / "file" / "x")
        assert len(server.asked) == 1  # found out before anything was fetched


def test_where_responses_are_kept_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path("/home/me")
    assert cache_directory("linux", {}, home) == home / ".cache" / "agentdescent"
    assert cache_directory("linux", {"XDG_CACHE_HOME": "/x"}, home) == Path("/x/agentdescent")
    assert cache_directory("linux", {"XDG_CACHE_HOME": "rel"}, home) == home / ".cache" / "agentdescent"
    assert cache_directory("darwin", {"XDG_CACHE_HOME": "/x"}, home) == home / "Library" / "Caches" / "agentdescent"
    assert cache_directory("win32", {"LOCALAPPDATA": "/l"}, home) == Path("/l/agentdescent/Cache")
    assert cache_directory("win32", {}, home) == home / "AppData" / "Local" / "agentdescent" / "Cache"
    assert response_directory(True, None) == tmp_path / "cache" / "responses"
    assert response_directory(False, "given") is None
    monkeypatch.delenv("AGENTDESCENT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert response_directory(True, None) == tmp_path / "agentdescent" / "responses"


def test_two_processes_that_write_one_entry(tmp_path: Path) -> None:
    """Both wait for the other at the server, so both write; readers of the entry see a whole one all the time."""
    both = threading.Barrier(2)
    big = [{"text": "x" * 100_000, "label": n} for n in range(50)]

    def answer(path: str) -> Response | None:
        both.wait(60)
        return rows_api([dict(row) for row in big])(path)

    script = (
        "import sys; from agentdescent_adapters.tasks.hosted import hf_rows; "
        "rows = hf_rows('a/b', base_url=sys.argv[1]); print(len(rows), sum(len(r['text']) for r in rows))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "adapters")))}
    with serving(answer) as server:
        command = [sys.executable, "-c", script, server.url]
        started = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        seen: set[int] = set()
        while any(process.poll() is None for process in started):
            seen |= {len(content) for name, content in entries(tmp_path).items() if name.endswith(".response")}
        said = [process.communicate(timeout=60)[0].split() for process in started]
        assert said == [["50", "5000000"]] * 2
        (kept,) = entries(tmp_path).values()
        assert seen <= {len(kept)}
        assert hf_rows("a/b", base_url=server.url) == big
        assert len(server.asked) == 2


def test_a_split_that_changes_between_pages() -> None:
    with (
        serving(scripted(page(*rows(100), total=150), page(*rows(50), total=160))) as server,
        pytest.raises(
            RunError, match="a/b: 150 rows by one page, 160 by another: it was changed meanwhile: pass cache=F"
        ),
    ):
        hf_rows("a/b", limit=None, base_url=server.url)


def test_a_server_that_gives_no_more() -> None:
    with (
        serving(scripted(page(*rows(100), total=150), page(total=150))) as server,
        pytest.raises(RunError, match=r"a/b: no rows at 100 of 150: ask for fewer, or load it with hf\(\.\.\.\)"),
    ):
        hf_rows("a/b", limit=None, base_url=server.url)


def test_cells_that_were_cut_off() -> None:
    cut = {"rows": [{"row": {"text": "x..."}, "truncated_cells": ["text"]}], "num_rows_total": 1}
    with (
        serving(scripted(Response(json.dumps(cut).encode()))) as server,
        pytest.raises(RunError, match="a/b: the server cut off 'text': load the data set whole"),
    ):
        hf_rows("a/b", base_url=server.url)


def test_what_the_server_does_not_have() -> None:
    with (
        serving(scripted(Response(b'{"error": "The split does not exist."}', 404))) as server,
        pytest.raises(UsageError, match=r"HTTP 404 \(The split does not exist\.\): check data set, config and split"),
    ):
        hf_rows("a/b", base_url=server.url)


@pytest.mark.parametrize("limit", [0, -1])
def test_no_rows_are_not_asked_for(limit: int) -> None:
    with pytest.raises(UsageError, match=f"limit {limit}: ask for at least 1 row, or None for all"):
        hf_rows("a/b", limit=limit)
    with pytest.raises(UsageError, match=f"limit {limit}: ask for at least 1 row, or None for all"):
        hf_rows_modelscope("http://127.0.0.1/x", limit)


def test_class_numbers_become_names() -> None:
    with serving(rows_api(rows(3), ["pin", "card", "top up"])) as server:
        names = hf_label_names("a/b", base_url=server.url)
        tasks = tasks_of(hf_rows("a/b", base_url=server.url), names=names, source="a/b")
        assert [(task.id, task.prompt, task.meta["label"]) for task in tasks] == [
            *(("1", "v1 北京 0", "pin"), ("2", "v1 北京 1", "card"), ("3", "v1 北京 2", "top up"))
        ]
        assert len(server.asked) == 1
        with pytest.raises(UsageError, match="a/b: 'text' is no column of classes: there is 'label'"):
            hf_label_names("a/b", column="text", base_url=server.url)


PAIRS = [["Paris", ["It is big.", "It is old."]], ["London", []]]
COLUMNS = {"title": ["Paris", "London"], "sentences": [["It is big.", "It is old."], []]}


def test_pairs_of_title_and_sentences_become_columns() -> None:
    given = [
        {"id": "1", "context": PAIRS, "other": [["a", 1]], "tags": ["x", "y"], "none": []},
        {"id": "2", "context": [], "other": [["b", ["c"]]], "tags": [], "none": []},
        {"id": "3", "context": None},
    ]
    expected = [
        {"id": "1", "context": COLUMNS, "other": [["a", 1]], "tags": ["x", "y"], "none": []},
        {"id": "2", "context": {"title": [], "sentences": []}, "other": [["b", ["c"]]], "tags": [], "none": []},
        {"id": "3", "context": None},
    ]
    whole = json.dumps(given, indent=1).encode()
    lines = b"\xef\xbb\xbf" + b"\r\n".join(json.dumps(row).encode() for row in given) + b"\n"
    for body in (whole, lines):
        with serving(scripted(Response(body))) as server:
            assert hf_rows_modelscope(server.url, None) == hf_rows_modelscope(server.url, 3) == expected
            assert hf_rows_modelscope(server.url, 2) == expected[:2]
            assert len(server.asked) == 1


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"[{]", b'{"a": 1}\n[]', b'[{"a": "\xff"}]'])
def test_what_is_no_file_of_rows_is_never_kept(tmp_path: Path, body: bytes) -> None:
    with serving(scripted(Response(body))) as server:
        with pytest.raises(RunError, match=r"no list of objects, nor one a line \(.+\): check the address"):
            hf_rows_modelscope(server.url)
        assert entries(tmp_path) == {}
