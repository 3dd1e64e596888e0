"""A log in memory: for simulations, tests and runs that need not survive their process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from agentdescent.engine.event import Event, Failed, Outcome, Proposed, RolledOut
from agentdescent.errors import UsageError
from agentdescent.history.log import GENESIS, chain
from agentdescent.history.outputs import OpenOutputs

_encode = msgspec.json.Encoder().encode


class MemoryLog:
    """Satisfies `ports.Log`; nothing survives the process.

    `events`, `answers`: a recorded prefix and its journal, to go on from. `keep=False`: events are digested and
    let go, so that memory does not grow with the run; `events` can then be read only before the first `append`.

    An answer is held until its outcome is appended and, if a proposal reads its output, until that is answered.
    Holding all of them would grow with the run; dropping each with its outcome would leave a run that was
    interrupted and goes on with the same log without the outputs that its proposals read.
    """

    def __init__(
        self,
        events: Iterable[Event] = (),
        answers: Mapping[int, tuple[Outcome, str]] | None = None,
        *,
        keep: bool = True,
    ) -> None:
        self._keep = keep
        self._events = list(events)
        self._answers = dict(answers or {})
        self._outputs = OpenOutputs()
        self._digest = GENESIS
        self._forgotten = False
        for event in self._events:
            self._digest = chain(self._digest, _encode(event))
            self._outputs.observe(event)

    def events(self) -> Iterable[Event]:
        """Everything recorded, oldest first. Raises UsageError when it was not kept."""
        if self._forgotten:
            raise UsageError("this log was told not to keep its events; use MemoryLog(keep=True) to read them")
        return tuple(self._events)

    def recall(self, ids: Collection[int]) -> Mapping[int, tuple[Outcome, str]]:
        return {command: self._answers[command] for command in ids if command in self._answers}

    def append(self, event: Event) -> None:
        self._digest = chain(self._digest, _encode(event))
        if self._keep:
            self._events.append(event)
        else:
            self._forgotten = True
        closed = self._outputs.observe(event)
        if closed is not None:
            self._answers.pop(closed, None)
        if isinstance(event, (RolledOut, Proposed, Failed)) and event.id not in self._outputs:
            self._answers.pop(event.id, None)

    def answered(self, outcome: Outcome, output: str, seconds: float, refused: int = 0) -> None:
        self._answers.setdefault(outcome.id, (outcome, output))

    def sync(self) -> None:
        """Nothing to do: there is nothing that could be lost before the process is."""

    def close(self) -> None:
        """Nothing to let go: a closed log can still be read, and gone on with."""

    @property
    def answers(self) -> Mapping[int, tuple[Outcome, str]]:
        """A copy of the answers still held, by command."""
        return dict(self._answers)

    @property
    def digest(self) -> str:
        return self._digest

    @property
    def path(self) -> None:
        return None
