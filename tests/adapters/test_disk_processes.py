"""Real processes: killed, forked, two at once, and under a C locale."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentdescent.errors import UsageError
from agentdescent_adapters.disk import DiskLog, read_events
from tests.history.facts import rolled, rollout

PRELUDE = """
import os, signal, sys, time
from agentdescent.errors import UsageError
from agentdescent_adapters.disk import DiskLog
from tests.history.facts import propose, rolled, rollout
path = sys.argv[1]
"""


def start(script: str, path: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    file = path.with_name(path.name + ".py")  # not -c: a C locale cannot pass it every character
    file.write_text(PRELUDE + script, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-W", "error", file, path, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(script: str, path: Path, *arguments: str, **environment: str) -> tuple[int, bytes, bytes]:
    with start(script, path, *arguments, **environment) as process:
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_two_processes_on_one_directory(tmp_path: Path) -> None:
    script = "log = DiskLog.create(path)\nprint('open', flush=True)\nsys.stdin.read()\nlog.close()"
    with start(script, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        for opener in (DiskLog.open, DiskLog.create):
            with pytest.raises(UsageError, match=f"{tmp_path} is being written by process {process.pid}:"):
                opener(tmp_path)
        assert list(read_events(tmp_path)) == []
        process.communicate(timeout=60)
    assert process.returncode == 0
    DiskLog.open(tmp_path).close()


def test_killed_at_any_moment_every_answer_is_there(tmp_path: Path) -> None:
    script = """
log = DiskLog.create(path, fsync="interval")
log.append(rollout(0)); log.append(rollout(1)); log.sync()
log.answered(rolled(0, "first"), "first", 0.1)
log.append(rolled(0, "first"))
log.answered(rolled(1, "second"), "second", 0.1)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(script, tmp_path)[0] == -signal.SIGKILL
    with DiskLog.open(tmp_path) as log:
        assert (log.dropped, list(log.events())) == ((), [rollout(0), rollout(1)])
        assert log.recall([0, 1]) == {0: (rolled(0, "first"), "first"), 1: (rolled(1, "second"), "second")}


def test_a_worker_process_that_outlives_a_killed_run_does_not_lock_it(tmp_path: Path) -> None:
    script = """
log = DiskLog.create(path)
if os.fork() == 0:
    print("child", os.getpid(), flush=True)
    time.sleep(60)
    os._exit(0)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""
    with start(script, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        child = int(process.stdout.readline().split()[1])
        try:
            with pytest.raises(UsageError, match="is being written by process"):
                DiskLog.open(tmp_path)
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert process.wait(60) == -signal.SIGKILL
            DiskLog.open(tmp_path).close()
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


LOCALE = """
texts = [
    "北京 🌍", "a\\r\\nb\\rc\\n", "\\x00\\x00", "\\u2028\\x85\\ufeff", "",
    "é" * 500_000, "x\\n" * 40_000, "y" * 1_000_000
]
assert (sys.flags.utf8_mode, sys.getfilesystemencoding()) == (0, "ascii")
log = DiskLog.create(path, texts=sys.argv[2])
for n, text in enumerate(texts):
    log.append(rollout(n, n)); log.sync()
    log.answered(rolled(n, text), text, 0.1)
    log.append(rolled(n, text))
log.close()
log = DiskLog.open(path)
assert log.dropped == ()
assert {n: text for n, (_, text) in log.recall(range(99)).items()} == dict(enumerate(texts))
assert list(log.events())[1::2] == [rolled(n, text) for n, text in enumerate(texts)]
log.close()
try:
    DiskLog.create(path)
except UsageError as error:
    print(ascii(str(error)))
"""


@pytest.mark.parametrize("texts", ["keep", "digest"])
def test_every_text_is_exact_under_a_c_locale(tmp_path: Path, texts: str) -> None:
    path = tmp_path / "北京 🌍"
    code, out, err = run(LOCALE, path, texts, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (code, err) == (0, b"")
    assert b"already holds a run" in out
    with DiskLog.open(path) as log:
        assert log.recall([0])[0][1] == "北京 🌍"
