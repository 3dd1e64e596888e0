"""Runs recorded once and replayed for ever: what a log means does not change. Two of them must diverge."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from agentdescent import CorruptLog, replay
from agentdescent.engine.event import Event, Started, Stopped
from agentdescent.history.log import read
from tests.golden import record
from tests.golden.record import DIGESTS, HERE, LIMIT, SCENARIOS, Golden, Recorded
from tests.golden.spends import SPENDING
from tests.world import lines

GOLDEN = msgspec.json.decode(DIGESTS.read_bytes(), type=list[Golden])


def recorded(name: str) -> list[bytes]:
    return (HERE / f"{name}.jsonl").read_bytes().splitlines(keepends=True)


def events_of(name: str) -> list[Event]:
    return [event for event, _ in read(recorded(name))]


def test_every_scenario_is_recorded_and_nothing_else() -> None:
    names = [golden.name for golden in GOLDEN]
    assert names == list(SCENARIOS)
    assert sorted(path.stem for path in Path(HERE).glob("*.jsonl")) == sorted(names)
    assert [golden.name for golden in GOLDEN if golden.diverges is not None] == [
        "edited-verdict",
        "edited-reservation",
    ]


def test_a_new_name_is_added_and_nothing_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert record.main() == 1
    plain = events_of("plain")
    log, digests = tmp_path / "plain.jsonl", tmp_path / "digests.json"
    log.write_bytes(b"as it was")
    digests.write_bytes(msgspec.json.encode([GOLDEN[0]]))
    monkeypatch.setattr(record, "HERE", tmp_path)
    monkeypatch.setattr(record, "DIGESTS", digests)
    monkeypatch.setattr(record, "SCENARIOS", {"plain": lambda: Recorded([]), "other": lambda: Recorded(plain)})
    assert record.main() == 0
    after = msgspec.json.decode(digests.read_bytes(), type=list[Golden])
    assert after == [GOLDEN[0], msgspec.structs.replace(GOLDEN[0], name="other")]
    assert log.read_bytes() == b"as it was"
    assert (tmp_path / "other.jsonl").read_bytes() == b"".join(recorded("plain"))
    digests.write_bytes(msgspec.json.encode([GOLDEN[0]]))
    assert record.main() == 1
    assert "in the way, and never written again: ['other']" in capsys.readouterr().out


@pytest.mark.parametrize("name", list(SPENDING))
def test_it_shows_what_it_was_recorded_for(name: str) -> None:
    SPENDING[name].shows(events_of(name))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_a_recorded_log_is_what_it_was(golden: Golden) -> None:
    chained = list(read(recorded(golden.name)))
    assert (len(chained), chained[-1][1]) == (golden.events, golden.digest)
    assert lines(event for event, _ in chained) == b"".join(recorded(golden.name))
    first, last = chained[0][0], chained[-1][0]
    assert isinstance(first, Started)
    assert isinstance(last, Stopped)
    assert first.spec.rules == 1
    assert sum(map(len, recorded(golden.name))) < LIMIT


@pytest.mark.parametrize("golden", [one for one in GOLDEN if one.diverges is None], ids=lambda golden: golden.name)
def test_it_is_decided_again_as_it_was(golden: Golden) -> None:
    found = replay(events_of(golden.name))
    assert (found.divergence, found.events, found.finished) == (None, golden.events, True)


@pytest.mark.parametrize("golden", [one for one in GOLDEN if one.diverges is not None], ids=lambda golden: golden.name)
def test_what_was_edited_is_found_with_its_number(golden: Golden) -> None:
    events = events_of(golden.name)
    found = replay(events)
    assert found.divergence is not None
    assert golden.diverges is not None
    assert (found.divergence.number, found.events, found.finished) == (golden.diverges, golden.diverges, False)
    assert found.divergence.recorded == repr(events[golden.diverges])
    assert found.divergence.expected != found.divergence.recorded


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_a_changed_byte_is_found_with_its_line(name: str) -> None:
    data = recorded(name)
    at = len(data) // 2
    flipped = data[at].replace(b'"digest":"', b'"digest":"0', 1)[:-3] + b'"}\n'
    with pytest.raises(CorruptLog) as caught:
        list(read([*data[:at], flipped, *data[at + 1 :]]))
    assert caught.value.line == at + 1
    with pytest.raises(CorruptLog) as caught:
        list(read([*data[:at], *data[at + 1 :]]))
    assert caught.value.line == at + 1
