"""The tables of docs/results.md, filled from bench/results/. The words around them are written by hand.

A table stands between `<!-- NAME -->` and `<!-- / -->`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "results.md"
RESULTS = ROOT / "bench" / "results"
_BLOCK = re.compile(r"<!-- ([\w.]+) -->\n.*?<!-- / -->", re.DOTALL)
_NO = "–"


def page() -> str:
    """The page with its tables as the results are now."""
    return _BLOCK.sub(_filled, PAGE.read_text(encoding="utf-8"))


def _filled(match: re.Match[str]) -> str:
    name = match[1]
    found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    rows = _peers(found["result"]) if name == "peers" else _evidence(found["result"])
    said = found["versions"]
    made = f"`{found['command']}`, agentdescent {said['agentdescent']}, Python {said['python']}, {said['system']}."
    return f"<!-- {name} -->\n\n{made}\n\n{_table(rows)}\n\n<!-- / -->"


def _table(rows: Iterator[Sequence[str]]) -> str:
    head, *others = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *others]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _evidence(result: dict[str, Any]) -> Iterator[Sequence[str]]:
    yield (
        *("", "pairs", "plain", "thrifty", "thrifty gains", "tokens to target, of plain's"),
        "the allocator adds to thrifty",
    )
    for name, each in result["compared"].items():
        one, added = each["thrifty against plain"], each.get("both against thrifty")
        yield (
            *(name, str(one["pairs"]), *(f"{value:.3f}" for value in one["quality"])),
            *(_interval(one["quality_diff"], "+.3f"), _interval(one["tokens_to_target_ratio"], ".2f")),
            _NO if added is None else _interval(added["quality_diff"], "+.3f"),
        )


def _peers(result: dict[str, Any]) -> Iterator[Sequence[str]]:
    yield (
        *(
            "",
            "quality",
            "at the cap",
            "reached",
            "tokens to target, of ours",
            "beyond the cap, at most",
            "engine, ms a call",
        ),
        "resumed as if undisturbed",
    )
    for name, one in result["peers"].items():
        same = one["resume_identical"] if one["reproducible"] else None  # else there is nothing to be the same as
        yield (
            *(name, f"{one['quality']:.3f}", f"{one['quality_at_cap']:.3f}", f"{one['reached']:.0%}"),
            *(_interval(one["tokens_to_target_ratio"], ".2f"), f"{one['overshoot']:.1%}"),
            *(f"{one['engine_ms']:.2f}", _NO if same is None else "yes" if same else "no"),
        )


def _interval(found: Sequence[float] | None, form: str) -> str:
    return _NO if found is None else f"{found[1]:{form}} ({found[0]:{form}} to {found[2]:{form}})"
