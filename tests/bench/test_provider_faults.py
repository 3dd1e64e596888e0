"""A small version of bench.provider_faults; and that it can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentdescent.record import replace
from bench.provider_cells import CELLS, CLIENTS, Ended
from bench.provider_faults import Row, summary
from bench.provider_overhead import Overhead
from tests.bench.test_benches import run


def test_the_cells_of_one_fault(tmp_path: Path) -> None:
    _, result = run(["-m", "bench.provider_faults", "--only", "whole-500"], tmp_path)
    assert {name: result[name] for name in ("cells", "wrong_kind", "uncharged", "verdicts_failed")} == {
        "cells": len(CLIENTS),
        "wrong_kind": 0,
        "uncharged": 0,
        "verdicts_failed": 0,
    }
    assert result["charged"] > result["billed"] > 0
    assert 0 < result["bare_ms"] < result["overhead_ms"]


def test_every_fault_meets_every_client() -> None:
    assert len({cell.model for cell in CELLS}) == len(CELLS) == 120
    for client in CLIENTS:
        assert {cell.fault.name for cell in CELLS if cell.client == client} == {cell.fault.name for cell in CELLS}


RIGHT = {cell.fault.name: cell for cell in CELLS}
FAILED = Row(RIGHT["500"], Ended(("provider",), 100, "", 8), 8, 90)
REPEATED = Row(RIGHT["429"], Ended((), 100, "", 8), 10, 90)


@pytest.mark.parametrize(
    ("row", "wrong", "uncharged"),
    [
        (FAILED, 0, 0),
        (REPEATED, 0, 0),
        (replace(FAILED, billed=101), 0, 1),
        (replace(FAILED, requests=9), 1, 0),
        (replace(FAILED, ended=Ended(("timeout",), 100, "", 8)), 1, 0),
        (replace(FAILED, ended=Ended((), 100, "", 8)), 1, 0),
        (replace(FAILED, ended=Ended(("provider",), 100, "the run ended", 8)), 1, 0),
        (replace(REPEATED, requests=8), 1, 0),
        (replace(REPEATED, ended=Ended(("rate-limit",), 100, "", 8)), 1, 0),
    ],
)
def test_it_can_fail(row: Row, wrong: int, uncharged: int) -> None:
    found = summary([row], ["error retry_storm x", "warning gave_up x"], Overhead(0.5, 0.1))
    assert (found["wrong_kind"], found["uncharged"], found["verdicts_failed"]) == (wrong, uncharged, 1)
