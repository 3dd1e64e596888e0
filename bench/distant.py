"""A scripted agent for other processes, billed where the death of a process makes nobody forget."""

from __future__ import annotations

import os
import time
from pathlib import Path

from agentdescent import Answer, Task
from agentdescent.ports import Repeat
from agentdescent.record import Record
from bench import agents
from bench.agents import Script


class Bill(Record, frozen=True):
    """A meter: a line of a file for each call, handed to the operating system in one piece."""

    path: str

    def __call__(self, tokens: int) -> None:
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, f"{tokens}\n".encode())
        finally:
            os.close(handle)

    def lines(self) -> list[int]:
        """The tokens of each call, in the order in which they were billed."""
        return [int(line) for line in Path(self.path).read_text().splitlines()] if os.path.exists(self.path) else []


class Distant:
    """Every call is billed as it begins, and takes `seconds`."""

    tariff = agents.TARIFF

    def __init__(self, script: Script, bill: Bill, *, repeat: Repeat, seconds: float) -> None:
        self.name = f"scripted {script}"
        self.repeat = repeat
        self._script, self._bill, self._seconds = script, bill, seconds

    def solve(self, rendered: str, task: Task) -> Answer:
        answer = self._script.solve(rendered, task, self._bill)
        time.sleep(self._seconds)
        return answer

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        answer = self._script.propose(rendered, task, output, sample, self._bill)
        time.sleep(self._seconds)
        return answer
