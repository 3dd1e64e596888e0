"""When it syncs, and disks that fail: before spending an error, later a clean end, nothing half-written believed."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from agentdescent.engine.event import Failed, Interrupted
from agentdescent.errors import UsageError
from agentdescent_adapters.disk import DiskLog, read_events, write_atomic
from bench.lossy_files import LossyFiles
from tests.adapters.disk_runs import FullFiles, InterruptedFiles, QuickFiles, ReadOnlyFiles, ShortFiles
from tests.history.facts import rolled, rollout


def test_interval_syncs_at_most_once_a_second_and_on_close(tmp_path: Path) -> None:
    now, files = [0.0], LossyFiles(QuickFiles())
    log = DiskLog.create(tmp_path, fsync="interval", files=files, clock=lambda: now[0])
    counts = []
    for moment in (0.5, 0.9, 1.0, 1.1, 1.9, 2.1):
        now[0] = moment
        log.append(Interrupted("cancelled"))
        before = files.fsyncs
        log.sync()
        counts.append(files.fsyncs - before)
        assert len(list(read_events(tmp_path))) == len(counts)
    before = files.fsyncs
    log.append(Interrupted("cancelled"))
    log.close()
    assert (counts, files.fsyncs - before) == ([0, 0, 1, 0, 0, 1], 1)


def test_always_syncs_what_is_new_and_nothing_else(tmp_path: Path) -> None:
    files = LossyFiles(QuickFiles())
    with DiskLog.create(tmp_path, files=files) as log:
        counts = []
        for step in ("nothing", "event", "answer", "both", "nothing"):
            if step in ("event", "both"):
                log.append(Interrupted("cancelled"))
            if step in ("answer", "both"):
                log.answered(Failed(0, "empty", ""), "", 0.0)
            before = files.fsyncs
            log.sync()
            counts.append(files.fsyncs - before)
    assert counts == [0, 1, 1, 2, 0]


def test_a_read_only_or_full_disk_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot start a run in .*new: Read-only file system"):
        DiskLog.create(tmp_path / "new", files=ReadOnlyFiles())
    for room in (0, 1, 10_000):
        with pytest.raises(UsageError, match=r"cannot start a run in .*full: No space left on device"):
            DiskLog.create(tmp_path / "full", files=FullFiles(room))
    DiskLog.create(tmp_path / "full", files=FullFiles(100_000)).close()
    with pytest.raises(UsageError, match=r"cannot go on with the run in .*: Read-only file system"):
        DiskLog.open(tmp_path / "full", files=ReadOnlyFiles())
    DiskLog.open(tmp_path / "full").close()


def test_a_disk_that_fills_up_leaves_nothing_half_written(tmp_path: Path) -> None:
    files = FullFiles(10**6)
    log = DiskLog.create(tmp_path, files=files)
    log.append(rollout(0))
    log.sync()
    files.room = 40
    with pytest.raises(OSError, match="No space left"):
        log.answered(rolled(0, "paid for"), "paid for", 0.1)
    files.room = 40
    log.append(Interrupted("cancelled"))
    with pytest.raises(OSError, match="No space left"):
        log.sync()
    assert list(read_events(tmp_path)) == [rollout(0)]
    assert (tmp_path / "answers.jsonl").read_bytes() == b""
    assert list(log.recall([0])) == []
    log.close()
    with DiskLog.open(tmp_path) as log:
        assert (log.dropped, list(log.events())) == ((), [rollout(0)])


def test_a_disk_that_has_room_again_takes_what_was_refused(tmp_path: Path) -> None:
    files = FullFiles(10**6)
    with DiskLog.create(tmp_path, files=files) as log:
        log.append(rollout(0))
        files.room = 40
        with pytest.raises(OSError, match="No space left"):
            log.sync()
        files.room = 10**6
        log.answered(rolled(0, "text"), "text", 0.1)
        log.append(rolled(0, "text"))
    with DiskLog.open(tmp_path) as log:
        assert (log.dropped, list(log.events())) == ((), [rollout(0), rolled(0, "text")])
        assert log.recall([0]) == {0: (rolled(0, "text"), "text")}


def test_an_answer_that_was_refused_is_written_before_the_events_that_admit_it(tmp_path: Path) -> None:
    files = FullFiles(10**6)
    log = DiskLog.create(tmp_path, fsync="interval", files=files, clock=lambda: 0.0)
    log.append(rollout(0))
    log.sync()
    files.room = 40
    with pytest.raises(OSError, match="No space left"):
        log.answered(rolled(0, "text"), "text", 0.1)
    files.room = 10**6
    log.append(rolled(0, "text"))
    log.sync()
    assert list(read_events(tmp_path)) == [rollout(0), rolled(0, "text")]
    assert log.recall([0]) == {0: (rolled(0, "text"), "text")}


@pytest.mark.parametrize("taken", [1, 40, 10_000])
def test_a_second_ctrl_c_in_the_midst_of_a_write_leaves_a_log_to_go_on_with(tmp_path: Path, taken: int) -> None:
    files = InterruptedFiles()
    log = DiskLog.create(tmp_path, files=files)
    log.append(rollout(0))
    log.sync()
    log.append(Interrupted("cancelled"))
    files.before = taken
    with pytest.raises(KeyboardInterrupt):
        log.answered(rolled(0, "text"), "text", 0.1)
    files.before = taken
    with pytest.raises(OSError, match="an earlier write did not end"):
        log.sync()
    log.close()
    with DiskLog.open(tmp_path) as log:
        assert list(log.events()) == [rollout(0)]
        assert list(log.recall([0])) == ([0] if taken == 10_000 else [])
        assert len(log.dropped) == (0 if taken == 10_000 else 1)


def test_a_disk_that_takes_nothing_and_says_nothing_is_an_error(tmp_path: Path) -> None:
    files = InterruptedFiles()
    with DiskLog.create(tmp_path, files=files) as log:
        files.before = 0
        with pytest.raises(OSError, match="takes no more bytes"):
            log.answered(rolled(0), "", 0.1)
        files.before = None


def test_a_failed_fsync_is_never_taken_for_a_later_success(tmp_path: Path) -> None:
    files = FullFiles(10**6)
    log = DiskLog.create(tmp_path, files=files)
    log.append(rollout(0))
    files.fsync_fails = True
    with pytest.raises(OSError, match="Input/output error"):
        log.sync()
    files.fsync_fails = False
    with pytest.raises(OSError, match="an earlier write did not end"):
        log.sync()
    log.close()
    DiskLog.open(tmp_path).close()


def test_a_half_written_line_that_cannot_be_taken_back_ends_the_log_and_is_dropped(tmp_path: Path) -> None:
    files = FullFiles(10**6)
    log = DiskLog.create(tmp_path, files=files)
    log.append(rollout(0))
    log.sync()
    files.room, files.truncate_fails = 40, True
    with pytest.raises(OSError, match="Input/output error"):
        log.answered(rolled(0), "", 0.1)
    files.room, files.truncate_fails = 10**6, False
    with pytest.raises(OSError, match="an earlier write did not end"):
        log.answered(rolled(0), "", 0.1)
    log.close()
    with DiskLog.open(tmp_path) as log:
        assert log.dropped == ("answers.jsonl: a torn last line of 40 bytes",)


def test_close_says_that_the_last_events_could_not_be_written_and_lets_go(tmp_path: Path) -> None:
    files = FullFiles(10**6)
    log = DiskLog.create(tmp_path, files=files)
    log.append(rollout(0))
    files.room = 0
    with pytest.raises(OSError, match="No space left"):
        log.close()
    log.close()
    with DiskLog.open(tmp_path) as again:
        assert list(again.events()) == []
    with pytest.raises(OSError, match="an earlier write did not end"):
        log.sync()


def test_a_text_that_is_no_text_is_refused_before_it_is_written(tmp_path: Path) -> None:
    with DiskLog.create(tmp_path) as log:
        for output in ("\ud800", "\ud800" * 70_000):
            with pytest.raises(UnicodeEncodeError):
                log.answered(Failed(0, "empty", ""), output, 0.0)
        log.answered(Failed(0, "empty", ""), "", 0.0)
        assert list(log.recall([0])) == [0]


def test_an_atomic_write_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    write_atomic(path, b"old")
    with pytest.raises(OSError) as caught:
        write_atomic(path, b"newer", files=FullFiles(3))
    assert caught.value.errno == errno.ENOSPC
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("status.json", b"old")]
    write_atomic(str(path), b"new" * 100, durable=True, files=ShortFiles(7))
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("status.json", b"new" * 100)]
