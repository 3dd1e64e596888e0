"""bench.evidence: pieces of a comparison add up to the whole of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agentdescent.experiment.results import ArmResult
from agentdescent.record import replace
from agentdescent_adapters.command.ab import PLAN
from bench import evidence, evidence_rows
from bench.evidence_rows import Row


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    monkeypatch.setattr(sys, "argv", ["evidence", "worlds", "--jobs", "1", "--json", *words])
    assert evidence.main() == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_what_is_measured_in_pieces_is_what_is_measured_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Rows of an earlier call are taken as they are, and their directories are gone."""
    monkeypatch.setitem(evidence.TOKENS, "worlds", 400_000)
    monkeypatch.setattr(evidence, "NAMES", ("clusters", "k-module"))
    pieces, arms = str(tmp_path / "pieces"), "plain,thrifty"
    common = ("--arms", arms, "--results", str(tmp_path))
    run(monkeypatch, capsys, "--seeds", "0..1", "--out", pieces, *common)
    first = (Path(pieces) / "rows.jsonl").read_bytes()
    assert (first.count(b"\n"), sorted(path.name for path in Path(pieces).iterdir())) == (8, [PLAN, "rows.jsonl"])
    found = run(monkeypatch, capsys, "--seeds", "0..2", "--out", pieces, *common)
    assert (Path(pieces) / "rows.jsonl").read_bytes().startswith(first)
    assert found == run(monkeypatch, capsys, "--seeds", "0..2", *common)
    assert (found["failed"], found["over_cap"]) == ([], 0)
    compared = found["compared"]
    assert isinstance(compared, dict)
    assert list(compared) == ["clusters", "k-module", "all"]
    assert all(list(each) == ["thrifty against plain"] for each in compared.values())
    assert {each["thrifty against plain"]["pairs"] for each in compared.values()} == {3}


def test_a_seed_counts_for_all_workloads_only_where_it_was_scored_in_all() -> None:
    rows = [
        Row("a", ArmResult("plain", 0, quality=0.2, tokens=10)),
        Row("b", ArmResult("plain", 0, quality=0.6, tokens=5)),
        Row("a", ArmResult("plain", 1, quality=0.9, tokens=1)),
        Row("b", ArmResult("plain", 1, error="run: lost")),
        Row("a", ArmResult("thrifty", 1, quality=0.9, tokens=1)),
    ]
    (only,) = evidence_rows.overall(rows, ("a", "b"))
    assert (only.arm, only.seed, only.tokens) == ("plain", 0, 15)
    assert only.quality == pytest.approx(0.4)


def test_what_failed_in_every_arm_is_told_apart_from_what_did_in_some() -> None:
    failed = ArmResult("plain", 1, error="run: lost")
    rows = [
        Row("a", ArmResult("plain", 0, quality=0.2)),
        Row("a", failed),
        Row("a", replace(failed, arm="thrifty")),
        Row("b", ArmResult("plain", 1, quality=0.2)),
        Row("b", replace(failed, arm="thrifty")),
    ]
    assert evidence_rows.failures(rows) == ({"a": [1]}, ["b thrifty 1: run: lost"])


def test_an_arm_that_there_is_not_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["evidence", "worlds", "--arms", "plain,cheap"])
    with pytest.raises(SystemExit):
        evidence.main()
    assert "'cheap' is none of plain, thrifty" in capsys.readouterr().err


def test_rows_of_another_cap_are_not_taken_for_these(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(evidence, "NAMES", ("clusters",))
    monkeypatch.setitem(evidence.TOKENS, "worlds", 400_000)
    words = ("--arms", "plain", "--seeds", "0", "--out", str(tmp_path / "kept"), "--results", str(tmp_path))
    run(monkeypatch, capsys, *words)
    monkeypatch.setitem(evidence.TOKENS, "worlds", 500_000)
    with pytest.raises(SystemExit):
        run(monkeypatch, capsys, *words)
    assert "kept holds another comparison, whose tokens differ: name another --out" in capsys.readouterr().err


def test_a_directory_that_was_moved_and_a_torn_line_are_gone_on_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(evidence, "NAMES", ("clusters",))
    monkeypatch.setitem(evidence.TOKENS, "worlds", 400_000)
    before, after = tmp_path / "before", tmp_path / "after"
    common = ("--arms", "plain", "--results", str(tmp_path))
    run(monkeypatch, capsys, "--seeds", "0", "--out", str(before), *common)
    before.rename(after)
    kept = after / "rows.jsonl"
    first = kept.read_bytes()
    kept.write_bytes(first + first[: len(first) // 2])
    run(monkeypatch, capsys, "--seeds", "0..1", "--out", str(after), *common)
    lines = kept.read_bytes().splitlines(keepends=True)
    assert (lines[0], len(lines)) == (first, 2)
    assert [row.result.seed for row in evidence.kept_rows(kept)] == [0, 1]


def test_the_level_is_that_of_the_pairs_there_are() -> None:
    """30 runs of which one failed are 29 pairs, with which no verdict looks twice."""
    results = [ArmResult(arm, seed, quality=0.5, tokens=1) for arm in ("plain", "thrifty") for seed in range(30)]
    (whole,) = evidence_rows._compared(results, None).values()
    (less,) = evidence_rows._compared([*results[:-1], ArmResult("thrifty", 29, error="run: lost")], None).values()
    assert isinstance(whole, dict)
    assert isinstance(less, dict)
    assert ((whole["pairs"], whole["level"]), (less["pairs"], less["level"])) == ((30, 0.975), (29, 0.95))
