"""A run that is followed from elsewhere: what is shown of it, and when that ends."""

from __future__ import annotations

import io
import itertools
import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.engine.event import Amended, Event, Stopped
from agentdescent.history.fold import folded
from agentdescent.record import replace
from agentdescent_adapters.command.main import main
from agentdescent_adapters.disk import DiskLog, being_written, read_events
from agentdescent_adapters.disk.lines import follow_lines
from agentdescent_adapters.telemetry import follow as following
from agentdescent_adapters.telemetry.files import Status, status_of
from agentdescent_adapters.telemetry.follow import Lines, Objects, Picture, Shows, follow, shown_on
from tests.adapters.test_command import COMMAND, ENVIRONMENT, messages, start, wait_for
from tests.world import World, jobs, play


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def a_log() -> list[Event]:
    spec, setup = jobs(24, workers=3)
    return play(replace(spec, caps=replace(spec.caps, rounds=6)), setup, World(seed=1, solved=0.2))[1]


LOG = a_log()
ENDS = [status_of(after) for _, _, after in folded(LOG)]


class Writer:
    """Another process: writes so many events at every pause, and ends after the last of them."""

    def __init__(self, run: Path, pieces: list[list[Event]]) -> None:
        self.pieces, self.pauses = pieces, 0
        self.log = DiskLog.create(run)

    def write(self) -> None:
        for event in self.pieces.pop(0):
            self.log.append(event)
        self.log.sync()

    def pause(self) -> None:
        self.pauses += 1
        assert self.pauses < 100
        if self.pieces:
            self.write()
        else:
            self.log.close()


def pieces(cuts: list[int]) -> list[list[Event]]:
    edges = [0, *sorted(cuts), len(LOG)]
    return [LOG[low:high] for low, high in itertools.pairwise(edges)]


def objects(shown: io.StringIO) -> list[Status]:
    return [Status(**json.loads(line)) for line in shown.getvalue().splitlines()]


@given(st.lists(st.integers(0, len(LOG)), max_size=6))
def test_json_is_an_object_a_change(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    run, stream = tmp_path_factory.mktemp("runs") / "RUN", io.StringIO()
    writer = Writer(run, pieces(cuts))
    state = follow(str(run), Objects(stream), writer.pause)
    writer.log.close()
    assert state is not None
    assert objects(stream) == [ENDS[cut - 1] for cut in sorted({*cuts, len(LOG)} - {0})]
    assert not (run / "status.json").exists()


@pytest.mark.parametrize("kind", [Objects, Lines])
def test_it_ends_when_its_writer_is_gone(tmp_path: Path, kind: Callable[[io.StringIO], Shows]) -> None:
    stream = io.StringIO()
    writer = Writer(tmp_path / "RUN", pieces([50, 100])[:2])
    state = follow(str(tmp_path / "RUN"), kind(stream), writer.pause)
    assert state is not None
    assert (state.seq, state.stopped, writer.pauses) == (100, None, 3)
    assert not being_written(tmp_path / "RUN")


def test_what_a_writer_wrote_last_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may write and end between the look at its log and the look for it."""
    stream, writer = io.StringIO(), Writer(tmp_path / "RUN", pieces([100]))
    writer.write()

    def late(run: str) -> bool:
        writer.write()
        writer.log.close()
        return being_written(run)

    monkeypatch.setattr(following, "being_written", late)
    follow(str(tmp_path / "RUN"), Objects(stream), writer.pause)
    assert objects(stream) == [ENDS[99], ENDS[-1]]


def test_a_run_that_was_resumed_goes_on_after_its_first_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, run = messages(tmp_path / "m.csv"), str(tmp_path / "RUN")
    assert main(["run", "--tasks", tasks, "--rounds", "1", "--out", run, "--quiet"]) == 0
    assert main(["resume", run, "--rounds", "3", "--quiet"]) == 0
    events = list(read_events(run))
    assert sum(isinstance(event, Stopped) for event in events) == 2
    assert any(isinstance(event, Amended) for event in events)
    capsys.readouterr()
    assert main(["status", run, "--follow", "--json"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["rounds"], one["events"]) for one in shown] == [(3, len(events))]


def test_it_waits_for_a_run_that_is_about_to_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream, writer = io.StringIO(), Writer(tmp_path / "RUN", [[], [], LOG])
    follow(str(tmp_path / "RUN"), Objects(stream), writer.pause)
    assert objects(stream) == [ENDS[-1]]
    writer.log.close()
    DiskLog.create(tmp_path / "EMPTY").close()
    assert main(["status", str(tmp_path / "EMPTY"), "--follow"]) == 2
    assert "has not begun" in capsys.readouterr().err


class Gone(Terminal):
    def write(self, text: str) -> int:
        raise OSError("nobody looks")


@pytest.mark.parametrize("kind", [Lines, Picture])
def test_it_ends_when_nobody_looks(tmp_path: Path, kind: Callable[[io.StringIO], Shows]) -> None:
    writer = Writer(tmp_path / "RUN", pieces(list(range(10, 90, 10))))
    follow(str(tmp_path / "RUN"), kind(Gone()), writer.pause)
    assert writer.pauses <= 2
    writer.log.close()


def test_a_terminal_gets_a_picture_and_a_pipe_lines(tmp_path: Path) -> None:
    with DiskLog.create(tmp_path / "RUN") as log:
        for event in LOG:
            log.append(event)
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        follow(str(tmp_path / "RUN"), shown_on(stream, json=False), lambda: None)
    assert re.search(r"tok=[\d,]+", terminal.getvalue())
    assert "stopped: rounds" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[?25h")  # the cursor is back
    lines = pipe.getvalue().splitlines()
    assert sum(line.startswith("commit: version") for line in lines) == ENDS[-1].version > 0
    assert sum(line.startswith("round ") for line in lines) >= 6
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", pipe.getvalue())


def test_a_torn_line_is_read_again(tmp_path: Path) -> None:
    """A crash tore it; the process that goes on cuts it off and writes another."""
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntorn by a cra")
    later = iter([b"one\ntwo\n", None])

    def wait() -> bool:
        text = next(later)
        if text is not None:
            path.write_bytes(text)
        return text is not None

    assert list(follow_lines(str(path), wait)) == [b"one\n", b"two\n"]


def test_of_a_run_in_another_process_until_that_is_killed(tmp_path: Path) -> None:
    writer, run = start(tmp_path)
    command = [*COMMAND, "status", "RUN", "--follow", "--json"]
    watcher = None
    try:
        wait_for(run, 30)
        watcher = subprocess.Popen(
            command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert watcher.stdout is not None
        first, second = (json.loads(watcher.stdout.readline()) for _ in range(2))
        assert second["events"] > first["events"] > 0
        writer.send_signal(signal.SIGKILL)
        writer.communicate(timeout=60)
        out, err = watcher.communicate(timeout=60)
        assert watcher.returncode == 0
        assert "agentdescent resume RUN" in err
        last = json.loads(out.splitlines()[-1]) if out else second
        assert (last["events"], last["stop_reason"]) == (sum(1 for _ in read_events(run)), None)
    finally:
        for process in (writer, watcher):
            if process is not None and process.poll() is None:
                process.kill()
                process.communicate()
