"""The command line as its users meet it, in processes of its own where signals or terminals matter."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentdescent_adapters.command.main import main
from agentdescent_adapters.disk import DiskLog, read_events
from agentdescent_adapters.telemetry.files import Status, read_rounds, read_status
from agentdescent_adapters.telemetry.gauge import bar

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-m", "agentdescent_adapters"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}"}

SLOW_AGENT = '''
import asyncio
from agentdescent import Answer, Rate, Tariff, Usage

class Slow:
    """Answers when the file `go` is there, or after a moment; never right."""
    name = "slow"
    repeat = "free"
    tariff = Tariff(Rate(strict=True, ceiling=4), Rate(strict=True, ceiling=9))

    async def solve(self, rendered, task):
        await asyncio.sleep(DELAY)
        return Answer("wrong", Usage(prompt=len(rendered.encode()), completion=1))

    async def propose(self, rendered, task, output, score, sample):
        await asyncio.sleep(DELAY)
        return Answer(f"junk {sample}", Usage(prompt=len(rendered.encode()), completion=2))
'''


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    code = main([*arguments, "--json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out.splitlines()[-1]) if printed.out else {}, printed.err


def messages(path: Path, rows: int = 30) -> str:
    topics = ("refund", "parcel", "password")
    lines = [f"please help with my {topics[i % 3]} number {i},{topics[i % 3]}_help" for i in range(rows)]
    path.write_text("text,label\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_run_replay_resume_status_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, out = messages(tmp_path / "m.csv"), str(tmp_path / "RUN")
    code, made, err = run(capsys, "run", "--tasks", tasks, "--test-share", "0.2", "--rounds", "4", "--out", out)
    assert code == 0
    assert made["base"] == 0.0
    assert made["final"] == made["test_final"] == 1.0
    assert made["spent"] == sum(made["by_purpose"].values())
    assert re.search(r"round 1/4  held-out", err)
    assert "\x1b" not in err
    assert "\r" not in err

    code, replayed, _ = run(capsys, "replay", out, "--check")
    assert code == 0
    assert (replayed["identical"], replayed["digest"], replayed["divergence"]) == (True, made["digest"], None)

    code, status, _ = run(capsys, "status", out)
    assert (code, status["stop_reason"], status["tokens"]) == (0, made["stop_reason"], made["spent"])
    code, followed, _ = run(capsys, "status", out, "--follow")
    assert (code, followed) == (0, status)

    code, shown, _ = run(capsys, "show", out)
    assert code == 0
    assert shown["version"] == made["version"] == len(shown["commits"])
    assert {origin["task"] for commit in shown["commits"] for origin in commit["origins"]}
    assert main(["show", out]) == 0
    assert "gained" in capsys.readouterr().out

    code, again, _ = run(capsys, "resume", out)
    assert (code, again["digest"]) == (0, made["digest"])
    assert [info.round for info in read_rounds(out)] == list(range(made["rounds"] + 1))
    assert "if " in (Path(out) / "artifact.txt").read_text(encoding="utf-8")
    assert (Path(out).stat().st_mode & 0o777) == 0o700


def test_a_config_file_and_flags_over_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages(tmp_path / "m.csv")
    config = tmp_path / "run.toml"
    text = 'tasks = "m.csv"\nrounds = 9\nmax_tokens = 50000\nworkers = 2\n'
    config.write_text(text, encoding="utf-8-sig")  # with the byte order mark that some editors write
    out = str(tmp_path / "RUN")
    code, made, _ = run(capsys, "run", str(config), "--rounds", "1", "--out", out, "--quiet")
    assert (code, made["rounds"], made["cap"]) == (0, 1, 50_000)
    code, more, _ = run(capsys, "resume", out, "--rounds", "3", "--quiet")
    assert code == 0
    assert more["rounds"] > 1
    assert more["digest"] != made["digest"]
    code, replayed, _ = run(capsys, "replay", out, "--check")
    assert (code, replayed["identical"], replayed["digest"]) == (0, True, more["digest"])


def test_curtailment_changes_no_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["demo", "--rounds", "30", "--seed", "2", "--max-tokens", "9000000", "--quiet", "--out"]
    _, short, _ = run(capsys, *flags, str(tmp_path / "a"))
    _, full, _ = run(capsys, *flags, str(tmp_path / "b"), "--no-curtail")
    assert (short["final"], short["version"]) == (full["final"], full["version"])
    assert short["version"] >= 2
    assert short["saved_by_curtailment"]["calls"] > 0
    assert short["spent"] < full["spent"]
    _, left, _ = run(capsys, "show", str(tmp_path / "a"))
    _, right, _ = run(capsys, "show", str(tmp_path / "b"))
    assert left == right


MISTAKES: list[tuple[list[str], str]] = [
    (["run"], "no tasks: give --tasks"),
    (["run", "--tasks", "absent.csv"], "absent.csv"),
    (["run", "--tasks", "m.csv", "--label", "lable"], "lable"),
    (["run", "--tasks", "m.xlsx"], "give one of .csv, .jsonl"),
    (["run", "--tasks", "m.csv", "--max-tokens", "0"], "max_tokens is 0"),
    (["run", "--tasks", "m.csv", "--max-tokens", "-5"], "max_tokens is -5"),
    (["run", "--tasks", "m.csv", "--max-tokens", "nan"], "--max-tokens"),
    (["run", "--tasks", "m.csv", "--max-tokens", "1"], "may need"),
    (["run", "--tasks", "m.csv", "--scorer", "exakt"], "exakt"),
    (["run", "--tasks", "m.csv", "--agent", "nowhere:agent"], "nowhere"),
    (["run", "--tasks", "m.csv", "--workers", "0"], "n_workers is 0"),
    (["run", "--tasks", "m.csv", "--limit", "5"], "limit is given, and means nothing to the file m.csv"),
    (["run", "--tasks", "m.csv", "--subset", "x"], "subset is given, and means nothing to the file m.csv"),
    (["run", "--tasks", "demo", "--text", "x"], "text is given, and means nothing to the tasks of the demo"),
    (["run", "bad.toml"], "unknown key 'worker'"),
    (["run", "broken.toml"], "broken.toml"),
    (["replay", "nowhere"], "holds no run"),
    (["resume", "nowhere"], "nowhere"),
    (["status", "nowhere"], "holds no run"),
    (["show", "nowhere"], "holds no run"),
    (["demo", "--tokens", "5"], "--tokens"),
]


@pytest.mark.parametrize(("arguments", "named"), MISTAKES, ids=[" ".join(arguments) for arguments, _ in MISTAKES])
def test_a_mistake_is_one_line_that_names_it(
    arguments: list[str],
    named: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    messages(tmp_path / "m.csv")
    (tmp_path / "bad.toml").write_text('tasks = "m.csv"\nworker = 3\n', encoding="utf-8")
    (tmp_path / "broken.toml").write_text("tasks = \n", encoding="utf-8")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert named in printed.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_new_run_does_not_overwrite_an_old_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, out = messages(tmp_path / "m.csv"), str(tmp_path / "RUN")
    assert run(capsys, "run", "--tasks", tasks, "--rounds", "1", "--out", out)[0] == 0
    code, _, err = run(capsys, "run", "--tasks", tasks, "--rounds", "1", "--out", out, "--quiet")
    assert (code, "already holds a run" in err) == (2, True)


def test_a_damaged_log_is_named_by_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, out = messages(tmp_path / "m.csv"), tmp_path / "RUN"
    assert run(capsys, "run", "--tasks", tasks, "--rounds", "1", "--out", str(out))[0] == 0
    lines = (out / "events.jsonl").read_bytes().splitlines(keepends=True)
    (out / "events.jsonl").write_bytes(b"".join([*lines[:9], *lines[10:]]))
    code, _, err = run(capsys, "replay", str(out), "--check")
    assert (code, "line 10" in err) == (3, True)


def test_other_tasks_on_resume_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, out = messages(tmp_path / "m.csv"), str(tmp_path / "RUN")
    assert run(capsys, "run", "--tasks", tasks, "--rounds", "1", "--out", out)[0] == 0
    messages(tmp_path / "m.csv", rows=33)
    code, _, err = run(capsys, "resume", out, "--rounds", "2", "--quiet")
    assert (code, "the tasks" in err) == (2, True)


def start(tmp_path: Path, *flags: str, delay: float = 0.005) -> tuple[subprocess.Popen[str], Path]:
    (tmp_path / "slow.py").write_text(SLOW_AGENT.replace("DELAY", str(delay)), encoding="utf-8")
    messages(tmp_path / "m.csv")
    process = subprocess.Popen(
        [
            *COMMAND,
            "run",
            "--tasks",
            "m.csv",
            "--agent",
            "slow:Slow",
            "--rounds",
            "100000",
            "--out",
            "RUN",
            "--json",
            *flags,
        ],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, tmp_path / "RUN"


def wait_for(run: Path, events: int) -> Status:
    """Until the status file says so; a minute at most."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        status = read_status(run)
        if status is not None and status.events >= events:
            return status
        select.select([], [], [], 0.01)
    raise AssertionError("the run does not get on")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_42_one_signal_settles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals, code: int
) -> None:
    process, out = start(tmp_path)
    wait_for(out, 50)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    ended = json.loads(stdout.splitlines()[-1])
    assert ended["stop_reason"] == "cancelled"
    assert "agentdescent resume RUN" in stderr
    assert "Traceback" not in stderr
    _, replayed, _ = run(capsys, "replay", str(out), "--check")
    assert (replayed["identical"], replayed["finished"], replayed["digest"]) == (True, True, ended["digest"])


def test_42_two_signals_stop_at_once_and_leave_a_run_that_resumes(tmp_path: Path) -> None:
    process, out = start(tmp_path, delay=30)
    wait_for(out, 1)
    process.send_signal(signal.SIGINT)
    select.select([], [], [], 0.5)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    (tmp_path / "slow.py").write_text(SLOW_AGENT.replace("DELAY", "0"), encoding="utf-8")
    again = subprocess.run(
        [*COMMAND, "resume", "RUN", "--max-calls", "200", "--json", "--quiet"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(again.stdout.splitlines()[-1])["stop_reason"] == "max_calls"
    assert sum(1 for _ in read_events(out)) > 100


def test_43_the_status_file_is_whole_whenever_it_is_read(tmp_path: Path) -> None:
    from agentdescent_adapters.disk import write_atomic

    path, stop = tmp_path / "status.json", threading.Event()
    versions = [msgspec.json.encode({"n": n, "text": "x" * (n % 9_000)}) for n in range(40)]
    write_atomic(path, versions[0])

    def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            write_atomic(path, versions[n % len(versions)])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        read = [path.read_bytes() for _ in range(10_000)]
    finally:
        stop.set()
        writer.join()
    assert set(read) <= set(versions)
    assert len(set(read)) > 1


def test_45_progress_in_a_terminal_stays_within_bounds(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    messages(tmp_path / "m.csv")
    process = subprocess.Popen(
        [*COMMAND, "run", "--tasks", "m.csv", "--rounds", "3", "--max-tokens", "60000", "--out", "RUN", "--json"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=follower,
    )
    os.close(follower)
    seen = b""
    try:
        while chunk := os.read(leader, 4096):
            seen += chunk
    except OSError:
        pass
    os.close(leader)
    assert process.wait(timeout=60) == 0
    text = seen.decode()
    assert "\r" in text
    shares = [int(found) for found in re.findall(r"(\d+)%", text)]
    assert shares
    assert max(shares) <= 100
    assert re.search(r"tok=[\d,]+/60,000", text)


def test_45_a_bar_is_never_fuller_than_full() -> None:
    assert bar(3.0, 4) == "████"
    assert bar(-1.0, 4) == "░░░░"
    assert bar(0.5, 4) == "██░░"


def test_status_of_a_run_in_another_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    process, out = start(tmp_path)
    try:
        wait_for(out, 30)
        code, status, _ = run(capsys, "status", str(out))
        assert code == 0
        assert status["stop_reason"] is None
        assert status["events"] >= 1
        code, _, err = run(capsys, "resume", str(out), "--quiet")
        assert (code, f"{process.pid}" in err) == (2, True)
    finally:
        process.kill()
        process.communicate()
    with DiskLog.open(out) as log:
        assert sum(1 for _ in log.events()) > 0


def test_26_rules_of_any_language_are_printed_in_any_locale(tmp_path: Path) -> None:
    lines = [f"hilfe mit {topic} nummer {i},{topic}_日本" for i in range(30) for topic in ("rückgabe", "größe")]
    (tmp_path / "m.csv").write_text("text,label\n" + "\n".join(lines) + "\n", encoding="utf-8")
    environment = {**ENVIRONMENT, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for command in (
        ["run", "--tasks", "m.csv", "--rounds", "2", "--out", "RUN"],
        ["show", "RUN"],
        ["show", "RUN", "--json"],
    ):
        done = subprocess.run([*COMMAND, *command], cwd=tmp_path, env=environment, capture_output=True, timeout=60)
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
        assert "größe_日本" in done.stdout.decode("utf-8")


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, out = messages(tmp_path / "m.csv"), tmp_path / "mine"
    out.mkdir()
    (out / "job.json").write_text("mine", encoding="utf-8")
    code, _, err = run(capsys, "run", "--tasks", tasks, "--out", str(out), "--quiet")
    assert (code, "is not empty" in err) == (2, True)
    assert (out / "job.json").read_text(encoding="utf-8") == "mine"


def test_a_refused_resume_spoils_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, out = messages(tmp_path / "m.csv"), str(tmp_path / "RUN")
    assert run(capsys, "run", "--tasks", tasks, "--rounds", "1", "--out", out)[0] == 0
    code, _, err = run(capsys, "resume", out, "--max-tokens", "50", "--quiet")
    assert (code, "max_tokens is 50" in err) == (2, True)
    code, more, _ = run(capsys, "resume", out, "--rounds", "2", "--quiet")
    assert (code, more["rounds"]) == (0, 2)
    code, again, _ = run(capsys, "resume", out, "--quiet")
    assert (code, again["digest"]) == (0, more["digest"])


def test_a_run_that_has_not_begun_is_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    DiskLog.create(tmp_path / "RUN").close()
    for command in ("status", "show", "replay", "report", "compare", "whatif"):
        code, _, err = run(capsys, command, str(tmp_path / "RUN"))
        assert (code, "has not begun" in err) == (2, True)


BROKEN_AGENTS = {
    "syntax": "def (",
    "raises": "raise RuntimeError('no')",
    "needs": "class Agent:\n    def __init__(self, key): pass\n",
    "begins": (
        "class Agent:\n    name = 'begins'\n    def begin(self, train): raise KeyError('x')\n"
        "    def solve(self, rendered, task): return ''\n"
        "    def propose(self, rendered, task, output, score): return ''\n"
    ),
}


@pytest.mark.parametrize("name", sorted(BROKEN_AGENTS))
def test_an_agent_that_cannot_be_used_is_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text(BROKEN_AGENTS[name], encoding="utf-8")
    messages(tmp_path / "m.csv")
    command = [*COMMAND, "run", "--tasks", "m.csv", "--agent", f"{name}:Agent", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert name in done.stderr


def test_nobody_reading_progress_does_not_end_the_run(tmp_path: Path) -> None:
    messages(tmp_path / "m.csv")
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, "run", "--tasks", "m.csv", "--rounds", "2", "--out", "RUN", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=writer, timeout=60)
    os.close(writer)
    assert done.returncode == 0
    assert json.loads(done.stdout.splitlines()[-1])["stop_reason"] == "rounds"
