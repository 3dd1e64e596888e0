"""Agents for other processes: module-level, with what they do in the prompt, and a file that outlives a process."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from agentdescent import Answer, Rate, Tariff, Task, Usage
from agentdescent.artifact.strategy import AppendRules
from agentdescent.budget.usage import Amount
from agentdescent.effects import Performer
from agentdescent.engine.command import Rollout
from agentdescent.ports import Item, Repeat
from agentdescent.wiring import ports_of
from tests.world import chance

RATE = Rate(strict=True, overhead=10, ceiling=50)


def right(task: Task, output: str) -> float:
    return float(output.startswith("right"))


class Solver:
    """Deterministic; a rule with its number solves a task. Some calls fail, and some replies are no proposals."""

    name = "solver"
    repeat: Repeat = "free"
    tariff = Tariff(RATE, RATE)

    def solve(self, rendered: str, task: Task) -> Any:
        if "rule" in rendered and chance("fails", rendered, task.id) < 0.05:
            raise ConnectionError(f"no route for {task.id}")
        known = f"<{task.id}>" in rendered or chance("start", task.id) < 0.3
        return Answer("right 北京" if known else "wrong", Usage(prompt=20, completion=5))

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        if sample % 7 == 3:
            return Answer(None, Usage(prompt=30))
        covered = " ".join(f"<t{n}>" for n in range(24) if n % 5 == sample % 5)
        return Answer(f"add: rule für {covered}", Usage(prompt=30, completion=10))


class Mortal:
    """Notes each call in a file as it begins, then does as the prompt says."""

    name = "mortal"

    def __init__(self, file: Path, repeat: Repeat) -> None:
        self.file = str(file)
        self.repeat: Repeat = repeat

    def solve(self, rendered: str, task: Task) -> Any:
        handle = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(handle, f"{task.prompt}\n".encode())
        os.close(handle)
        if task.prompt == "die" or (task.prompt == "die once" and self.calls().count("die once") == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        if task.prompt == "hang":
            time.sleep(60)
        return Answer(str(os.getpid()), Usage(prompt=1))

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        return None

    def calls(self) -> list[str]:
        return Path(self.file).read_text(encoding="utf-8").splitlines() if os.path.exists(self.file) else []


def performer(agent: object, *prompts: str) -> Performer:
    tasks = [Task(f"t{n}", prompt) for n, prompt in enumerate(prompts)]
    return Performer(ports_of(right, agent, None, None, None, None), tasks, AppendRules())


def item(command: int, task: int = 0) -> Item:
    """A rollout of a task, by index."""
    return Item(Rollout(command, "rollout", "a" * 32, task, 512, Amount(tokens=600)), (), "# rules")


class Told:
    """What an executor told, by command."""

    def __init__(self) -> None:
        self.results: dict[int, Any] = {}

    def done(self, command: int) -> Any:
        def tell(result: Any) -> None:
            assert command not in self.results
            self.results[command] = result

        return tell

    def wait(self, *commands: int, seconds: float = 20.0) -> list[Any]:
        until = time.monotonic() + seconds
        while not set(commands) <= set(self.results):
            assert time.monotonic() < until, f"told {self.results} of {commands}"
            time.sleep(0.005)
        return [self.results[command] for command in commands]
