"""The notebook in docs is executed again: its cells give the outputs that are stored, and the page shows these."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs import notebook


def cell(source: str, kind: str = "code") -> notebook.Cell:
    return {"cell_type": kind, "source": source.splitlines(keepends=True)}


def test_the_outputs_are_those_of_the_cells() -> None:
    assert notebook.main(["--check"]) == 0


def test_an_output_that_is_not_that_of_its_cell_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notebook, "NOTEBOOK", tmp_path / "one.ipynb")
    monkeypatch.setattr(notebook, "PAGE", tmp_path / "one.md")
    notebook.NOTEBOOK.write_text(json.dumps({"cells": [cell("1 + 1")]}), encoding="utf-8")
    assert notebook.main(["--check"]) == 1
    assert notebook.main([]) == 0
    assert notebook.main(["--check"]) == 0
    stored = notebook.NOTEBOOK.read_text(encoding="utf-8")
    notebook.NOTEBOOK.write_text(stored.replace('"2"', '"3"'), encoding="utf-8")
    assert notebook.main(["--check"]) == 1
    assert capsys.readouterr().err.count("one.ipynb is not what its cells give") == 2


def test_cells_share_a_namespace_and_show_what_jupyter_shows() -> None:
    class Shown:
        def _repr_html_(self) -> str:
            return "<i>shown</i>"

    cells = notebook.execute([cell("x = 2\nprint('a')\nx"), cell("# A", "markdown"), cell("x += 1"), cell("x\n")])
    assert [[tuple(one) for one in done.get("outputs", ())] for done in cells] == [
        [("name", "output_type", "text"), ("data", "execution_count", "metadata", "output_type")],
        *([], [], [("data", "execution_count", "metadata", "output_type")]),
    ]
    assert notebook.page(cells[:2]) == "```py\nx = 2\nprint('a')\nx\n```\n\n```text\na\n```\n\n```text\n2\n```\n\n# A\n"
    assert cells[3]["outputs"][0]["data"] == {"text/plain": ["3"]}
    assert notebook.shown(Shown())["text/html"] == ["<i>shown</i>"]
    with pytest.raises(ZeroDivisionError):
        notebook.execute([cell("1 / 0")])
