"""What people see while a run goes on: in a terminal, in a pipe, and from another process."""

from __future__ import annotations

import io
import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from agentdescent.artifact.diff import Add, Drop, Replace
from agentdescent.engine.event import Committed, Event, Stopped
from agentdescent.engine.state import State
from agentdescent.history.fold import folded
from agentdescent.record import replace
from agentdescent_adapters.command.main import main
from agentdescent_adapters.disk.lines import follow_lines
from agentdescent_adapters.telemetry.dashboard import SHARE, SOONEST, Dashboard, picture
from agentdescent_adapters.telemetry.live import RECENT, Watch, describe, doing, duration, sparkline
from agentdescent_adapters.telemetry.progress import Progress, progress_on
from tests.strategies import Job, any_job
from tests.world import World, any_order, jobs, play


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def a_run() -> list[tuple[Event, State]]:
    spec, setup = jobs(24, workers=3)
    _, log = play(replace(spec, caps=replace(spec.caps, rounds=6)), setup, World(seed=1, solved=0.2))
    return [(event, after) for event, _, after in folded(log)]


def drawn(watch: Watch, state: State, width: int = 80) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    with console.capture() as capture:
        console.print(picture(watch.snapshot(state), width))
    return capture.get().splitlines()


@given(any_job(), st.integers(0, 9_999), st.integers(30, 120))
def test_any_run_can_be_watched_from_anywhere_on(job: Job, seed: int, width: int) -> None:
    """Also one that is joined half-way, as after a resume; and never more than the terminal is wide."""
    _, log = play(*job, order=any_order(seed))
    watch, late = Watch(Clock()), Watch(Clock())
    steps = [(event, after) for event, _, after in folded(log)]
    for n, (event, after) in enumerate(steps):
        watch.fold(event, after)
        if n >= len(steps) // 2:
            late.fold(event, after)
    for one in (watch, late):
        shot = one.snapshot(after)
        assert shot.spent == after.governor.spent.tokens
        assert shot.share is None or 0 <= shot.share <= 1
        assert len(shot.commits) <= RECENT
        assert all(len(line) <= width for line in drawn(one, after, width))


def test_a_snapshot_by_hand() -> None:
    watch, steps = Watch(Clock()), a_run()
    commits = [line for event, after in steps if (line := watch.fold(event, after)) is not None]
    shot = watch.snapshot(steps[-1][1])
    won = [event for event, _ in steps if isinstance(event, Committed)]
    assert len(commits) == len(won) > 0
    assert shot.commits == tuple(commits[-RECENT:])
    assert all(re.match(r"version \d+, held-out [01]\.\d{3}: \S", line) for line in commits)
    assert (shot.version, shot.stop_reason) == (len(won), "rounds")
    assert shot.best == shot.history[-1] > shot.history[0] == shot.base
    assert any("held-out" in line and f"version {len(won)}" in line for line in drawn(watch, steps[-1][1]))


def test_the_rate_and_the_time_left() -> None:
    steps, clock = a_run(), Clock()
    watch, middle = Watch(clock), steps[len(steps) // 2][1]
    capped = replace(middle, governor=replace(middle.governor, caps=replace(middle.governor.caps, tokens=100_000)))
    first = watch.snapshot(replace(capped, governor=replace(capped.governor, spent=steps[0][1].governor.spent)))
    assert (first.rate, first.left) == (0.0, None)
    clock.now = 4.0
    shot = watch.snapshot(capped)
    spent = middle.governor.spent.tokens
    assert shot.rate == spent / 4
    assert shot.left == pytest.approx((100_000 - spent) / (spent / 4))


def test_workers_and_the_merge_are_told_apart() -> None:
    seen = {(one.who, one.what.split(",")[0].rstrip("0123456789 ")) for _, state in a_run() for one in doing(state)}
    assert {who for who, _ in seen} == {"worker 0", "worker 1", "worker 2", "merge"}
    assert {what for _, what in seen} >= {"scores the start", "solves a train task", "asks for proposal", "gate"}


def test_drawing_takes_a_bounded_share_of_the_time() -> None:
    """The slower a terminal is, the more seldom it is drawn to."""

    class Slow(Clock):
        def __call__(self) -> float:
            self.now += 0.01  # every look at the clock: a picture takes some of them
            return self.now

    clock, steps = Slow(), a_run()

    class Noted(Terminal):
        """A picture is written in one piece."""

        def write(self, text: str) -> int:
            draws.append(clock.now)
            return super().write(text)

    draws = list[float]()
    board = Dashboard(Noted(), clock)
    for event, state in itertools.islice(steps, len(steps) - 1):
        board(event, state)
        clock.now += 0.3
    pictures = sorted(set(draws))
    board.close()
    assert len(pictures) > 3
    assert all(later - earlier >= max(SOONEST, 0.01 / SHARE) for earlier, later in itertools.pairwise(pictures))


def test_a_terminal_that_is_gone_does_not_end_the_run() -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise OSError("nobody looks")

    for observer in (Dashboard(Gone()), Progress(Gone())):
        for event, state in a_run():
            observer(event, state)
        assert observer.silent
        observer.close()


def test_a_terminal_that_goes_while_it_is_drawn_to_does_not_end_the_run() -> None:
    class Going(Terminal):
        left = 2_000

        def write(self, text: str) -> int:
            self.left -= len(text)
            if self.left < 0:
                raise OSError("nobody looks")
            return super().write(text)

    board = Dashboard(Going(), lambda: 0.0)
    for event, state in a_run()[:-1]:
        board(event, state)
        board._next = 0.0
    board.close()
    assert board.silent


def test_a_pipe_gets_plain_lines() -> None:
    stream = io.StringIO()
    observer = progress_on(stream)
    assert isinstance(observer, Progress)
    for event, state in a_run():
        observer(event, state)
    lines = stream.getvalue().splitlines()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", stream.getvalue())
    assert [line for line in lines if line.startswith("commit: version 1, held-out ")]
    assert sum(line.startswith("round ") for line in lines) >= 6


def test_a_terminal_gets_a_picture_and_without_rich_a_line() -> None:
    stream = Terminal()
    board = progress_on(stream)
    assert isinstance(board, Dashboard)
    plain = Progress(Terminal(), Clock())
    for event, state in a_run():
        board(event, state)
        plain(event, state)
    assert isinstance(event, Stopped)
    text = stream.getvalue()
    assert text.endswith("\x1b[?25h")  # the cursor is back
    assert re.search(r"tok=[\d,]+", text)
    assert re.search(r"tok=[\d,]+", plain.stream.getvalue() if isinstance(plain.stream, io.StringIO) else "")


def test_words_and_characters() -> None:
    assert describe((Add("a", "be\n brief"), Replace("k", "new"), Drop("k"))) == ("+ be brief", "~ k: new", "- k")
    assert describe((Add("a", "x\x1b]0;title\x07 \x9b2J\u202ey"), Drop("\x1bc"))) == ("+ x ]0;title 2J y", "- c")
    assert sparkline((), 5) == ""
    assert sparkline((0.5,), 5) == "▁"
    assert sparkline((0.0, 0.1, 0.5, 1.0), 3) == "▁▄█"
    assert [duration(seconds) for seconds in (0.4, 59.4, 61, 3599, 7500)] == [
        *("0 s", "59 s", "1 min 01 s", "59 min 59 s", "2 h 05 min")
    ]


def test_an_error_commands_no_terminal() -> None:
    watch, state = Watch(Clock()), a_run()[-1][1]
    assert state.stopped is not None
    error = "lost \x1b[2J\x1b]0;title\x07\n\x9b31mmore\u202e"
    failed = replace(state, stopped=replace(state.stopped, reason="error", error=error))
    *_, last = drawn(watch, failed)
    assert last == "stopped: error, lost [2J ]0;title 31mmore"


def test_a_text_commands_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor where it is printed in the end, line by line; a program reads it as it is."""
    (tmp_path / "m.csv").write_text("text,label\n" + "".join(f"help {i},a{i % 2}\n" for i in range(20)), "utf-8")
    (tmp_path / "start.txt").write_text("be\x1b[2J brief\n\tand \u202ekind", "utf-8")
    run, given = str(tmp_path / "RUN"), ("--strategy", "single-slot", "--rounds", "1", "--quiet")
    tasks = ("--tasks", str(tmp_path / "m.csv"), "--artifact", str(tmp_path / "start.txt"))
    assert main(["run", *tasks, *given, "--out", run]) == 0
    assert main(["show", run]) == 0
    printed = capsys.readouterr().out
    assert printed.count("be [2J brief\n        and  kind\n") == 2
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", printed)
    assert main(["show", run, "--json"]) == 0
    assert "\\u001b[2J brief\\n\\tand" in capsys.readouterr().out


def test_lines_are_followed_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntw")
    pieces = iter([b"o\nthr", b"", b"ee\nfo"])

    def wait() -> bool:
        piece = next(pieces, None)
        if piece is not None:
            with path.open("ab") as file:
                file.write(piece)
        return piece is not None

    assert list(follow_lines(str(path), wait)) == [b"one\n", b"two\n", b"three\n"]
