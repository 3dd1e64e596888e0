"""The tables of docs/results.md and of the README, filled from bench/results/. The words around them are by hand.

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
README = ROOT / "README.md"
RESULTS = ROOT / "bench" / "results"
MEASURED = (
    ("nine worlds with known truth", "worlds", "all"),
    ("Banking77, 10 intents, rule agent", "data", "banking77"),
    ("CLINC150, 10 intents, rule agent", "data", "clinc150"),
    ("Banking77, 5 intents, SmolLM2 (135 M), 40,000 tokens", "model", "SmolLM2-135M-Instruct"),
    ("the demo's messages, rule agent", "data", "demo"),
)
"""Rows of the README's table: what each is called there, and the suite and the workload that it is of."""
_BLOCK = re.compile(r"<!-- ([\w.]+) -->\n.*?<!-- / -->", re.DOTALL)
_NO = "–"


def pages() -> dict[Path, str]:
    """The pages with their tables as the results are now."""
    return {path: _BLOCK.sub(_filled, path.read_text(encoding="utf-8")) for path in (PAGE, README)}


def kept(name: str) -> dict[str, Any]:
    """A result, with the command and the versions that gave it."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _filled(match: re.Match[str]) -> str:
    name = match[1]
    if name == "measured":
        return f"<!-- {name} -->\n\n{_table(_measured())}\n\n<!-- / -->"
    found = kept(name)
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


def _measured() -> Iterator[Sequence[str]]:
    yield ("", "pairs", "plain", "thrifty", "difference, with its interval")
    for name, suite, workload in MEASURED:
        one = kept(f"evidence_{suite}")["result"]["compared"][workload]["thrifty against plain"]
        values = (f"{value:.3f}" for value in one["quality"])
        yield (name, str(one["pairs"]), *values, _interval(one["quality_diff"], "+.3f"))


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
