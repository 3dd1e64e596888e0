"""The reference pages that are read off the code: events, states, and the modules of the API; and tables of results.

    python -m docs.generate            write docs/reference/, and the tables of docs/results.md and the README
    python -m docs.generate --check    exit 1 when a page is not what would be written

Events and their fields come from the records themselves. The states of a turn and of a proposal, and what leads from
one to another, come from the recorded runs of the test suite, which hold every mechanism.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec

from agentdescent import vector
from agentdescent.artifact.diff import Op
from agentdescent.engine.command import Command
from agentdescent.engine.event import Decision, Event, Outcome
from agentdescent.engine.state import State
from agentdescent.history.fold import folded
from agentdescent.history.log import read
from agentdescent.merge.verdict import Evidence
from docs import results

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
GOLDEN = ROOT / "tests" / "golden"
ROOMS = {
    "Running": ("evolution", "job", "result", "ports", "errors", "blocking", "budgeted"),
    "Deciding": ("engine.decision", "engine.transition", "engine.state", "engine.spec", "engine.command"),
    "Budget": ("budget.governor", "budget.tariff", "budget.usage", "budget.call_budget", "budget.returns"),
    "Allocation": ("allocation", "allocation.allocator", "allocation.config", "allocation.choice"),
    "Merging": ("merge.acceptance", "merge.gate", "merge.futility", "merge.verdict", "merge.audit"),
    "Searching": ("search", "search.sampling", "search.advantage"),
    "Artifacts": ("artifact.diff", "artifact.strategy"),
    "History": ("history.log", "history.replay", "history.report", "history.lineage", "history.rounds"),
}
NODES = {
    "idle": (70, 60),
    "rolling": (210, 60),
    "rolled": (350, 60),
    "proposing": (490, 60),
    "proposed": (630, 60),
    "verifying": (770, 60),
    "verified": (910, 60),
    "waiting": (770, 220),
    "merging": (560, 220),
    "gate": (350, 220),
    "committed": (350, 340),
    "closed": (630, 340),
}


def main(arguments: list[str]) -> int:
    read_off = {"events.md": events(), "states.md": states(), "states.svg": drawing(), **api()}
    pages = {REFERENCE / name: text for name, text in read_off.items()} | results.pages()
    if arguments == ["--check"]:
        stale = [path.relative_to(ROOT) for path, text in pages.items() if not _is(path, text)]
        for path in stale:
            print(f"{path} is not what the code and the results say: python -m docs.generate", file=sys.stderr)
        return 1 if stale else 0
    REFERENCE.mkdir(exist_ok=True)
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return 0


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


# --- events -----------------------------------------------------------------------------------------------------------


def events() -> str:
    parts = [
        "# Events",
        "",
        "Everything that ever changes a state; one line of `events.jsonl` each, its `type` first.",
        "",
    ]
    written = dict.fromkeys(get_args(Decision), "`decide`") | dict.fromkeys(get_args(Outcome), "a port")
    for cls in get_args(Event):
        parts += _record(cls, f"Written by {written.get(cls, 'the driver')}.")
    for title, union in (("Commands", Command), ("Evidence of a verdict", Evidence), ("Ops of a diff", Op)):
        parts += [f"# {title}", ""]
        for cls in get_args(union):
            parts += _record(cls, "")
    return "\n".join(parts).rstrip() + "\n"


def _record(cls: type[msgspec.Struct], note: str) -> list[str]:
    tag = cls.__struct_config__.tag
    parts = [f"## {cls.__name__}", "", inspect.getdoc(cls) or "", ""]
    if note:
        parts += [f"{note} Tag `{tag}`.", ""]
    fields = msgspec.structs.fields(cls)
    if fields:
        parts += ["| field | type | default |", "|---|---|---|"]
        parts += [f"| `{one.name}` | `{_type(cls, one.name)}` | {_default(one)} |" for one in fields]
        parts.append("")
    return parts


def _type(cls: type[msgspec.Struct], name: str) -> str:
    return str(cls.__annotations__[name]).replace("|", "\\|")


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is msgspec.NODEFAULT:
        return "required" if field.required else "empty"
    return f"`{field.default!r}`"


# --- states -----------------------------------------------------------------------------------------------------------


def states() -> str:
    parts = [
        "# States",
        "",
        "A proposal on its way from a rollout to a verdict: the turn of a worker above, the merge below.",
        "Read off recorded runs: what an event leads to is what it led to there.",
        "",
        "![The states of a proposal](states.svg)",
        "",
        "| from | to | by |",
        "|---|---|---|",
    ]
    parts += [f"| {before} | {after} | {', '.join(sorted(by))} |" for (before, after), by in transitions().items()]
    return "\n".join(parts) + "\n"


def transitions() -> dict[tuple[str, str], set[str]]:
    """From, to, and the events that led there, in every recorded run that was not edited."""
    found: dict[tuple[str, str], set[str]] = {}
    for path in sorted(GOLDEN.glob("*.jsonl")):
        if path.stem.startswith("edited"):
            continue
        log = (event for event, _ in read(path.read_bytes().splitlines(keepends=True)))
        for event, before, after in folded(log):
            for move in (*_turns(before, after), *_cards(event, before, after)):
                found.setdefault(move, set()).add(_name(event))
    order = list(NODES)
    return dict(sorted(found.items(), key=lambda item: (order.index(item[0][0]), order.index(item[0][1]))))


def _name(event: Event) -> str:
    command = getattr(event, "command", None)
    if command is None:
        return type(event).__name__
    return f"Decided({getattr(command, 'purpose', 'propose')})"


def _turns(before: State, after: State) -> Iterator[tuple[str, str]]:
    for old, new in zip(vector.items(before.workers), vector.items(after.workers), strict=True):
        if old.stage != new.stage and {old.stage, new.stage} <= set(NODES):
            yield old.stage, new.stage


def _cards(event: Event, before: State, after: State) -> Iterator[tuple[str, str]]:
    old, new = _places(before), _places(after)
    for subject in sorted(old.keys() | new.keys()):
        was, now = old.get(subject), new.get(subject)
        if was is None and now is not None and before.started:
            yield "verified" if _was_verified(before, subject) else "proposed", now
        elif was is not None and now is None:
            yield was, "committed" if _name(event) == "Committed" else "closed"
        elif was is not None and now is not None and was != now:
            yield was, now


def _was_verified(state: State, subject: int) -> bool:
    return any(worker.subject == subject and worker.stage == "verifying" for worker in vector.items(state.workers))


def _places(state: State) -> dict[int, str]:
    """Where each card is: it waits, is being merged, or is part of what is before the gate."""
    found = {card.subject: "waiting" for card in state.cards}
    sweep = state.sweep
    if sweep is not None:
        groups = (*sweep.groups, sweep.intake, sweep.kept, sweep.parked)
        found |= {card.subject: "merging" for group in groups for card in group}
        found |= {card.subject: "gate" for gate in sweep.gates for card in gate.cards}
    return found


def drawing() -> str:
    """The states as boxes, and an arrow for each pair of them that a recorded run went through."""
    arrows = "\n".join(_arrow(before, after) for before, after in transitions())
    boxes = "\n".join(
        f'<rect x="{x - 55}" y="{y - 20}" width="110" height="40" rx="8"/><text x="{x}" y="{y + 5}">{name}</text>'
        for name, (x, y) in NODES.items()
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 380" role="img" aria-label="States of a proposal">\n'
        "<style>rect{fill:#eef4fb;stroke:#0b5cad}text{font:15px sans-serif;text-anchor:middle;fill:#1b1f24}"
        "path{fill:none;stroke:#545c66;stroke-width:1.5;marker-end:url(#a)}</style>\n"
        '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L10 5L0 10z" style="fill:#545c66;stroke:none;marker-end:none"/></marker></defs>\n'
        f"{arrows}\n{boxes}\n</svg>\n"
    )


def _arrow(before: str, after: str) -> str:
    (x1, y1), (x2, y2) = NODES[before], NODES[after]
    if y1 == y2:
        way = 1 if x2 > x1 else -1
        if (abs(x2 - x1) <= 215 and way > 0) or (y1 > 100 and abs(x2 - x1) <= 215):
            return f'<path d="M{x1 + 55 * way} {y1}L{x2 - 55 * way} {y2}"/>'
        lift = y1 - 20 if way < 0 and y1 < 100 else y1 + 20
        bend = lift + (-1 if lift < y1 else 1) * abs(x2 - x1) * 0.09
        return f'<path d="M{x1} {lift}Q{(x1 + x2) / 2:.0f} {bend:.0f} {x2} {lift}"/>'
    way = 1 if y2 > y1 else -1
    return f'<path d="M{x1} {y1 + 20 * way}L{x2} {y2 - 20 * way}"/>'


# --- modules ----------------------------------------------------------------------------------------------------------


def api() -> dict[str, str]:
    """A page a room, whose text the documentation builder takes from the docstrings."""
    pages = {}
    for title, modules in ROOMS.items():
        parts = [f"# {title}", ""]
        for module in modules:
            parts += [f"::: agentdescent.{module}", ""]
        pages[f"{title.lower()}.md"] = "\n".join(parts).rstrip() + "\n"
    return pages


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
