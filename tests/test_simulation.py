"""Simulated time: what waits takes no time, and what would never come is an error."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest

from agentdescent import Answer, Cancellation, EvolutionResult, Rate, Tariff, Task, Usage, async_evolve
from agentdescent.testing import NotSimulated, Scripted, clock, lognormal, simulate

STRICT = Tariff(Rate(strict=True, overhead=200, ceiling=10), Rate(strict=True, overhead=200, ceiling=20))
TASKS = [Task(f"t{i}", f"message {i}", {"cluster": f"topic{i % 3}"}) for i in range(40)]


class Right:
    blocking = False
    bills = False

    def __call__(self, task: Task, output: str) -> float:
        return float(output == "right")


def run(rendered: str, task: Task) -> Answer:
    return Answer("right" if task.cluster in rendered else "wrong", Usage(5, 2))


def propose(rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
    return Answer(f"know {task.cluster}", Usage(5, 4))


def purpose_calls(result: EvolutionResult, name: str) -> int:
    return next(line.calls for line in result.spend.by_purpose if line.purpose == name)


def test_hours_pass_in_no_time_and_in_order() -> None:
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, clock()))

    async def main() -> None:
        await asyncio.gather(sleeper("b", 7_200.0), sleeper("a", 3_600.0), sleeper("c", 7_200.0))

    assert simulate(main()) == (None, 7_200.0)
    assert seen == [("a", 3_600.0), ("b", 7_200.0), ("c", 7_200.0)]


def test_what_nothing_will_bring_is_an_error() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NotSimulated, match="no timer will bring"):
        simulate(main())


def test_a_thread_that_takes_part_is_an_error() -> None:
    async def main() -> None:
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(told.set))
        thread.start()
        thread.join()
        await told.wait()
        await asyncio.sleep(1.0)

    with pytest.raises(NotSimulated, match="a thread takes part"):
        simulate(main())


def test_latencies_are_lognormal_and_functions_of_their_key() -> None:
    latency = lognormal(7, 2.0, 0.5)
    logs = [math.log(latency("solve", key) / 2.0) for key in range(4_000)]
    mean = sum(logs) / len(logs)
    deviation = (sum((one - mean) ** 2 for one in logs) / len(logs)) ** 0.5
    assert abs(mean) < 0.03
    assert abs(deviation - 0.5) < 0.02
    assert latency("solve", 5) == lognormal(7, 2.0, 0.5)("solve", 5)
    assert latency("solve", 5) != latency("propose", 5)
    assert latency("solve", 5) != lognormal(8, 2.0, 0.5)("solve", 5)


def test_a_run_of_hours_with_calls_that_hang() -> None:
    """Each hung call costs its deadline, and its reservation."""

    def latency(purpose: str, key: int) -> float:
        return math.inf if purpose == "propose" and key % 3 == 0 else 60.0

    agent = Scripted(run, propose, latency, tariff=STRICT)

    async def main() -> EvolutionResult:
        return await async_evolve(
            TASKS, Right(), agent=agent, asynchronous=True, max_calls=600, deadline=300.0, n_workers=8
        )

    result, seconds = simulate(main())
    assert seconds > 3_600.0
    assert result.spend.total.calls == agent.calls <= 600
    assert purpose_calls(result, "propose") > 20
    assert result.spend.assumed > 0
    again, as_long = simulate(main())
    assert (again.digest, as_long) == (result.digest, seconds)


def test_max_seconds_and_cancellation_are_simulated_too() -> None:
    agent = Scripted(run, lambda *_: Answer(None, Usage(5, 4)), lognormal(1, 10.0, 1.0), tariff=STRICT)
    cancellation = Cancellation()

    async def main(seconds: float | None) -> EvolutionResult:
        asyncio.get_running_loop().call_later(500.0, cancellation.request)
        return await async_evolve(
            TASKS, Right(), agent=agent, rounds=None, max_seconds=seconds or 10_000.0, cancellation=cancellation
        )

    limited, seconds = simulate(main(400.0))
    assert limited.stop_reason == "max_seconds"
    assert 400.0 <= seconds < 520.0
    cancelled, seconds = simulate(main(None))
    assert cancelled.stop_reason == "cancelled"
    assert 500.0 <= seconds < 620.0
