"""Small versions of the benches, as a user runs them; and that each can fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentdescent.engine.event import Failed
from agentdescent.record import replace
from bench import ceiling, harness, tamper
from bench.crash import made_again
from bench.eventful import RECIPES, record


def run(arguments: list[str], results: Path) -> tuple[int, dict[str, Any]]:
    """The exit code, and the object in the last line of stdout."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments, "--json", "--results", str(results)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        timeout=300,
        check=False,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return done.returncode, found


def kept(name: str, results: Path) -> dict[str, Any]:
    found = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_ceiling(tmp_path: Path) -> None:
    code, result = run(["-m", "bench.ceiling", "--workers", "3", "16", "--caps", "10000"], tmp_path)
    assert {name: result[name] for name in ("max_over", "cells", "max_over_log", "not_ended_by_cap")} == {
        "max_over": 0,
        "cells": 48,
        "max_over_log": 0,
        "not_ended_by_cap": 0,
    }
    assert 0 < result["max_unspent_in_paths"] < 1
    assert result["commits"] > 0
    assert code == 0
    file = kept("ceiling", tmp_path)
    assert file["command"] == "python -m bench.ceiling --workers 3 16 --caps 10000 --json"
    assert (file["met"], file["result"]) == (True, result)
    assert {"agentdescent", "python", "msgspec"} < set(file["versions"])


def test_crash(tmp_path: Path) -> None:
    code, result = run(["-m", "bench.crash", "--kills", "10"], tmp_path)
    assert (result["kills"], result["kills_in_resume"]) == (10, 1)
    assert min(result["runs_free"], result["runs_charged"], result["power_lost"]) >= 4
    targets = (
        "free_diverged",
        "repeated_answered",
        "charged_outside_over_log",
        "charged_log_over_cap",
        "not_replayed",
    )
    assert [result[name] for name in targets] == [0] * len(targets)
    assert result["open_calls_per_kill"] > 0
    assert code == 0


FORGETFUL = """
import sys
from agentdescent.engine.event import Outcome
from agentdescent_adapters.disk import DiskLog
from bench import crash

recall = DiskLog.recall

def forget(log, ids):
    folded = {event.id for event in log.events() if isinstance(event, Outcome)}
    return {command: answer for command, answer in recall(log, ids).items() if command in folded}

DiskLog.recall = forget
sys.exit(crash.main())
"""


def test_crash_sees_a_log_that_forgets_its_answers(tmp_path: Path) -> None:
    script = tmp_path / "forgetful.py"
    script.write_text(FORGETFUL, encoding="utf-8")
    code, result = run([str(script), "--kills", "20"], tmp_path)
    assert (code, result["repeated_answered"] > 0) == (1, True)


def test_calls_made_again() -> None:
    assert made_again(["3", "4"], {1, 2}) == 0
    assert made_again(["3", "4", "3"], {1, 2}) == 1
    assert made_again(["1", "4", "1"], {1, 2}) == 2


def test_tamper(tmp_path: Path) -> None:
    code, result = run(["-m", "bench.tamper", "--every", "100"], tmp_path)
    assert (code, result["undetected"], result["misnamed"]) == (0, 0, 0)
    assert result["edits"] > 3_000
    assert result["rechained"] > 100
    assert result["also_by_file"] > 100


@pytest.fixture(scope="module")
def recorded() -> tamper.Recorded:
    return tamper.Recorded(record(RECIPES[0]))


def test_a_log_that_nobody_touched_holds(recorded: tamper.Recorded, tmp_path: Path) -> None:
    assert recorded.find(0, recorded.lines) is None
    assert recorded.find_in_file(str(tmp_path), 7, recorded.lines[7:]) is None
    assert tamper.find_rechained(recorded.events) is None


def test_what_a_port_said_can_be_rewritten(recorded: tamper.Recorded) -> None:
    """Not promised: nothing but the digest that a run prints pins the message of a failure that was asked again."""
    events = list(recorded.events)
    at = next(at for at, event in enumerate(events) if isinstance(event, Failed))
    event = events[at]
    assert isinstance(event, Failed)
    events[at] = replace(event, message="another")
    assert tamper.find_rechained(events) is None


def test_an_edit_that_is_not_found_or_found_elsewhere_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    tally = tamper.Tally(1)
    for found in (7, None, 8):
        tally.note(tamper.Edit("edited", 7), found)
    assert (tally.edits, tally.undetected, tally.misnamed) == (3, 1, 1)
    assert capsys.readouterr().err.splitlines() == [
        "undetected: Edit(what='edited', line=7)",
        "named line 8: Edit(what='edited', line=7)",
    ]


class Doubling(harness.Counter):
    """A provider that bills everything twice."""

    def bill(self, account: str, tokens: int, key: object = "-") -> None:
        super().bill(account, 2 * tokens, key)


def test_ceiling_sees_what_only_the_provider_knows() -> None:
    cell = ceiling.Cell(4, 10_000, "constant", "never", "async", "ordered")
    with harness.Counter() as honest, Doubling() as doubling:
        fair, unfair = ceiling.measure(cell, 0, honest), ceiling.measure(cell, 0, doubling)
    spent = cell.cap + fair.over
    assert (fair.over <= 0, fair.over_log) == (True, 0)
    assert (unfair.over, unfair.over_log) == (2 * spent - cell.cap, spent)


def test_the_counting_process_keeps_accounts_apart() -> None:
    with harness.Counter() as counter:
        for number in range(3_000):  # more than a reply that one read returns
            counter.bill("a", number, f"call-{number}")
        counter.bill("b", 7)
        assert counter.take("a") == (sum(range(3_000)), tuple(f"call-{number}" for number in range(3_000)))
        assert counter.take("a") == (0, ())
        assert counter.take("b") == (7, ("-",))
