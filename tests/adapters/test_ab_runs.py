"""`agentdescent ab` where nothing fails: the controls, going on, side by side, and what it does not take."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentdescent.experiment.results import ArmResult
from agentdescent.record import replace
from agentdescent.result import EvolutionResult
from agentdescent_adapters.command.ab import seeds_of
from agentdescent_adapters.command.main import main
from agentdescent_adapters.comparison import running
from agentdescent_adapters.comparison.running import Planned
from agentdescent_adapters.comparison.workloads import Prepared
from agentdescent_adapters.disk.layout import EVENTS
from bench import ab_allocator
from tests.adapters.ab_command import SMALL, ab, rows_of

WORLD = ("--world", "clusters", "--max-tokens", "400000", "--budget-start", "2")
ROOT = Path(__file__).parent.parent.parent


def digests(out: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(out.glob(f"*/{EVENTS}"))}


def test_every_arm_has_the_same_budget_and_the_controls_are_what_they_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result, err = ab(capsys, *WORLD, "--seeds", "0..1", "--jobs", "1", "--out", str(tmp_path / "AB"))
    rows = rows_of(result)
    assert code == 5  # two pairs say nothing
    assert list(result["controls"]) == ["full", "random", "greedy", "lineage"]
    assert len(rows) == 12
    assert "12 runs of at most 400,000 tokens, 4,800,000 in all; nobody bills them" in err
    assert "ab: 12/12" in err
    for seed in (0, 1):
        of_seed = {arm: rows[arm, seed] for arm in ("off", "on", "full", "random", "greedy", "lineage")}
        assert all(100_000 < row["tokens"] <= 400_000 for row in of_seed.values())
        assert len({row["base"] for row in of_seed.values()}) == 1  # one world a seed
        assert (of_seed["off"]["consulted"], of_seed["full"]["skipped"]) == (0, 0)
        assert of_seed["full"]["consulted"] > 0
        assert of_seed["greedy"]["counterfactual"] == 0
    assert result["failed_spend"] == 0
    assert len({row["digest"] for row in result["rows"]}) == 12


def test_going_on_does_not_do_again_what_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "AB"
    _, first, _ = ab(capsys, *SMALL, "--seeds", "3", "--out", str(out))
    before = digests(out)
    _, again, _ = ab(capsys, *SMALL, "--seeds", "3", "--out", str(out))
    assert again == first
    assert digests(out) == before
    _, more, _ = ab(capsys, *SMALL, "--seeds", "3,4", "--out", str(out))
    assert [row["seed"] for row in more["rows"]] == [3, 3, 4, 4]
    assert more["rows"][:2] == first["rows"]
    assert digests(out).items() > before.items()

    events = out / "on-3" / EVENTS
    events.write_bytes(b"".join(before["on-3"].splitlines(keepends=True)[:90]))  # as a kill would leave it
    _, mended, _ = ab(capsys, *SMALL, "--seeds", "3,4", "--out", str(out))
    assert mended == more
    assert digests(out)["on-3"] == before["on-3"]


def test_side_by_side_gives_what_one_by_one_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = (*WORLD, "--seeds", "0..1", "--arms", "random", "--quiet")
    _, alone, _ = ab(capsys, *flags, "--jobs", "1", "--out", str(tmp_path / "A"))
    _, beside, _ = ab(capsys, *flags, "--jobs", "2", "--out", str(tmp_path / "B"))
    assert beside == alone
    assert len(alone["rows"]) == 6


def test_a_data_set_is_judged_by_its_test_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--dataset", "demo", "--max-tokens", "60000", "--jobs", "1", "--arms", "off")
    _, result, _ = ab(capsys, *flags, "--seeds", "1,2", "--out", str(tmp_path / "AB"))
    assert result["pairs"] == 2
    for row in result["rows"]:
        assert row["error"] == ""
        assert row["base"] < row["quality"] <= 1.0
        assert row["tokens"] <= 60_000


def test_a_config_file_is_a_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "job.toml"
    config.write_text('tasks = "demo"\nmax_tokens = 50000\nworkers = 2\ntest_share = 0.4\n', encoding="utf-8")
    flags = (str(config), "--arms", "off", "--jobs", "1", "--budget-rollouts", "800")
    _, result, _ = ab(capsys, *flags, "--seeds", "5", "--out", str(tmp_path / "AB"))
    assert result["pairs"] == 1
    assert all(row["tokens"] <= 50_000 and row["rollouts"] <= 800 for row in result["rows"])


def test_the_bench_is_the_same_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [*SMALL, "--seeds", "3", "--quiet", "--json", "--results", str(tmp_path)]
    assert ab_allocator.main(flags) == 5
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    kept = json.loads((tmp_path / "ab_allocator.json").read_text(encoding="utf-8"))
    assert (kept["result"], kept["met"]) == (result, False)
    _, same, _ = ab(capsys, *SMALL, "--seeds", "3", "--out", str(tmp_path / "AB"))
    kept_rows, rows = result.pop("rows"), same.pop("rows")
    assert same == result
    assert [dict(zip(kept_rows, row, strict=True)) for row in zip(*kept_rows.values(), strict=True)] == rows
    assert len(rows) == 2
    assert ab_allocator.main(["--world", "nowhere", "--max-tokens", "5"]) == 2


@pytest.mark.parametrize(
    ("gain", "verdict", "code"), [(0.0, "no difference", 0), (0.1, "improved", 0), (-0.1, "worse", 4)]
)
def test_a_verdict_has_its_exit_code(
    gain: float,
    verdict: str,
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the truth of the arm `on` is shifted, that is found."""
    scored = running.scored

    def shifted(row: ArmResult, planned: Planned, made: Prepared, result: EvolutionResult) -> ArmResult:
        found = scored(row, planned, made, result)
        assert found.quality is not None
        return replace(found, quality=found.quality + gain * (planned.arm == "on"))

    monkeypatch.setattr(running, "scored", shifted)
    flags = ("--world", "clusters", "--max-tokens", "600000", "--arms", "off", "--jobs", "1", "--allocator", "never")
    assert main(["ab", *flags, "--seeds", "0..9", "--out", str(tmp_path / "AB"), "--quiet"]) == code
    text = capsys.readouterr().out
    assert f"verdict: {verdict}" in text
    assert text.splitlines()[1].split()[:2] == ["arm", "pairs"]
    assert "20 runs, 10 complete pairs; nothing failed" in text


def test_the_rows_are_enough_to_find_the_numbers_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--world", "clusters", "--max-tokens", "600000", "--arms", "off", "--jobs", "1", "--quiet")
    _, result, _ = ab(capsys, *flags, "--allocator", "never", "--seeds", "0..2", "--out", str(tmp_path / "AB"))
    rows = rows_of(result)
    assert len(rows) == 6
    for name, mean in (("quality", "quality"), ("tokens", "tokens")):
        means = [sum(rows[arm, seed][name] for seed in range(3)) / 3 for arm in ("off", "on")]
        assert result[mean] == pytest.approx(means, abs=1e-4)
    off, on = (sum(rows[arm, seed]["to_target"] for seed in range(3)) for arm in ("off", "on"))
    assert result["tokens_to_target_ratio"][1] == pytest.approx(on / off, abs=1e-4)
    assert result["reached"] == [
        sum(rows[arm, seed]["to_target"] < 600_000 for seed in range(3)) for arm in ("off", "on")
    ]


def test_a_limit_and_the_texts_of_a_config_hold_for_every_arm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "job.toml"
    text = 'tasks = "demo"\nmax_tokens = 50000\nmax_rollouts = 420\ntexts = "digest"\nallocator = "random:0.5"\n'
    config.write_text(text, encoding="utf-8")
    flags = (str(config), "--arms", "off", "--jobs", "1", "--seeds", "5")
    _, result, _ = ab(capsys, *flags, "--out", str(tmp_path / "AB"))
    assert all(100 < row["rollouts"] <= 420 for row in result["rows"])
    for arm in ("off", "on"):
        answers = (tmp_path / "AB" / f"{arm}-5" / "answers.jsonl").read_text(encoding="utf-8")
        assert '"text":"unknown"' not in answers
        assert '"rolled-out"' in answers
    plan = json.loads((tmp_path / "AB" / "comparison.json").read_bytes())
    assert plan["treatment"]["allocator"] == "random:0.5"


def test_modules_are_found_where_the_command_is_started(tmp_path: Path) -> None:
    """As the installed command is: its own directory is on the path, and the current one is not."""
    module = "class Half:\n    def probability(self, stage, features):\n        return 0.5\n"
    (tmp_path / "ab_half.py").write_text(module, encoding="utf-8")
    start = "import sys; sys.path.remove(''); from agentdescent_adapters.command.main import main; sys.exit(main())"
    flags = ["--world", "clusters", "--max-tokens", "400000", "--arms", "off", "--seeds", "3", "--out", "AB"]
    command = [sys.executable, "-c", start, "ab", *flags, "--allocator", "ab_half:Half"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}"}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, "2 runs, 1 complete pairs; nothing failed" in done.stdout) == (5, True), done.stderr


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_bench_that_is_stopped_says_so(stop: signal.Signals, tmp_path: Path) -> None:
    """Everyone in the terminal is told, also processes that have just begun."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}", "TMPDIR": str(tmp_path)}
    flags = ["--world", "clusters", "--max-tokens", "600000", "--seeds", "0..29", "--results", str(tmp_path / "R")]
    begun = subprocess.Popen(
        [sys.executable, "-m", "bench.ab_allocator", *flags, "--jobs", "2"],
        env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + 60
    while not list(tmp_path.glob("*/comparison.json")) and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.2)  # the processes of the pool are being begun
    os.killpg(begun.pid, stop)
    printed, said = begun.communicate(timeout=60)
    assert (begun.returncode, printed) == (128 + stop, "")
    assert said.endswith("stopped; nothing is kept without --out DIR\n")
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_settles_and_the_same_command_goes_on(tmp_path: Path) -> None:
    out, environment = tmp_path / "AB", {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}"}
    flags = [*WORLD, "--seeds", "0..1", "--arms", "off", "--jobs", "2", "--out", str(out), "--json"]
    command = [sys.executable, "-m", "agentdescent_adapters", "ab", *flags]
    begun = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not list(out.glob(f"*/{EVENTS}")) and time.monotonic() < until:
        time.sleep(0.02)
    begun.send_signal(signal.SIGTERM)
    _, said = begun.communicate(timeout=60)
    assert begun.returncode == 143
    assert f"stopped; the same command goes on --out {out}" in said
    assert "Traceback" not in said
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    result = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, result["pairs"]) == (5, 2)
    assert all(row["error"] == "" for row in result["rows"])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--dataset", "demo"), "no --max-tokens"),
        (("--world", "nowhere", "--max-tokens", "9"), "there are clusters"),
        (("--world", "clusters", "--dataset", "demo", "--max-tokens", "9"), "leave out dataset"),
        ((*SMALL, "--seeds", "3,x"), "write 0..29, or 17,42"),
        ((*SMALL, "--seeds", "3,3"), "twice"),
        ((*SMALL, "--arms", "best"), "'best' is none of off, on, full"),
        ((*SMALL, "--stages", "lunch"), "'lunch' is none of verify"),
        ((*SMALL, "--allocator", "off"), "what the others are compared with"),
        ((*SMALL, "--allocator", "never"), "budget_start is an option of the allocator `value`"),
        ((*SMALL, "--jobs", "0"), "at least 1"),
        (("--world", "clusters", "--max-tokens", "9000"), "max_tokens is 9000"),
        (("--max-tokens", "9000"), "no tasks"),
        (("--max-tokens", "9000", "--source", "hf"), "says where --dataset is from, and there is none"),
        (("--dataset", "demo", "--max-tokens", "9000", "--source", "disk"), "invalid choice: 'disk'"),
        (("--dataset", "demo", "--max-tokens", "9000", "--provider", "acme"), "it is rules, openai, anthropic, or an"),
        (("--dataset", "demo", "--max-tokens", "9000", "--model", "m"), "model is given, and agent 'rules' is no"),
        (("--dataset", "demo", "--max-tokens", "9000", "--provider", "openai"), "no model is named: set model"),
        (("--world", "clusters", "--max-tokens", "9000", "--source", "hf"), "leave out source"),
        (("--world", "clusters", "--max-tokens", "9000", "--model", "m"), "leave out model"),
        ((*SMALL, "--target", "nan"), "--target is nan: it is a reward above 0, at most 1"),
        ((*SMALL, "--target", "1.5"), "--target is 1.5"),
        ((*SMALL, "--seeds", "0..99999999999"), "more than 100,000 runs of an arm"),
        ((*SMALL, "--seeds", "0..60000,100000..160000"), "more than 100,000 runs of an arm"),
    ],
)
def test_what_it_does_not_take(
    flags: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = ab(capsys, *flags, "--out", str(tmp_path / "AB"))
    assert code == 2
    assert message in err
    assert not (tmp_path / "AB").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('cache = "answers.sqlite"', "cache is set, and the arms would be answered out of one another's calls"),
        ("max_seconds = 60", "max_seconds is set, and a run that the clock stops has had no equal budget"),
    ],
)
def test_what_makes_runs_unequal_is_not_in_their_config(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "job.toml"
    config.write_text(f'tasks = "demo"\nmax_tokens = 50000\n{line}\n', encoding="utf-8")
    code, _, err = ab(capsys, str(config), "--out", str(tmp_path / "AB"))
    assert (code, message in err, "leave it out of a comparison" in err) == (2, True, True)
    assert not (tmp_path / "AB").exists()


def test_another_comparison_needs_another_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "AB")
    ab(capsys, *SMALL, "--seeds", "3", "--out", out)
    code, _, err = ab(capsys, *SMALL, "--seeds", "3", "--out", out, "--max-tokens", "500000")
    assert code == 2
    assert "holds another comparison, whose caps differ" in err


def test_seeds() -> None:
    assert seeds_of("0..3") == (0, 1, 2, 3)
    assert seeds_of("17, 42") == (17, 42)
    assert seeds_of("5,0..1") == (5, 0, 1)
