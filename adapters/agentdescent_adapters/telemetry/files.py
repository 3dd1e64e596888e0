"""Files beside the log that others read while a run goes on: status.json, rounds.jsonl, artifact.txt."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from agentdescent.artifact.strategy import render
from agentdescent.engine.event import Amended, Committed, Event, Started, Stopped, StopReason
from agentdescent.engine.population import dev_head
from agentdescent.engine.state import State
from agentdescent.history import rounds
from agentdescent.history.rounds import RoundInfo, Tally, mean
from agentdescent_adapters.disk import write_atomic

STATUS = "status.json"
ROUNDS = "rounds.jsonl"
ARTIFACT = "artifact.txt"


class Status(msgspec.Struct, frozen=True):
    """A run at a glance. Rewards in [0, 1]; tokens, calls and rollouts as spent so far; `pid` of the writer."""

    events: int
    round: int
    rounds: int | None
    version: int
    base: float
    reward: float
    tokens: int
    cap: int | None
    calls: int
    rollouts: int
    open: int
    stop_reason: StopReason | None
    error: str
    pid: int


def status_of(state: State, pid: int = 0) -> Status:
    governor = state.governor
    size = state.head.scores.size
    return Status(
        state.seq,
        state.round,
        governor.caps.rounds,
        dev_head(state).version.number,
        state.base_total / (1_000_000 * size) if size else 0.0,
        mean(state),
        governor.spent.tokens,
        governor.caps.tokens,
        governor.spent.calls,
        governor.spent.rollouts,
        state.window.count,
        state.stopped.reason if state.stopped is not None else None,
        state.stopped.error if state.stopped is not None else "",
        pid,
    )


def read_status(run: str | os.PathLike[str]) -> Status | None:
    """What status.json says; None where there is none (yet), or one that is not ours."""
    try:
        return msgspec.json.decode((Path(run) / STATUS).read_bytes(), type=Status)
    except (OSError, msgspec.DecodeError):
        return None


class RunFiles:
    """An observer that keeps the files whole: each is replaced in one step, the status twice a second at most.

    `recovered` is told what was in the log before; rounds.jsonl is written anew from it, so that no crash can have
    left a round out or in twice.
    """

    def __init__(self, run: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.run = Path(run)
        self.clock = clock
        self._next = 0.0
        self._tally = Tally()
        self._rounds: list[bytes] = []
        self._written = 0

    def recovered(self, event: Event, state: State) -> None:
        self._tally, done = rounds.observe(self._tally, event, state)
        if done is not None:
            self._rounds.append(msgspec.json.encode(done))

    def __call__(self, event: Event, state: State) -> None:
        self.recovered(event, state)
        with suppress(OSError):  # these files are for reading; the run goes on without them
            self._write(event, state)

    def _write(self, event: Event, state: State) -> None:
        ended = isinstance(event, Stopped)
        if len(self._rounds) > self._written or ended:
            self._write_rounds()
        if isinstance(event, Committed | Started | Amended) or ended:
            rendered = render(state.spec.strategy, dev_head(state).version.entries)
            write_atomic(self.run / ARTIFACT, rendered.encode())
        now = self.clock()
        if now >= self._next or ended:
            self._next = now + 0.5
            write_atomic(self.run / STATUS, msgspec.json.encode(status_of(state, os.getpid())))

    def _write_rounds(self) -> None:
        lines = b"".join(line + b"\n" for line in self._rounds[self._written :])
        if self._written == 0:
            write_atomic(self.run / ROUNDS, lines)
        else:
            with (self.run / ROUNDS).open("ab") as file:
                file.write(lines)
        self._written = len(self._rounds)


def read_rounds(run: str | os.PathLike[str]) -> tuple[RoundInfo, ...]:
    """The rounds of rounds.jsonl; a line that is being written is left out."""
    decode = msgspec.json.Decoder(RoundInfo).decode
    lines = (Path(run) / ROUNDS).read_bytes().split(b"\n")[:-1]
    return tuple(decode(line) for line in lines)
