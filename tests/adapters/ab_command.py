"""What the tests of `agentdescent ab` share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agentdescent.experiment.results import ArmResult
from agentdescent.result import EvolutionResult
from agentdescent_adapters.command.main import main
from agentdescent_adapters.comparison import running
from agentdescent_adapters.comparison.running import Planned
from agentdescent_adapters.comparison.workloads import Prepared

SMALL = ("--world", "clusters", "--max-tokens", "400000", "--arms", "off", "--jobs", "1", "--budget-start", "2")


def ab(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    """The exit code, the object of --json, and what was said on stderr."""
    code = main(["ab", *arguments, "--json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out.splitlines()[-1]) if printed.out else {}, printed.err


def rows_of(result: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    return {(row["arm"], row["seed"]): row for row in result["rows"]}


def fail_scoring(monkeypatch: pytest.MonkeyPatch, fails: Callable[[Planned], bool]) -> None:
    """The run ends well, and then its result cannot be scored."""
    scored = running.scored

    def broken(row: ArmResult, planned: Planned, made: Prepared, result: EvolutionResult) -> ArmResult:
        if fails(planned):
            raise RuntimeError("mock scoring failure")
        return scored(row, planned, made, result)

    monkeypatch.setattr(running, "scored", broken)
