"""The log on disk: the contract of every log, one writer, texts, and disks that fail."""

from __future__ import annotations

import os
import stat
import tracemalloc
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.engine.event import Event, Failed, Proposed, RolledOut
from agentdescent.errors import CorruptLog, UsageError
from agentdescent.history.memory import MemoryLog
from agentdescent.ports import Log
from agentdescent.testing import check_log
from agentdescent_adapters.disk import DiskLog, Files, OsFiles, read_events
from tests.adapters.disk_runs import QuickFiles, ShortFiles
from tests.history.facts import AWKWARD, events, propose, rolled, rollout, small_log

Texts = Literal["keep", "digest"]
BOTH = pytest.mark.parametrize("texts", ["keep", "digest"])


def fill(log: DiskLog, facts: tuple[Event, ...] = small_log()) -> None:
    """Append facts as a driver does: every outcome answered first. The awkward output belongs to command 0."""
    for event in facts:
        log.sync()
        if isinstance(event, (RolledOut, Proposed, Failed)):
            log.answered(
                event, AWKWARD if event == rolled(0, AWKWARD) else "no" if event == rolled(2, "no") else "", 1.5
            )
        log.append(event)


@BOTH
@pytest.mark.parametrize("fsync", ["always", "interval"])
@pytest.mark.parametrize("files", [OsFiles(), QuickFiles(), ShortFiles(7)])
def test_it_keeps_the_contract_of_a_log(
    tmp_path: Path, texts: Texts, fsync: Literal["always", "interval"], files: Files
) -> None:
    def reopen(log: Log) -> Log:
        log.close()
        assert log.path == str(tmp_path / "run")
        again = DiskLog.open(tmp_path / "run", fsync=fsync, files=files)
        assert again.dropped == ()
        return again

    check_log(lambda: DiskLog.create(tmp_path / "run", texts=texts, fsync=fsync, files=files), reopen)


@given(facts=st.lists(events, max_size=5))
def test_any_event_comes_back_and_the_digest_is_that_of_memory(
    tmp_path_factory: pytest.TempPathFactory, facts: list[Event]
) -> None:
    path, memory = tmp_path_factory.mktemp("log") / "run", MemoryLog(facts)
    with DiskLog.create(path, files=QuickFiles()) as log:
        for event in facts:
            if isinstance(event, (RolledOut, Proposed, Failed)):
                log.answered(event, "", 0.0)
            log.append(event)
        assert (list(log.events()), log.digest) == (facts, memory.digest)
    assert list(read_events(path)) == facts
    with DiskLog.open(path, files=QuickFiles()) as log:
        assert (list(log.events()), log.digest) == (facts, memory.digest)


@BOTH
def test_everything_is_private_and_in_its_place(tmp_path: Path, texts: Texts) -> None:
    old = os.umask(0)
    try:
        with DiskLog.create(tmp_path / "deep" / "run", texts=texts, files=QuickFiles()) as log:
            log.append(rollout(0))
            log.answered(rolled(0, "x" * 70_000), "x" * 70_000, 0.25)
    finally:
        os.umask(old)
    run = tmp_path / "deep" / "run"
    name = rolled(0, "x" * 70_000).output
    folder, text = ("texts", name) if texts == "keep" else ("pending", f"0-{name}")
    modes = {str(path.relative_to(run)): stat.S_IMODE(path.stat().st_mode) for path in (run, *run.rglob("*"))}
    files = ("answers.jsonl", "events.jsonl", "lock", "timings.jsonl", f"{folder}/{text}")
    assert modes == {".": 0o700, folder: 0o700, **dict.fromkeys(files, 0o600)} | (
        {"pending/README": 0o600} if texts == "digest" else {}
    )
    assert (run / "timings.jsonl").read_text() == '{"id":0,"seconds":0.250000}\n'
    assert (run / folder / text).read_bytes() == b"x" * 70_000


def test_a_directory_with_a_run_is_not_started_again(tmp_path: Path) -> None:
    with DiskLog.create(tmp_path) as log:
        log.append(rollout(0))
    with pytest.raises(UsageError, match=r"already holds a run: resume it"):
        DiskLog.create(tmp_path)
    assert list(read_events(tmp_path)) == [rollout(0)]


def test_a_run_that_never_began_may_be_started_again(tmp_path: Path) -> None:
    DiskLog.create(tmp_path).close()
    DiskLog.create(tmp_path).close()


def test_a_directory_of_a_run_that_never_began_takes_on_the_new_choice(tmp_path: Path) -> None:
    long = "y" * 70_000
    choices: list[tuple[Texts, str]] = [("digest", "pending"), ("keep", "texts"), ("digest", "pending")]
    for texts, folder in choices:
        with DiskLog.create(tmp_path, texts=texts, files=QuickFiles()) as log:
            log.append(rollout(0))
            log.answered(rolled(0, long), long, 0.1)
        assert len(list((tmp_path / folder).glob(f"*{rolled(0, long).output}"))) == 1
        for name in ("events.jsonl", "answers.jsonl"):
            (tmp_path / name).write_bytes(b"")


def test_a_copy_without_its_empty_directories_goes_on(tmp_path: Path) -> None:
    long = "y" * 70_000
    with DiskLog.create(tmp_path, files=QuickFiles()) as log:
        log.append(rollout(0))
    (tmp_path / "texts").rmdir()
    with DiskLog.open(tmp_path, files=QuickFiles()) as log:
        log.answered(rolled(0, long), long, 0.1)
        assert log.recall([0]) == {0: (rolled(0, long), long)}


def test_a_directory_without_a_run_cannot_be_opened_or_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no run"):
        DiskLog.open(tmp_path)
    with pytest.raises(UsageError, match="holds no run"):
        read_events(tmp_path / "absent")
    (tmp_path / "answers.jsonl").touch()
    with pytest.raises(CorruptLog, match=r"no events\.jsonl"):
        DiskLog.open(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.jsonl"]


def test_the_second_writer_is_refused_and_named(tmp_path: Path) -> None:
    with DiskLog.create(tmp_path) as log:
        log.append(rollout(0))
        log.sync()
        for opener in (DiskLog.open, DiskLog.create):
            with pytest.raises(UsageError, match=f"{tmp_path} is being written by process {os.getpid()}"):
                opener(tmp_path)
        (tmp_path / "lock").write_bytes(b"")
        with pytest.raises(UsageError, match="is being written by another process"):
            DiskLog.open(tmp_path)
        assert list(read_events(tmp_path)) == [rollout(0)]
    DiskLog.open(tmp_path).close()


def test_reading_takes_what_is_whole_while_somebody_writes(tmp_path: Path) -> None:
    with DiskLog.create(tmp_path, files=QuickFiles()) as log:
        fill(log)
        log.sync()
        with (tmp_path / "events.jsonl").open("ab") as file:
            file.write(b'{"n":9,"ev')
        assert tuple(read_events(tmp_path)) == small_log()


@BOTH
def test_outputs_under_digest_are_gone_once_nobody_reads_them(tmp_path: Path, texts: Texts) -> None:
    secret = "SECRET 北京"
    first: list[Event] = [rollout(0, 0), rollout(1, 1), rollout(2, purpose="gate"), rollout(7, purpose="gate")]
    run = tmp_path / "run"

    def found() -> int:
        return sum(path.read_bytes().count(secret.encode()) for path in run.rglob("*") if path.is_file())

    log = DiskLog.create(run, texts=texts, files=QuickFiles())
    for event in first:
        log.append(event)
    log.sync()
    for command in (0, 1, 2):
        log.answered(rolled(command, secret), secret, 0.1)
        log.append(rolled(command, secret))
    log.answered(Failed(7, "scorer", ""), secret, 0.1)
    assert found() == (4 if texts == "keep" else 2)
    log.append(propose(3, 0, 0))
    log.sync()
    log.answered(Proposed(3, ()), "", 0.1)
    log.append(Proposed(3, ()))
    assert found() == (4 if texts == "keep" else 2), "not before the fact that closes it is safe"
    log.sync()
    assert found() == (4 if texts == "keep" else 1)
    blank = secret if texts == "keep" else ""
    assert {n: text for n, (_, text) in log.recall([0, 1, 2]).items()} == {0: blank, 1: secret, 2: blank}
    log.close()
    log = DiskLog.open(run, files=QuickFiles())
    assert {n: text for n, (_, text) in log.recall([0, 1, 2]).items()} == {0: blank, 1: secret, 2: blank}
    log.append(rollout(4, 1))
    log.close()
    assert found() == (4 if texts == "keep" else 0)


def test_a_removal_that_a_crash_undid_is_done_again(tmp_path: Path) -> None:
    with DiskLog.create(tmp_path, texts="digest", files=QuickFiles()) as log:
        fill(log)
    assert [path.name for path in (tmp_path / "pending").iterdir()] == ["README"]
    (tmp_path / "pending" / f"0-{rolled(0, AWKWARD).output}").write_bytes(AWKWARD.encode())
    (tmp_path / "pending" / f".0-{rolled(0, AWKWARD).output}.1.1.tmp").write_bytes(b"half")
    DiskLog.open(tmp_path).close()
    assert [path.name for path in (tmp_path / "pending").iterdir()] == ["README"]


@BOTH
def test_a_text_that_was_changed_or_lost_is_damage(tmp_path: Path, texts: Texts) -> None:
    long = "y" * 70_000
    with DiskLog.create(tmp_path, texts=texts, files=QuickFiles()) as log:
        log.append(rollout(0))
        log.answered(Failed(7, "timeout", ""), "", 0.1)
        log.answered(rolled(0, long), long, 0.1)
        (path,) = (
            path for folder in ("texts", "pending") for path in (tmp_path / folder).glob(f"*{rolled(0, long).output}")
        )
        path.write_bytes(b"z" * 70_000)
        with pytest.raises(CorruptLog, match=r"line 2 of answers\.jsonl: its output does not match") as caught:
            log.recall([0])
        assert caught.value.line == 2
        path.unlink()
        with pytest.raises(CorruptLog, match=rf"line 2 of answers\.jsonl refers to \w+/{path.name}, which is missing"):
            log.recall([0])
        assert list(log.recall([7])) == [7]


def test_a_line_whose_text_is_not_what_was_scored_is_damage(tmp_path: Path) -> None:
    with DiskLog.create(tmp_path, files=QuickFiles()) as log:
        log.answered(rolled(0, "scored"), "another", 0.1)
        with pytest.raises(CorruptLog, match="line 1 of answers"):
            log.recall([0])


def test_opening_and_reading_hold_no_more_than_a_few_lines(tmp_path: Path) -> None:
    text = "x" * 2_000
    with DiskLog.create(tmp_path, fsync="interval", files=QuickFiles()) as log:
        for n in range(4_000):
            log.append(rollout(n))
            log.sync()
            log.answered(rolled(n, text), text, 0.1)
            log.append(rolled(n, text))
    assert (tmp_path / "answers.jsonl").stat().st_size > 8_000_000
    tracemalloc.start()
    try:
        with DiskLog.open(tmp_path, files=QuickFiles()) as log:
            assert sum(1 for _ in log.events()) == sum(1 for _ in read_events(tmp_path)) == 8_000
            assert list(log.recall([3_999])) == [3_999]
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()
