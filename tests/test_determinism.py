"""The same job gives the same log: in another process, whatever the hash seed and locale, threads and interleavings."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentdescent import Answer, EvolutionResult, Rate, Tariff, Task, Usage, evolve
from tests.world import START, World, chance, final_digest, jobs, play

ROOT = Path(__file__).resolve().parent.parent
RATE = Rate(strict=True, overhead=10, ceiling=50)
TASKS = tuple(Task(f"t{n}", f"北京 task {n} 🌍\r\n\x00", {"cluster": f"c{n % 3}"}) for n in range(12))


class Solver:
    """Deterministic; solves a task when a rule with its number is there. Costs are exact."""

    name = "solver"
    tariff = Tariff(RATE, RATE)
    blocking = False

    def solve(self, rendered: str, task: Task) -> Any:
        known = f"<{task.id}>" in rendered or chance("start", task.id) < 0.3
        return Answer("right" if known else "wrong", Usage(prompt=20, completion=5))

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        covered = " ".join(f"<t{n}>" for n in range(12) if n % 5 == sample % 5)
        return Answer(f"add: rule für {covered}", Usage(prompt=30, completion=10))


class Threaded(Solver):
    blocking = True


class Scrambled(Solver):
    """Answers arrive in an order that has nothing to do with the order of the calls."""

    async def give_way(self, *key: object) -> None:
        for _ in range(int(chance("turns", *key) * 20)):
            await asyncio.sleep(0)

    async def solve(self, rendered: str, task: Task) -> Any:
        await self.give_way(rendered, task.id)
        return super().solve(rendered, task)

    async def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        await self.give_way(sample)
        return super().propose(rendered, task, output, score, sample)


def reward(task: Task, output: str) -> float:
    return float(output == "right")


def run(agent: Solver, **options: Any) -> EvolutionResult:
    chosen: dict[str, Any] = {"rounds": 4, "n_workers": 8, "max_tokens": 60_000, "test_share": 0.2, **options}
    return evolve(TASKS, reward, agent=agent, **chosen)


def digests() -> tuple[str, str]:
    """Of a run of the core alone and of one through the driver, with every awkward character."""
    spec, setup = jobs(10, workers=3)
    _, log = play(spec, setup, World(seed=4, failing=0.1), watched=False)
    return final_digest(log), run(Solver()).digest


def fresh(code: str, **environment: str) -> str:
    """What a new process prints, with warnings as errors."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "adapters")])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


PRINT = "from tests.test_determinism import digests; print(*digests())"


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "0"},
        {"PYTHONHASHSEED": "4242"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONHASHSEED": "1"},
    ],
    ids=["hash seed 0", "hash seed 4242", "locale C"],
)
def test_another_process_gives_the_same_digests(environment: dict[str, str]) -> None:
    assert fresh(PRINT, **environment) == " ".join(digests())


GLOBAL_STATE = """
import random
import numpy
random.seed(5)
numpy.random.seed(5)
before = random.getstate(), [str(part) for part in numpy.random.get_state()]
import agentdescent
from tests.test_determinism import digests
digests()
print((random.getstate(), [str(part) for part in numpy.random.get_state()]) == before)
"""


def test_the_randomness_of_the_process_is_not_touched() -> None:
    assert fresh(GLOBAL_STATE) == "True"


def test_neither_threads_nor_the_order_of_arrival_are_in_the_log() -> None:
    expected = run(Solver(), seed=7)
    assert expected.version > 0
    assert list(expected.log.events()) != []
    for agent in (Solver(), Threaded(), Scrambled()):
        for in_flight in (1, 8):
            found = run(agent, seed=7, max_concurrency=in_flight)
            same = (found.digest, found.rendered, found.history, found.stop_reason)
            assert same == (expected.digest, expected.rendered, expected.history, expected.stop_reason)


def test_a_seed_is_honoured_and_none_is_seed_0() -> None:
    found = {seed: run(Solver(), seed=seed).state.split for seed in (0, 7, 11)}
    assert run(Solver()).state.split == found[0]
    assert len({str(split) for split in found.values()}) == 3
    assert run(Solver(), seed=0).digest == run(Solver()).digest != run(Solver(), seed=7).digest


def test_runs_of_the_core_are_functions_of_their_arguments() -> None:
    spec, setup = jobs(10, workers=3)
    world = World(seed=4, failing=0.1)
    _, log = play(spec, setup, world)
    for _ in range(2):
        assert play(spec, setup, world)[1] == log
    other = type(setup)(setup.tasks, START, setup.tariff)
    assert final_digest(play(spec, other, world)[1]) != final_digest(log)
