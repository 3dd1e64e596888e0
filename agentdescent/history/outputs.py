"""Which outputs a proposal may still read: what a log must be able to recall of answers that were folded already."""

from __future__ import annotations

from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Abandoned, Decided, Event, Failed, Proposed, Started


class OpenOutputs:
    """A fold of events. `command in outputs`: the output of this rollout may still be read.

    Only a worker's own rollouts (purpose "rollout") are read, each by the proposal that follows it. An output is
    open from `Decided` until that proposal is `Proposed`, the worker decides its next rollout, or the rollout
    itself failed; a failed proposal leaves it open, because another attempt reads it again, and where a rollout may
    lead to several proposals (`samples`) so does one that was answered. So it holds at most one output per worker.
    """

    def __init__(self) -> None:
        self._once = True
        self._open: set[int] = set()
        self._latest: dict[int, int] = {}
        self._readers: dict[int, int] = {}

    def __contains__(self, command: object) -> bool:
        return command in self._open

    def observe(self, event: Event) -> int | None:
        """Fold a fact; the rollout whose output nobody reads from here on, None when there is none."""
        closed: int | None = None
        if isinstance(event, Started):
            self._once = event.spec.samples == 1
        elif isinstance(event, Decided):
            command = event.command
            if not isinstance(command, Rollout):
                self._readers[command.id] = command.rollout
            elif command.purpose == "rollout":
                closed = self._latest.get(event.worker)
                self._latest[event.worker] = command.id
                self._close(closed)
                self._open.add(command.id)
        elif isinstance(event, Proposed):
            read = self._readers.pop(event.id, None)
            closed = read if self._once else None
            self._close(closed)
        elif isinstance(event, (Failed, Abandoned)) and self._readers.pop(event.id, None) is None:
            closed = event.id if event.id in self._open else None
            self._close(closed)
        return closed

    def _close(self, command: int | None) -> None:
        if command is not None:
            self._open.discard(command)
