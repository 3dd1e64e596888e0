"""`agentdescent ab` where runs and scores fail: through `main`, every planned run has a row, and only pairs compare."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from agentdescent import RunError, evolution, seeded
from agentdescent.history.outcomes import choice_of
from agentdescent.job import Job, Options
from agentdescent.result import EvolutionResult
from agentdescent_adapters.command.main import main
from agentdescent_adapters.comparison import running
from agentdescent_adapters.disk import read_events
from tests.adapters.ab_command import SMALL, ab, fail_scoring, rows_of

MODULE = """
from agentdescent import ValueBudgetAllocator, Answer, CallFailed, Rate, Tariff, Usage

EXPLORES = ValueBudgetAllocator(
    budget_start=2.0, epsilon_start=1.0, epsilon_end=1.0, min_observations=1, min_weight=0.0
)

class Seeded:
    budget_start = 2.0
    seeds = []
    def __init__(self, seed=-1):
        if seed == 42:
            raise ValueError("no allocator for 42")
        self.seeds.append(seed)
    def probability(self, stage, features):
        return 0.5

class Breaks:
    name, repeat, blocking = "breaks", "free", False
    tariff = Tariff(Rate(strict=True, ceiling=4), Rate(strict=True, ceiling=64))
    def __init__(self):
        self.calls = 0
    def solve(self, rendered, task):
        self.calls += 1
        if self.calls > 15:
            raise CallFailed("provider", "gone", Usage(completion=2))
        return Answer("wrong", Usage(completion=2))
    def propose(self, rendered, task, output, score, sample):
        return Answer(f"junk {sample}", Usage(completion=8))

class Charged(Breaks):
    repeat = "charged"
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ab_parts.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_one_arm_that_cannot_be_scored_makes_no_pair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_scoring(monkeypatch, lambda planned: planned.arm == "on")
    out = str(tmp_path / "AB")
    code, result, _ = ab(capsys, *SMALL, "--seeds", "7", "--out", out)
    rows = rows_of(result)
    assert list(rows) == [("off", 7), ("on", 7)]
    assert code == 5
    assert (result["pairs"], result["incomplete"], result["verdict"]) == (0, [7], "not measurable")
    assert [result[name] for name in ("quality", "tokens", "quality_diff", "tokens_ratio")] == [None] * 4
    assert rows["on", 7]["error"] == "score: RuntimeError: mock scoring failure"
    assert rows["on", 7]["quality"] is None
    assert rows["on", 7]["tokens"] == result["failed_spend"] > 100_000
    assert rows["off", 7]["tokens"] == result["excluded_spend"] > 100_000
    assert main(["ab", *SMALL, "--seeds", "7", "--out", out, "--quiet"]) == 5
    text = capsys.readouterr().out
    assert "difference" not in text  # no table without a pair
    assert "on seed 7: score: RuntimeError: mock scoring failure" in text
    assert "2 runs, 0 complete pairs; failed spend" in text


def test_both_arms_that_cannot_be_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_scoring(monkeypatch, lambda planned: True)
    code, result, _ = ab(capsys, *SMALL, "--seeds", "7,9", "--out", str(tmp_path / "AB"))
    assert (code, result["pairs"], result["verdict"]) == (5, 0, "not measurable")
    assert result["failed_spend"] == sum(row["tokens"] for row in result["rows"])
    assert (len(result["rows"]), result["excluded_spend"]) == (4, 0)


def test_case_36_quality_and_cost_are_of_the_same_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """off fails on seed 0, on fails on seed 1, scoring fails on seed 2; what fails has spent, and says so."""
    work = evolution.work

    async def failing(job: Job, options: Options) -> EvolutionResult:
        result = await work(job, options)
        if (job.spec.seed, job.spec.allocator is None) in ((0, True), (1, False)):
            raise RunError("mock evolution failure")
        return result

    monkeypatch.setattr(running, "work", failing)
    fail_scoring(monkeypatch, lambda planned: (planned.arm, planned.seed) == ("on", 2))
    code, result, _ = ab(capsys, *SMALL, "--seeds", "0..4", "--out", str(tmp_path / "AB"))
    rows = rows_of(result)
    assert len(rows) == 10
    assert (code, result["pairs"], result["incomplete"]) == (5, 2, [0, 1, 2])
    for name, measured in (("quality", "quality"), ("tokens", "tokens")):
        means = [sum(rows[arm, seed][measured] for seed in (3, 4)) / 2 for arm in ("off", "on")]
        assert result[name] == pytest.approx(means, abs=1e-4)
    failed = [("off", 0), ("on", 1), ("on", 2)]
    assert [rows[key]["error"].split(":")[0] for key in failed] == ["run", "run", "score"]
    assert all(rows[key]["tokens"] > 100_000 for key in failed)
    assert result["failed_spend"] == sum(rows[key]["tokens"] for key in failed)
    assert result["excluded_spend"] == sum(rows[key]["tokens"] for key in (("on", 0), ("off", 1), ("off", 2)))
    assert result["fired"] == sum(rows["on", seed]["skipped"] for seed in (3, 4))


def test_a_model_that_goes_away_in_every_arm(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--dataset", "demo", "--provider", "ab_parts:Breaks", "--max-tokens", "200000", "--jobs", "1")
    code, result, _ = ab(capsys, *flags, "--seeds", "1,2", "--out", "AB")
    assert (code, result["pairs"]) == (5, 0)
    assert len(result["rows"]) == 12
    ran = [row for row in result["rows"] if row["arm"] != "random"]
    assert all(row["error"].startswith("run: ") for row in ran)
    assert result["failed_spend"] == sum(row["tokens"] for row in ran) >= 10 * 2 * 15
    blind = [row for row in result["rows"] if row["arm"] == "random"]
    assert all("the rate of skips is not known" in row["error"] for row in blind)


def test_case_37_zero_skips_and_some_counterfactuals_have_not_fired(
    modules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--world", "clusters", "--max-tokens", "700000", "--arms", "off", "--jobs", "1")
    code, result, _ = ab(capsys, *flags, "--allocator", "ab_parts:EXPLORES", "--seeds", "0..9", "--out", "AB")
    assert (code, result["pairs"], result["verdict"]) == (5, 10, "not measurable")
    assert result["fired"] == 0
    assert result["counterfactuals"] == sum(row["counterfactual"] for row in result["rows"]) > 0
    assert f"never fired: 0 skips, {result['counterfactuals']} counterfactuals" in result["why"]


def test_the_seed_of_the_run_is_that_of_the_draws_of_its_allocator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "AB"
    ab(capsys, *SMALL, "--max-tokens", "700000", "--seeds", "17,42", "--out", str(out))
    drawn = {}
    for seed in (17, 42):
        found = []
        for event in read_events(str(out / f"on-{seed}")):
            choice = choice_of(event)
            if choice is not None and choice.stage == "verify":
                subject = getattr(event, "subject", None)
                assert isinstance(subject, int)
                assert choice.draw == seeded(seed)("allocate-verify", subject)
                found.append(choice.draw)
        drawn[seed] = found
    assert len(drawn[17]) > 3
    assert not set(drawn[17]) & set(drawn[42])


def test_an_allocator_that_takes_a_seed_is_given_that_of_the_run(
    modules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--world", "clusters", "--max-tokens", "400000", "--arms", "off", "--jobs", "1")
    _, result, _ = ab(capsys, *flags, "--allocator", "ab_parts:Seeded", "--seeds", "17,42,0", "--out", "AB")
    rows = rows_of(result)
    assert {17, 0} == set(importlib.import_module("ab_parts").Seeded.seeds)
    assert rows["on", 42]["error"] == "build: ValueError: no allocator for 42"
    assert rows["on", 42]["tokens"] is None
    assert (result["pairs"], result["incomplete"], result["failed_spend"]) == (2, [42], 0)
    assert result["excluded_spend"] == rows["off", 42]["tokens"] > 0
    assert "greedy" not in result["controls"]


def test_what_is_billed_is_asked_for_first(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--dataset", "demo", "--provider", "ab_parts:Charged", "--max-tokens", "200000", "--jobs", "1")
    code, _, err = ab(capsys, *flags, "--seeds", "1", "--arms", "off", "--out", "AB")
    assert code == 2
    assert "2 runs of at most 200,000 tokens, 400,000 in all: give --yes" in err
    assert not Path("AB").exists()
    code, result, _ = ab(capsys, *flags, "--seeds", "1", "--arms", "off", "--out", "AB", "--yes")
    assert (code, len(result["rows"])) == (5, 2)
