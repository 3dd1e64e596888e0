"""The line format: whatever is written is read, and whatever was changed is found, with its line."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.engine.event import Event, Interrupted
from agentdescent.errors import CorruptLog
from agentdescent.history.log import GENESIS, encode, read
from tests.history.facts import events, lines_of, small_log


def damaged_line(data: bytes) -> int:
    """The line that reading `data` blames."""
    with pytest.raises(CorruptLog) as caught:
        list(read(io.BytesIO(data)))
    assert f"line {caught.value.line} " in str(caught.value)
    return caught.value.line


def test_these_bytes_are_the_format() -> None:
    first, after = encode(0, GENESIS, Interrupted("cancelled"))
    second, last = encode(1, after, Interrupted("max_seconds"))
    assert first == (
        b'{"n":0,"event":{"type":"interrupted","reason":"cancelled"},"digest":"e25918da9d86fa9f34c643f512ebe035"}\n'
    )
    assert second == (
        b'{"n":1,"event":{"type":"interrupted","reason":"max_seconds"},"digest":"f6314522e4552205d5761e7388fa1344"}\n'
    )
    assert last == "f6314522e4552205d5761e7388fa1344"


@given(st.lists(events, max_size=5))
def test_every_event_is_read_as_it_was_written(facts: list[Event]) -> None:
    lines = lines_of(facts)
    found = list(read(lines))
    assert [event for event, _ in found] == facts
    after = GENESIS
    for n, (event, line) in enumerate(zip(facts, lines, strict=True)):
        again, after = encode(n, after, event)
        assert (again, after) == (line, found[n][1])
        assert line.count(b"\n") == 1


@given(events, events)
def test_a_digest_stands_for_one_event(one: Event, other: Event) -> None:
    same = encode(0, GENESIS, one)[1] == encode(0, GENESIS, other)[1]
    assert same == (encode(0, GENESIS, one)[0] == encode(0, GENESIS, other)[0])


def test_a_log_without_its_last_lines_is_a_log() -> None:
    facts = small_log()
    for n in range(len(facts) + 1):
        assert tuple(event for event, _ in read(lines_of(facts)[:n])) == facts[:n]


@pytest.mark.parametrize("bit", range(8))
def test_a_bit_flipped_anywhere_in_the_middle_is_found_in_its_line(bit: int) -> None:
    lines = lines_of(small_log())
    data = b"".join(lines)
    blamed = expected = 0
    for at in range(len(data) - len(lines[-1])):
        damaged = bytearray(data)
        damaged[at] ^= 1 << bit
        blamed += damaged_line(bytes(damaged))
        expected += data.count(b"\n", 0, at) + 1
        assert blamed == expected, at


def test_every_byte_cut_from_a_line_is_found() -> None:
    first, line, last = lines_of(small_log())[:3]
    for at in range(len(line)):
        assert damaged_line(first + line[:at] + line[at + 1 :] + last) == 2, at


def test_lines_removed_swapped_repeated_and_inserted_are_found() -> None:
    lines = lines_of(small_log())
    for n in range(len(lines) - 1):
        before, after = b"".join(lines[:n]), b"".join(lines[n + 2 :])
        assert damaged_line(before + lines[n + 1] + after) == n + 1
        assert damaged_line(before + lines[n + 1] + lines[n] + after) == n + 1
        assert damaged_line(before + lines[n] + lines[n] + lines[n + 1] + after) == n + 2
        assert damaged_line(before + b"\n" + lines[n] + lines[n + 1] + after) == n + 1


def test_an_event_of_another_log_does_not_fit() -> None:
    lines = lines_of(small_log())
    other = lines_of((Interrupted("stop_when"), *small_log()[1:]))
    for n in range(1, len(lines)):
        assert damaged_line(b"".join((*lines[:n], other[n]))) == n + 1


def test_an_event_with_a_field_nobody_knows_is_refused() -> None:
    line, _ = encode(0, GENESIS, Interrupted("cancelled"))
    assert damaged_line(line.replace(b'"reason"', b'"x":1,"reason"')) == 1
