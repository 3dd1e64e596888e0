"""Nobody edits a log unseen: every single edit of a recorded run, and whether it is found and rightly named.

Two runs of a few hundred events are recorded, in which every kind of event and of evidence occurs: commits,
rejections, failures, an interruption, orphans of a killed process, a test part, the end. Then, one at a time:

* without re-chaining: every field of every event changed, every event removed, repeated, exchanged with the next,
  every byte flipped, the tail cut off. It must be CorruptLog with the line that was touched (of a removed one: the line
  that took its place), or, where whole lines are missing at the end, a log that is reported as unfinished;
* with re-chaining (the numbers and digests of all lines after it computed anew): every field of every event that
  `decide` wrote, `Started` excepted, changed, and those events removed, repeated and exchanged. It must be a divergence
  with the number of that event. What ports and drivers wrote nobody can decide anew: the digest that a run prints is
  what pins it.

    python -m bench.tamper --json                 # {"edits": .., "undetected": 0}
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from agentdescent import CorruptLog, replay
from agentdescent.engine.event import (
    Amended,
    Committed,
    Decided,
    Event,
    GateOpened,
    Interrupted,
    Judged,
    Promoted,
    Skipped,
    Stopped,
)
from agentdescent.history.log import GENESIS, decode, encode, read
from agentdescent_adapters.disk import read_events
from agentdescent_adapters.disk.layout import EVENTS
from bench import harness
from bench.eventful import RECIPES, record
from bench.other_values import variants

BY_DECIDE = (Decided, Skipped, GateOpened, Judged, Committed, Promoted, Stopped)
"""What is re-chained; `Started` says what was asked, and nothing can argue with that."""

BY_DRIVER = (Interrupted, Amended)

BY_FILE = 250
"""Of so many edits without re-chaining, one is looked for once more by way of a file."""


# --- edits, and whether they are found --------------------------------------------------------------------------------


class Edit(NamedTuple):
    """`what` was done, and the line, from 1, where it must be found; 0 for a tail that is missing."""

    what: str
    line: int


class Tally:
    """Counts edits; tells of every one that was not found, or found elsewhere, on stderr."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._numbers = itertools.count()
        self.edits = self.undetected = self.misnamed = 0

    def wants(self) -> bool:
        """Whether the next edit is to be tried: one of `every`."""
        return next(self._numbers) % self._every == 0

    def note(self, edit: Edit, found: int | None) -> None:
        """`found`: the line named, 0 for a log reported as unfinished, None when nothing was wrong with it."""
        self.edits += 1
        if found is None:
            self.undetected += 1
            harness.progress(f"undetected: {edit}")
        elif found != edit.line:
            self.misnamed += 1
            harness.progress(f"named line {found}: {edit}")


Lines: TypeAlias = Sequence[bytes]


class Recorded:
    """A recorded run as lines, with the digest before each."""

    def __init__(self, events: tuple[Event, ...]) -> None:
        self.events = events
        self.lines: list[bytes] = []
        self.before = [GENESIS]
        for number, event in enumerate(events):
            line, after = encode(number, self.before[-1], event)
            self.lines.append(line)
            self.before.append(after)

    def find(self, start: int, lines: Lines) -> int | None:
        """What a reader finds in the log whose lines from `start` on are these; the lines before are as recorded.

        The digest of line n is a function of that before it and of its bytes, so what is unchanged is not read again.
        """
        digest, read_anew = self.before[start], list[Event]()
        try:
            for number, line in enumerate(lines, start):
                event, digest = decode(line, number, digest)
                read_anew.append(event)
            return judge((*self.events[:start], *read_anew))
        except CorruptLog as error:
            return error.line

    def find_in_file(self, directory: str, start: int, lines: Lines) -> int | None:
        """The same by way of the disk: all of it, read as a user's command reads it."""
        with open(os.path.join(directory, EVENTS), "wb") as file:
            file.writelines((*self.lines[:start], *lines))
        try:
            return judge(read_events(directory))
        except CorruptLog as error:
            return error.line


def judge(events: Iterable[Event]) -> int | None:
    """The line at which replay finds a difference, 0 for an unfinished log, None for one that holds.

    Raises CorruptLog as whoever reads the events does.
    """
    replayed = replay(events)
    if replayed.divergence is not None:
        return replayed.divergence.number + 1
    return None if replayed.finished else 0


def whole(data: bytes) -> list[bytes]:
    """The lines of a file as they are read: a last one without a newline is left out."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def changed(recorded: Recorded, number: int) -> Iterator[tuple[str, Event]]:
    event = recorded.events[number]
    for other in variants(event, type(event)):
        if other != event:
            yield f"line {number + 1}: {event} became {other}", other


# --- without re-chaining ----------------------------------------------------------------------------------------------


def unchained(recorded: Recorded) -> Iterator[tuple[Edit, int, Lines]]:
    """Every edit, with the number of the first line that it touches and all lines from there on."""
    lines = recorded.lines
    for number, line in enumerate(lines):
        rest, last = lines[number + 1 :], number + 1 == len(lines)
        for what, other in changed(recorded, number):
            edited, _ = encode(number, recorded.before[number], other)
            yield Edit(what, number + 1), number, (_with_digest(edited, line), *rest)
        for flipped, what in _flips(line):
            torn = last and not flipped.endswith(b"\n")
            one = flipped.find(b"\n") == len(flipped) - 1
            after = (flipped, *rest) if one else whole(b"".join((flipped, *rest)))
            yield Edit(f"line {number + 1}: {what}", 0 if torn else number + 1), number, after
        yield Edit(f"line {number + 1} removed", 0 if last else number + 1), number, rest
        yield Edit(f"line {number + 1} repeated", number + 2), number, (line, line, *rest)
        if not last:
            yield Edit(f"line {number + 1} exchanged with the next", number + 1), number, (rest[0], line, *rest[1:])
        yield Edit(f"everything from line {number + 1} on removed", 0), number, ()


def _with_digest(edited: bytes, line: bytes) -> bytes:
    """The edited line with the digest, at its end, of the recorded one."""
    tail = len(GENESIS) + len(b'"}\n')
    return edited[:-tail] + line[-tail:]


def _flips(line: bytes) -> Iterator[tuple[bytes, str]]:
    """Each byte with its lowest bit flipped, and with the one that is the case of a letter."""
    for at, mask in itertools.product(range(len(line)), (0x01, 0x20)):
        yield line[:at] + bytes((line[at] ^ mask,)) + line[at + 1 :], f"bit {mask:#04x} of byte {at} flipped"


# --- with re-chaining -------------------------------------------------------------------------------------------------


def rechained(recorded: Recorded) -> Iterator[tuple[Edit, tuple[Event, ...]]]:
    """Every edit of what `decide` wrote, with all events of the log that it makes."""
    events = recorded.events
    for number, event in enumerate(events):
        if not isinstance(event, BY_DECIDE):
            continue
        before, rest, last = events[:number], events[number + 1 :], number + 1 == len(events)
        for what, other in changed(recorded, number):
            yield Edit(f"re-chained, {what}", number + 1), (*before, other, *rest)
        removed = (*before, *rest)
        yield Edit(f"re-chained, line {number + 1} removed", 0 if last else _decided_on(removed, number)), removed
        yield Edit(f"re-chained, line {number + 1} repeated", number + 2), (*before, event, event, *rest)
        if not last:
            swapped = (*before, rest[0], event, *rest[1:])
            line = _decided_on(swapped, number)
            yield Edit(f"re-chained, line {number + 1} exchanged with the next", line), swapped


def _decided_on(events: Sequence[Event], number: int) -> int:
    """The line of the first event from `number` on that a driver did not write: what drivers write may come at any
    moment, so an edit just before it is noticed just after."""
    return next(at for at in range(number, len(events)) if not isinstance(events[at], BY_DRIVER)) + 1


def find_rechained(events: Iterable[Event]) -> int | None:
    """Written anew with digests that fit, and read."""
    try:
        return judge(event for event, _ in read(_chained(events)))
    except CorruptLog as error:
        return error.line


def _chained(events: Iterable[Event]) -> Iterator[bytes]:
    digest = GENESIS
    for number, event in enumerate(events):
        line, digest = encode(number, digest, event)
        yield line


# --- the bench --------------------------------------------------------------------------------------------------------


def tamper(recorded: Recorded, without: Tally, by_file: Tally, with_chain: Tally, directory: str) -> None:
    for count, (edit, start, lines) in enumerate(unchained(recorded)):
        if without.wants():
            without.note(edit, recorded.find(start, lines))
            if count % BY_FILE == 0:
                by_file.note(edit, recorded.find_in_file(directory, start, lines))
    for edit, events in rechained(recorded):
        if with_chain.wants():
            with_chain.note(edit, find_rechained(events))


def main() -> int:
    parser = harness.options(__doc__)
    parser.add_argument("--every", type=int, default=1, help="try one edit of so many")
    given = parser.parse_args()
    began, lengths = time.monotonic(), list[int]()
    tallies = without, by_file, with_chain = Tally(given.every), Tally(given.every), Tally(given.every)
    with tempfile.TemporaryDirectory() as directory:
        for recipe in RECIPES:
            recorded = Recorded(record(recipe))
            lengths.append(len(recorded.events))
            if recorded.find(0, recorded.lines) is not None or find_rechained(recorded.events) is not None:
                raise RuntimeError(f"the run does not hold before any edit: {recipe}")
            tamper(recorded, without, by_file, with_chain, directory)
            harness.progress(f"{without.edits + with_chain.edits} edits, {time.monotonic() - began:.0f} s")
    result = {
        "edits": without.edits + with_chain.edits,
        "undetected": sum(tally.undetected for tally in tallies),
        "misnamed": sum(tally.misnamed for tally in tallies),
        "rechained": with_chain.edits,
        "also_by_file": by_file.edits,
        "events": lengths,
        "seconds": round(time.monotonic() - began, 1),
    }
    return harness.finish("tamper", given, result, met=not result["undetected"] and not result["misnamed"])


if __name__ == "__main__":
    sys.exit(main())
