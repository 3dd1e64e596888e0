"""Files that were cut, filled, edited, reordered or lost: a torn end is dropped and said so, all else is an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentdescent.engine.event import Event, Failed, Interrupted, Outcome, Proposed, RolledOut
from agentdescent.errors import CorruptLog
from agentdescent_adapters.disk import DiskLog, read_events
from tests.adapters.disk_runs import QuickFiles
from tests.adapters.test_disk_log import fill
from tests.history.facts import AWKWARD, propose, rolled, rollout, small_log

FACTS = small_log()


@pytest.fixture(name="run")
def _run(tmp_path: Path) -> Path:
    with DiskLog.create(tmp_path / "run", files=QuickFiles()) as log:
        fill(log, FACTS)
    return tmp_path / "run"


@pytest.fixture(name="damage")
def _damage(run: Path) -> Callable[[str, bytes], Path]:
    """Puts other bytes in the place of one file of the run; the other files are as they were."""
    whole = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}

    def damage(name: str, data: bytes) -> Path:
        for path, content in whole.items():
            path.unlink(missing_ok=True)  # a file system may sync one that is truncated and written again
            path.write_bytes(data if path.name == name else content)
        return run

    return damage


def reopened(path: Path, *, go_on: bool = True) -> tuple[tuple[str, ...], tuple[Event, ...], set[int]]:
    """What opening says it dropped, and what is left. `go_on`: then the log goes on, and drops nothing again."""
    with DiskLog.open(path, files=QuickFiles()) as log:
        dropped, facts, answers = log.dropped, tuple(log.events()), set(log.recall(range(9)))
        log.append(Interrupted("stop_when"))
    with DiskLog.open(path, files=QuickFiles()) as log:
        assert (log.dropped, tuple(log.events())) == ((), (*facts, Interrupted("stop_when")))
        assert set(log.recall(range(9))) == answers
        assert {event.id for event in facts if isinstance(event, (RolledOut, Proposed, Failed))} <= answers
    return dropped, facts, answers


def blamed(path: Path) -> tuple[str, int]:
    with pytest.raises(CorruptLog) as caught:
        DiskLog.open(path, files=QuickFiles())
    return str(caught.value), caught.value.line


def decided_by(facts: tuple[Event, ...]) -> set[int]:
    return {command for command, event in ((0, FACTS[0]), (1, FACTS[2]), (2, FACTS[5])) if event in facts}


@pytest.mark.parametrize("nuls", [0, 1, 5_000])
def test_events_cut_at_any_byte(run: Path, damage: Callable[[str, bytes], Path], nuls: int) -> None:
    data = (run / "events.jsonl").read_bytes()
    for at in range(0, len(data), 1 if nuls == 0 else 7):
        path = damage("events.jsonl", data[:at] + bytes(nuls))
        whole = FACTS[: data.count(b"\n", 0, at)]
        assert tuple(read_events(path)) == whole
        dropped, facts, answers = reopened(path, go_on=at % 6 == 0)
        assert facts == whole
        assert answers == decided_by(whole)
        torn = at - data.rfind(b"\n", 0, at) - 1 + nuls
        said = [f"events.jsonl: a torn last line of {torn} bytes"] if torn else []
        lost = 3 - len(answers)
        said += [f"answers.jsonl: {lost} answers to commands whose decision was lost"] if lost else []
        assert dropped == tuple(said), at


@pytest.mark.parametrize("nuls", [0, 1, 5_000])
def test_answers_cut_at_any_byte(run: Path, damage: Callable[[str, bytes], Path], nuls: int) -> None:
    data = (run / "answers.jsonl").read_bytes()
    until = (1, 3, 6, 9)  # events that are whole with 0, 1, 2 and 3 answers
    for at in range(0, len(data), 1 if nuls == 0 else 7):
        path = damage("answers.jsonl", data[:at] + bytes(nuls))
        kept = data.count(b"\n", 0, at)
        dropped, facts, answers = reopened(path, go_on=at % 6 == 0)
        assert facts == FACTS[: until[kept]]
        assert answers == set(range(kept))
        torn = at - data.rfind(b"\n", 0, at) - 1 + nuls
        said = [f"answers.jsonl: a torn last line of {torn} bytes"] if torn else []
        lost, line = 9 - until[kept], until[kept] + 1
        said.append(f"events.jsonl: {lost} events from line {line} on, whose answers never reached the disk")
        assert dropped == tuple(said), at


@pytest.mark.parametrize("name", ["events.jsonl", "answers.jsonl"])
def test_a_byte_changed_in_any_line_but_the_end_of_the_last(
    run: Path, damage: Callable[[str, bytes], Path], name: str
) -> None:
    data = (run / name).read_bytes()
    for at in range(len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 0x01
        path = damage(name, bytes(changed))
        message, line = blamed(path)
        assert line == data.count(b"\n", 0, at) + 1, at
        assert f"line {line} of " in message
        assert (path / name).read_bytes() == changed, "nothing is dropped"


@pytest.mark.parametrize("name", ["events.jsonl", "answers.jsonl"])
def test_lines_removed_swapped_and_repeated(run: Path, damage: Callable[[str, bytes], Path], name: str) -> None:
    lines = (run / name).read_bytes().splitlines(keepends=True)
    for n in range(len(lines) - 1):
        first, second, before, after = lines[n], lines[n + 1], b"".join(lines[:n]), b"".join(lines[n + 2 :])
        assert blamed(damage(name, before + second + after))[1] == n + 1
        assert blamed(damage(name, before + second + first + after))[1] == n + 1
        assert blamed(damage(name, before + first + first + second + after))[1] == n + 2
        assert blamed(damage(name, before + first + b"\n" + second + after))[1] == n + 2


def test_a_lost_journal_is_damage_unless_nothing_was_answered(run: Path, tmp_path: Path) -> None:
    (run / "answers.jsonl").unlink()
    assert blamed(run) == (f"{run} has no answers.jsonl, but its events hold the answer to command 0", 0)
    with DiskLog.create(tmp_path / "new", files=QuickFiles()) as log:
        log.append(FACTS[0])
    (tmp_path / "new" / "answers.jsonl").unlink()
    assert reopened(tmp_path / "new") == ((), FACTS[:1], set())


def test_a_second_answer_to_an_admitted_command_is_not_forgotten_with_the_strays(tmp_path: Path) -> None:
    with DiskLog.create(tmp_path, files=QuickFiles()) as log:
        fill(log, FACTS)
        log.answered(rolled(0, "late"), "late", 0.1)
        log.answered(rolled(8, "nobody asked"), "nobody asked", 0.1)
        log.append(rollout(3))
        log.sync()
        log.answered(rolled(3, "early"), "early", 0.1)
    with DiskLog.open(tmp_path, files=QuickFiles()) as log:
        assert log.dropped == ("answers.jsonl: 1 answers to commands whose decision was lost",)
        assert log.recall(range(9)) == {
            0: (rolled(0, AWKWARD), AWKWARD),
            1: (FACTS[3], ""),
            2: (rolled(2, "no"), "no"),
            3: (rolled(3, "early"), "early"),
        }
        log.append(rollout(8))
        log.answered(rolled(8, "asked"), "asked", 0.1)
    with DiskLog.open(tmp_path, files=QuickFiles()) as log:
        assert (log.dropped, log.recall([8])) == ((), {8: (rolled(8, "asked"), "asked")})


def test_a_torn_line_of_timings_is_no_news(run: Path) -> None:
    whole = (run / "timings.jsonl").read_bytes()
    (run / "timings.jsonl").write_bytes(whole + b'{"id":9,"sec')
    with DiskLog.open(run, files=QuickFiles()) as log:
        assert log.dropped == ()
    assert (run / "timings.jsonl").read_bytes() == whole


def test_answers_that_arrived_in_another_order_than_they_were_admitted(tmp_path: Path) -> None:
    first: list[Event] = [rollout(n, n) for n in range(50)]
    outcomes: list[Outcome] = [rolled(n, str(n)) for n in range(50)]
    with DiskLog.create(tmp_path, files=QuickFiles()) as log:
        for event in first:
            log.append(event)
        for n in (*range(49, 19, -1), *range(20)):
            log.answered(outcomes[n], str(n), 0.1)
        for outcome in outcomes[10:]:
            log.append(outcome)
        log.append(propose(50, 10))
    with DiskLog.open(tmp_path, files=QuickFiles()) as log:
        assert log.dropped == ()
        assert list(log.events()) == [*first, *outcomes[10:], propose(50, 10)]
        assert log.recall(range(99)) == {n: (outcomes[n], str(n)) for n in range(50)}
