"""The direction of imports and what the core must not touch, read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentdescent

ROOT = Path(agentdescent.__file__).parent
RANKS = {
    "record": 0,
    "errors": 0,
    "vector": 0,
    "beta": 0,
    "artifact": 1,
    "budget": 1,
    "allocation": 2,
    "search": 3,
    "merge": 4,
    "engine": 5,
    "history": 6,
    "ports": 6,
    "experiment": 7,
    "budgeted": 7,
    "own": 7,
    "wiring": 7,
    "effects": 7,
    "recovery": 7,
    "blocking": 7,
    "simulation": 7,
    "threads": 7,
    "inflight": 8,
    "calls": 8,
    "driver": 8,
    "job": 9,
    "result": 9,
    "evolution": 10,
    "testing": 10,
    "arms": 11,
    "": 12,
}
SHELL = {
    "wiring",
    "effects",
    "job",
    "result",
    "blocking",
    "recovery",
    "calls",
    "threads",
    "budgeted",
    "own",
    "inflight",
    "driver",
    "evolution",
    "simulation",
    "testing",
    "arms",
    "",
}
BANNED_MODULES = {
    *("time", "datetime", "random", "secrets", "uuid", "os", "sys", "io", "pathlib", "socket", "subprocess"),
    *("threading", "asyncio", "logging", "structlog"),
}
BANNED_CALLS = {"open", "print", "input", "hash", "id", "eval", "exec"}


def room(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


MODULES = sorted(ROOT.rglob("*.py"))
CORE = [path for path in MODULES if room(path) not in SHELL]


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_every_module_has_a_rank() -> None:
    assert len(MODULES) > 40
    assert {room(path) for path in MODULES} == set(RANKS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_downwards(path: Path) -> None:
    own = RANKS[room(path)]
    for name in imports(parsed(path)):
        if name == "agentdescent" or not name.startswith("agentdescent"):
            continue
        assert not name.startswith("agentdescent_adapters"), f"{path}: the core imports {name}"
        other = name.split(".")[1]
        if other in RANKS:
            assert RANKS[other] <= own, f"{path} imports {name}, which lies above it"


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_core_is_pure(path: Path) -> None:
    tree = parsed(path)
    for name in imports(tree):
        assert name.split(".")[0] not in BANNED_MODULES, f"{path} imports {name}"
        assert not name.startswith("numpy.random"), f"{path} imports {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in BANNED_CALLS, f"{path}:{node.lineno} calls {node.func.id}"
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or (isinstance(node.type, ast.Name) and node.type.id == "Exception")
            assert not broad, f"{path}:{node.lineno} catches everything"


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_of_the_core_holds_a_mutable_value(path: Path) -> None:
    for node in parsed(path).body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        mutable = isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)
        exported = isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
        )
        assert not mutable or exported, f"{path}:{node.lineno} holds a mutable value"


def test_only_the_shell_imports_asyncio() -> None:
    users = {room(path) for path in MODULES if any(name.split(".")[0] == "asyncio" for name in imports(parsed(path)))}
    assert users == {"blocking", "calls", "driver", "effects", "simulation", "testing"}


def test_records_use_the_checked_replace() -> None:
    for path in CORE:
        for name in imports(parsed(path)):
            assert name != "msgspec.structs.replace" or room(path) == "record", path
