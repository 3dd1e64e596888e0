"""The example notebook, executed, and the page that shows it.

    python -m docs.notebook             execute docs/how-to/notebook.ipynb; write it with its outputs, and notebook.md
    python -m docs.notebook --check     execute it anew; exit 1 when an output or the page is not what is stored

The cells share a namespace, as in Jupyter: a cell's output is what it prints, then the value of its last expression,
which shows itself as HTML where it can. Cells are executed by this file, which needs no kernel, so no magics.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

NOTEBOOK = Path(__file__).parent / "how-to" / "notebook.ipynb"
PAGE = NOTEBOOK.with_suffix(".md")
Cell: TypeAlias = Mapping[str, Any]


def main(arguments: list[str]) -> int:
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    executed = {**stored, "cells": execute(stored["cells"])}
    texts = {NOTEBOOK: json.dumps(executed, indent=1, ensure_ascii=False) + "\n", PAGE: page(executed["cells"])}
    if arguments == ["--check"]:
        stale = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        for path in stale:
            print(f"{path.name} is not what its cells give: python -m docs.notebook", file=sys.stderr)
        return 1 if stale else 0
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return 0


def execute(cells: Sequence[Cell]) -> list[Cell]:
    """The cells with the outputs that they have in a namespace of their own, in order. Raises what a cell raises."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    done: list[Cell] = []
    count = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            count += 1
            outputs = _outputs("".join(cell["source"]), namespace, count)
            cell = {**cell, "execution_count": count, "outputs": outputs}
        done.append(cell)
    return done


def _outputs(source: str, namespace: dict[str, Any], count: int) -> list[Mapping[str, Any]]:
    tree = ast.parse(source, f"cell {count}")
    last = tree.body[-1] if tree.body else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(tree.body[:-1], []), f"cell {count}", "exec"), namespace)
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), namespace)
        else:
            exec(compile(tree, f"cell {count}", "exec"), namespace)
    outputs: list[Mapping[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        result = {"data": shown(value), "execution_count": count, "metadata": {}, "output_type": "execute_result"}
        outputs.append(result)
    return outputs


def shown(value: object) -> Mapping[str, list[str]]:
    """As Jupyter stores it."""
    as_html = getattr(value, "_repr_html_", None)
    if as_html is None:
        return {"text/plain": _lines(repr(value))}
    return {"text/html": _lines(as_html()), "text/plain": [f"<{type(value).__name__}>"]}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def page(cells: Sequence[Cell]) -> str:
    """The notebook as Markdown. Code is fenced as `py`: a cell needs those before it, and no other page is so."""
    parts = []
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```py\n{source}\n```")
        parts += [_block(output) for output in cell.get("outputs", ())]
    return "\n\n".join(parts) + "\n"


def _block(output: Mapping[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", [])})
    if "text/html" in data:
        return "<div>" + "".join(data["text/html"]) + "</div>"
    return "```text\n" + "".join(data["text/plain"]).rstrip("\n") + "\n```"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
