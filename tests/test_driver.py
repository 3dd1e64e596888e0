"""Ports that misbehave: whatever they do, the run ends, and everything they billed is charged."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agentdescent import (
    Answer,
    CallFailed,
    EvolutionResult,
    MemoryLog,
    Rate,
    RunError,
    SingleSlot,
    State,
    Tariff,
    Task,
    Usage,
    UsageError,
    evolve,
)
from agentdescent.budget.governor import Purpose

TASKS = [Task(f"t{i}", f"message {i}", {"cluster": f"topic{i % 3}"}) for i in range(40)]
STRICT = Tariff(Rate(strict=True, overhead=200, ceiling=10, calls=2), Rate(strict=True, overhead=200, ceiling=20))


def reward(task: Task, output: str) -> float:
    return float(output == "right")


class Agent:
    """Bills 5 + 2 a solve and 5 + 4 a proposal, and counts."""

    blocking = False
    name = "agent"
    tariff = STRICT

    def __init__(self) -> None:
        self.calls = 0
        self.billed = 0

    def bill(self, prompt: int, completion: int) -> Usage:
        self.calls += 1
        self.billed += prompt + completion
        return Usage(prompt=prompt, completion=completion)

    def solve(self, rendered: str, task: Task) -> Any:
        return Answer("right" if task.cluster in rendered else "wrong", self.bill(5, 2))

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        return Answer(f"know {task.cluster}", self.bill(5, 4))


def purpose(result: EvolutionResult, name: Purpose) -> int:
    return next((line.calls for line in result.spend.by_purpose if line.purpose == name), 0)


def failed_result(*arguments: Any, **options: Any) -> EvolutionResult:
    with pytest.raises(RunError) as caught:
        evolve(*arguments, **options)
    assert isinstance(caught.value.result, EvolutionResult)
    return caught.value.result


@pytest.mark.parametrize("says", [True, False])
def test_a_scorer_that_bills_and_fails_is_charged(says: bool) -> None:
    agent, failures = Agent(), 0

    def judge(task: Task, output: str) -> Answer:
        nonlocal failures
        usage = agent.bill(90, 10)
        if failures < 20 and agent.calls % 3 == 0:
            failures += 1
            raise CallFailed("scorer", "busy", usage) if says else RuntimeError("busy")
        return Answer(reward(task, output), usage)

    result = evolve(TASKS, judge, agent=agent, max_tokens=20_000, rounds=4)
    spent = result.spend.total.tokens
    assert failures == 20
    assert spent == agent.billed if says else agent.billed < spent <= 20_000
    assert result.budget is not None
    assert (result.budget.ceiling, result.spend.assumed > 0) == ("strict", not says)


def test_a_scorer_that_bills_and_returns_nonsense_is_charged() -> None:
    agent = Agent()
    result = failed_result(TASKS, lambda task, output: Answer(7.0, agent.bill(90, 10)), agent=agent)
    assert "is 7.0: it must be a number in [0, 1]" in result.error
    assert result.spend.total.tokens == agent.billed
    assert agent.calls == 2


def test_after_an_overrun_nothing_starts() -> None:
    class Dear(Agent):
        def solve(self, rendered: str, task: Task) -> Any:
            return Answer("wrong", self.bill(5, 2 if self.calls < 3 else 5_000))

    agent = Dear()
    result = failed_result(TASKS, reward, agent=agent, max_tokens=20_000)
    assert (result.stop_reason, agent.calls) == ("overrun", 4)
    assert result.spend.total.tokens == agent.billed


def test_21_a_backend_that_refuses_is_asked_eight_times() -> None:
    class Refused(Agent):
        def solve(self, rendered: str, task: Task) -> Any:
            self.calls += 1
            raise ConnectionRefusedError("port 11434")

    agent = Refused()
    result = failed_result(TASKS * 1, reward, agent=agent, n_workers=16)
    assert "port 11434" in result.error
    assert agent.calls == 8


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


UNKNOWN_KIND: Any = "ratelimit"
HALF: Any = 2.5
WRONG_USAGES: list[Any] = [Usage(-100_000, 5), Usage(5, 1, cached=9), {"prompt": 5}, Usage(HALF)]

ODD: dict[str, Callable[[], Any]] = {
    "unprintable": lambda: Unprintable(),
    "unknown kind": lambda: CallFailed(UNKNOWN_KIND, "slow down"),
    "stop iteration": lambda: StopIteration(3),
    "cancelled": lambda: asyncio.CancelledError(),
}


@pytest.mark.parametrize("mode", ["thread", "loop"])
@pytest.mark.parametrize("name", sorted(ODD))
def test_whatever_a_port_raises_is_a_failure(name: str, mode: str) -> None:
    agent, raised = Agent(), set[str]()

    def solve(rendered: str, task: Task) -> Any:
        if task.id not in raised and int(task.id[1:]) % 3 == 0:
            raised.add(task.id)
            raise ODD[name]()
        return agent.solve(rendered, task)

    async def solve_on_the_loop(rendered: str, task: Task) -> Any:
        try:
            return solve(rendered, task)
        except StopIteration as error:
            raise ValueError("a coroutine cannot raise it") from error

    run = solve if mode == "thread" else solve_on_the_loop
    result = evolve(TASKS, reward, run=run, propose=agent.propose, rounds=2, tariff=STRICT, deadline=20)
    assert result.base == 0.0
    assert len(raised) >= 4


@pytest.mark.parametrize("usage", WRONG_USAGES)
@pytest.mark.parametrize("fails", [True, False])
def test_a_usage_that_cannot_be_is_a_broken_contract(usage: Any, fails: bool) -> None:
    class Odd(Agent):
        def solve(self, rendered: str, task: Task) -> Any:
            if fails:
                raise CallFailed("provider", "busy", usage)
            return Answer("wrong", usage)

    result = failed_result(TASKS, reward, agent=Odd())
    assert result.stop_reason == "error"
    assert "sage" in result.error
    assert result.spend.total.tokens >= 0


def test_a_kind_of_call_that_never_says_what_it_costs_ends_the_run() -> None:
    agent = Agent()
    result = failed_result(
        TASKS, reward, run=agent.solve, propose=lambda rendered, task, output, score: "junk", max_tokens=10**6
    )
    assert "`propose` included" in result.error
    assert purpose(result, "propose") == 3


def test_a_cap_in_dollars_needs_a_cost() -> None:
    agent = Agent()
    result = failed_result(TASKS, reward, run=agent.solve, propose=agent.propose, max_cost=0.01)
    assert "max_cost is set, but no call has a known cost" in result.error
    assert agent.calls == 5  # one alone, then four at once


def test_a_port_that_answers_later_than_it_said() -> None:
    class Later(Agent):
        def solve(self, rendered: str, task: Task) -> Any:
            async def later() -> Any:
                return Agent.solve(self, rendered, task)

            return later()

    async def judge(task: Task, output: str) -> float:
        return reward(task, output)

    assert evolve(TASKS, lambda task, output: judge(task, output), agent=Later(), rounds=3).final == 1.0


def test_a_scorer_that_blocks_holds_up_nobody_and_meets_the_deadline() -> None:
    agent, release = Agent(), threading.Event()

    async def run(rendered: str, task: Task) -> Any:
        return agent.solve(rendered, task)

    def judge(task: Task, output: str) -> float:
        if task.id == "t5":
            release.wait(30)
        return reward(task, output)

    try:
        with pytest.raises(RunError, match=r"task t5: no answer within 0\.05 s"):
            evolve(
                TASKS,
                judge,
                run=run,
                propose=agent.propose,
                deadline=0.05,
                attempts=1,
                heldout_share=0.9,
                shuffle=False,
            )
    finally:
        release.set()


def test_22_a_hung_thread_keeps_neither_the_run_nor_the_process() -> None:
    code = textwrap.dedent("""
        import threading
        from agentdescent import Task, evolve

        def run(rendered, task):
            if task.id == "t7":
                threading.Event().wait()
            return "wrong"

        tasks = [Task(f"t{i}", "m") for i in range(20)]
        try:
            evolve(tasks, lambda task, output: 0.0, run=run, propose=lambda *a: "rule", rounds=2, max_concurrency=1,
                   deadline=0.1, attempts=1, heldout_share=0.9, shuffle=False)
        except Exception as error:
            print(error)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "the base cannot be scored: task t7: no answer within 0.1 s\n"


def test_a_port_that_swallows_its_cancellation_keeps_neither() -> None:
    code = textwrap.dedent("""
        import asyncio
        from agentdescent import Task, evolve

        async def run(rendered, task):
            while task.id == "t7":
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass
            return "wrong"

        async def propose(rendered, task, output, score):
            return "rule"

        tasks = [Task(f"t{i}", "m") for i in range(20)]
        try:
            evolve(tasks, lambda task, output: 0.0, run=run, propose=propose, rounds=2, deadline=0.1, attempts=1,
                   heldout_share=0.9, shuffle=False)
        except Exception as error:
            print(error)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "the base cannot be scored: task t7: no answer within 0.1 s\n"


def test_ctrl_c_inside_a_running_loop_settles_and_returns() -> None:
    code = textwrap.dedent("""
        import asyncio, os, signal
        from agentdescent import Task, evolve

        calls = 0

        async def run(rendered, task):
            global calls
            calls += 1
            if calls == 30:
                os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.001)
            return "wrong"

        async def propose(rendered, task, output, score):
            return f"rule {calls}"

        async def notebook():
            tasks = [Task(f"t{i}", "m") for i in range(40)]
            return evolve(tasks, lambda task, output: 0.0, run=run, propose=propose, rounds=10_000)

        print(asyncio.run(notebook()).stop_reason, calls < 200)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "cancelled True\n"


def test_a_test_that_was_interrupted_goes_on_where_it_was() -> None:
    log = MemoryLog()

    def in_the_test(state: State) -> bool:
        return state.closing is not None and state.testing is not None and state.testing.scores.count >= 4

    cut = evolve(TASKS, reward, agent=Agent(), rounds=2, test_share=0.3, log=log, stop_when=in_the_test)
    assert cut.stop_reason == "stop_when"
    rest = evolve(TASKS, reward, agent=Agent(), rounds=2, test_share=0.3, log=log)
    whole = evolve(TASKS, reward, agent=Agent(), rounds=2, test_share=0.3)
    assert purpose(rest, "test") == purpose(whole, "test") == 24
    assert (rest.test_final, rest.rendered) == (whole.test_final, whole.rendered)


def test_what_cannot_be_is_refused_before_anything_is_spent() -> None:
    agent = Agent()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"repeat": "sometimes"}, "repeat is 'sometimes'"),
        ({"strategy": SingleSlot(), "artifact": (("prompt", "x"),)}, "with the key 'text'"),
        ({"artifact": (("a", "x"), ("a", "y"))}, "a key twice"),
        ({"artifact": (("a", 1),)}, "wrong type"),
        ({"staleness": "sometimes"}, "Invalid enum value 'sometimes'"),
        ({"hard_floor": "x"}, "wrong type"),
        ({"solved_threshold": float("nan")}, "solved_threshold"),
        ({"max_concurrency": -1}, "max_concurrency is -1"),
        ({"deadline": float("nan")}, "deadline is nan"),
        ({"strategy": "append-rules"}, "strategy is 'append-rules'"),
    ]
    for options, message in cases:
        with pytest.raises(UsageError, match=message):
            evolve(TASKS, reward, agent=agent, **options)
    with pytest.raises(UsageError, match="task 0 is not a Task"):
        evolve([{"id": 0, "prompt": "x"}, *TASKS], reward, agent=agent)
    number: Any = 0
    with pytest.raises(UsageError, match="task 0 is not a Task"):
        evolve([Task(number, "x"), *TASKS], reward, agent=agent)
    assert agent.calls == 0
