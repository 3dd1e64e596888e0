"""Reading a run that somebody else may be writing at this moment: for replay, status and reports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from agentdescent.engine.event import Event
from agentdescent.errors import CorruptLog, UsageError
from agentdescent.history.log import GENESIS, read
from agentdescent_adapters.disk.layout import ANSWERS, EVENTS, LOCK
from agentdescent_adapters.disk.lines import follow_lines, whole_lines
from agentdescent_adapters.disk.lock import is_held


def require_run(root: str) -> None:
    """Raises UsageError when the directory holds no run, CorruptLog when it holds a journal without events."""
    if not os.path.isfile(os.path.join(root, EVENTS)):
        if os.path.isfile(os.path.join(root, ANSWERS)):
            raise CorruptLog(f"{root} holds {ANSWERS} but no {EVENTS}")
        raise UsageError(f"{root} holds no run (no {EVENTS}): name the directory of one, or start one there")


def read_events(path: str | os.PathLike[str]) -> Iterator[Event]:
    """Every whole event of the run in a directory, oldest first, streaming; takes no lock and changes nothing.

    A torn last line is left out. After a crash of the machine these can be a few events more than `DiskLog.open`
    keeps: those whose answers were lost. Raises UsageError when there is no run, CorruptLog with the line number.
    """
    return iter(Chained(path))


def follow_events(path: str | os.PathLike[str], wait: Callable[[], bool]) -> Iterator[Event]:
    """As `read_events`, and then every event that is added; `wait` is called where there is no more for now, and ends
    it when it returns False."""
    root = os.path.abspath(path)
    require_run(root)
    return (event for event, _ in read(follow_lines(os.path.join(root, EVENTS), wait)))


def being_written(path: str | os.PathLike[str]) -> bool:
    """Whether a process writes the run in a directory at this moment."""
    return is_held(os.path.join(path, LOCK))


class Chained:
    """The events of a run directory, to be gone through once; `digest`: the running one after the last that was read.
    Raises as `read_events`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        root = os.path.abspath(path)
        require_run(root)
        self.digest = GENESIS
        self._read = read(whole_lines(os.path.join(root, EVENTS)))

    def __iter__(self) -> Iterator[Event]:
        for event, digest in self._read:
            self.digest = digest
            yield event
