"""What of a run is whole: how far the events and the journal can be believed after a crash, and agree.

Nothing was synced after a line that is torn, so no effect was started after it: cutting it off forgets nothing
that anybody acted on. Three things can be missing from the end, and each is reported:

* a torn last line of either file, cut anywhere or filled with NULs;
* the answer to an outcome that is among the events: the machine kept the later file and lost the earlier one.
  From that outcome on the events are dropped, and the command is due again;
* the decision of an answer that is in the journal. The same number may now be given to another command, so the
  answer is forgotten. (With fsync="always" there is none: a decision is synced before its effect starts.)

Anything else that is wrong is damage: CorruptLog with the line number, and nothing is dropped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from agentdescent.engine.event import Abandoned, Decided, Event, Failed, Outcome, Proposed, RolledOut
from agentdescent.errors import CorruptLog
from agentdescent.history.log import GENESIS, decode, read
from agentdescent.history.outputs import OpenOutputs
from agentdescent_adapters.disk.answers import Entry, encode_entry, read_entries
from agentdescent_adapters.disk.files import Files, write_all
from agentdescent_adapters.disk.layout import ANSWERS, EVENTS
from agentdescent_adapters.disk.lines import whole_end, whole_lines


class Extent(msgspec.Struct, frozen=True):
    """How much of a file of lines is whole."""

    size: int = 0
    count: int = 0


class Whole(msgspec.Struct, frozen=True):
    """The part of a run that is whole and agrees. `outputs`: those still open after the last event."""

    events: Extent
    answers: Extent
    digest: str
    outputs: OpenOutputs
    dropped: tuple[str, ...]


class _Journal:
    """The answers in step with the events that admit them: holds the ids that arrived before they were admitted."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries
        self.early: set[int] = set()
        self.count = 0

    def admits(self, command: int) -> bool:
        """True when an answer to this command is in the journal; reads on as far as it must."""
        if command in self.early:
            self.early.discard(command)
            return True
        return any(arrived == command for arrived in self._arrivals(command))

    def drain(self) -> None:
        for _ in self._arrivals(None):
            pass

    def _arrivals(self, awaited: int | None) -> Iterator[int]:
        for entry in self._entries:
            self.count += 1
            if entry.outcome.id != awaited:
                self.early.add(entry.outcome.id)
            yield entry.outcome.id


def examine(files: Files, root: str) -> Whole:
    """Read a run once, streaming; only a journal that holds answers without a decision is rewritten.

    Memory grows with the answers that arrived and were not admitted, not with the run. Raises CorruptLog.
    """
    events, answers = os.path.join(root, EVENTS), os.path.join(root, ANSWERS)
    present = os.path.exists(answers)
    ends = whole_end(events), whole_end(answers) if present else 0
    dropped = [*_torn(answers, ends[1]), *_torn(events, ends[0])]
    journal = _Journal(read_entries(whole_lines(answers, ends[1])) if present else iter(()))
    outputs, due, digest = OpenOutputs(), set[int](), GENESIS
    size = count = behind = 0
    for line in whole_lines(events, ends[0]):
        if behind:
            behind += 1
            continue
        event, after = decode(line, count, digest)
        if isinstance(event, Outcome):
            if not present:
                raise CorruptLog(f"{root} has no {ANSWERS}, but its events hold the answer to command {event.id}")
            if not journal.admits(event.id):
                behind = 1
                continue
        _fold(due, event)
        outputs.observe(event)
        digest, size, count = after, size + len(line), count + 1
    journal.drain()
    if behind:
        dropped.append(f"{EVENTS}: {behind} events from line {count + 1} on, whose answers never reached the disk")
    whole = Extent(ends[1], journal.count)
    strays = journal.early - due
    strays.difference_update(_decided(events, size, strays) if strays else ())
    if strays:
        whole = _rewrite(files, answers, ends[1], strays)
        dropped.append(f"{ANSWERS}: {journal.count - whole.count} answers to commands whose decision was lost")
    return Whole(Extent(size, count), whole, digest, outputs, tuple(dropped))


def _torn(path: str, end: int) -> list[str]:
    torn = os.path.getsize(path) - end if os.path.exists(path) else 0
    return [f"{os.path.basename(path)}: a torn last line of {torn} bytes"] if torn else []


def _fold(due: set[int], event: Event) -> None:
    if isinstance(event, Decided):
        due.add(event.command.id)
    elif isinstance(event, (RolledOut, Proposed, Failed, Abandoned)):
        due.discard(event.id)


def _decided(events: str, size: int, commands: set[int]) -> set[int]:
    """Those of the commands that the events did decide: a second answer to them is no stray."""
    decided = (event.command.id for event, _ in read(whole_lines(events, size)) if isinstance(event, Decided))
    return commands.intersection(decided)


def _rewrite(files: Files, path: str, end: int, strays: set[int]) -> Extent:
    """Replace the journal atomically by one without the answers to these commands.

    The caller syncs the directory: should the name go back to the old journal before, it is rewritten again.
    """
    beside = f"{path}.tmp"
    size = count = 0
    handle = files.open_new(beside)
    try:
        for entry in read_entries(whole_lines(path, end)):
            if entry.outcome.id not in strays:
                line = encode_entry(count, entry)
                write_all(files, handle, line)
                size, count = size + len(line), count + 1
        files.fsync(handle)
    finally:
        files.close(handle)
    files.replace(beside, path)
    return Extent(size, count)
