"""Ports that contradict themselves, cancel themselves, or are given up twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentdescent import (
    Answer,
    AppendRules,
    CallFailed,
    EvolutionResult,
    KeyedRules,
    RunError,
    SingleSlot,
    Task,
    Usage,
    UsageError,
    async_evolve,
    evolve,
)
from agentdescent.engine.event import Failed
from agentdescent.ports import Item, Repeat
from agentdescent.simulation import Scripted, simulate
from tests.test_simulation import STRICT, TASKS, Right


def test_what_was_billed_is_charged_whatever_else_the_port_says() -> None:
    """`retry_after` says that nothing was billed; a usage beside it says otherwise, and is believed."""
    billed = 0

    class Contradicting(Scripted):
        async def solve(self, rendered: str, task: Task) -> Any:
            nonlocal billed
            self.calls += 1
            billed += 7
            if self.calls > 20 and self.calls % 3:
                raise CallFailed("rate-limit", "429, and billed", Usage(prompt=5, completion=2), retry_after=1.0)
            return Answer("wrong", Usage(prompt=5, completion=2))

    agent = Contradicting(lambda *_: None, lambda *_: Answer(None, Usage()), lambda *_: 0.0, tariff=STRICT)

    async def main() -> EvolutionResult:
        return await async_evolve(TASKS, Right(), agent=agent, rounds=3)

    result, _ = simulate(main())
    assert result.spend.total.tokens == billed


def test_a_port_that_returns_at_once_may_cancel_itself() -> None:
    class Odd:
        name = "odd"
        blocking = False
        tariff = STRICT
        calls = 0

        def solve(self, rendered: str, task: Task) -> Answer:
            self.calls += 1
            if self.calls % 5 == 0:
                raise asyncio.CancelledError
            return Answer("wrong", Usage(5, 2))

        def propose(self, *_: object) -> Answer:
            return Answer(None, Usage(5, 2))

    result = evolve(TASKS, Right(), agent=Odd(), rounds=2)
    assert result.stop_reason == "rounds"
    assert any(isinstance(event, Failed) and "cancelled its own" in event.message for event in result.log.events())


def test_a_second_cancellation_while_giving_up_still_closes_the_executor() -> None:
    closed: list[bool] = []

    class Closing:
        def open(self, perform: Callable[[Item], Any], repeat: Repeat) -> None: ...

        def submit(self, item: Item, done: Callable[[Any], None]) -> None: ...

        def close(self) -> None:
            closed.append(True)

    async def stubborn(rendered: str, task: Task) -> str:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0.6)

    async def main() -> None:
        run = asyncio.ensure_future(
            async_evolve(TASKS, Right(), run=stubborn, propose=lambda *_: None, executor=Closing(), deadline=1e6)
        )
        await asyncio.sleep(10.0)
        run.cancel()
        await asyncio.sleep(0.3)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    simulate(main())
    assert closed == [True]


def test_what_goes_with_workers_is_not_asked_of_what_is_no_number() -> None:
    options: Any = {"asynchronous": True, "n_workers": "4", "max_calls": 100}
    with pytest.raises(UsageError, match="n_workers"):
        evolve(TASKS, Right(), run=lambda *_: "x", propose=lambda *_: None, **options)


def test_the_error_of_proposals_that_fail_is_in_the_message_that_none_reported_its_tokens() -> None:
    def propose(rendered: str, task: Task, output: str, score: float) -> str:
        raise RuntimeError("no such prompt template")

    tasks = [Task(f"t{n}", "?") for n in range(12)]
    with pytest.raises(RunError) as caught:
        evolve(
            tasks,
            lambda task, output: 0.5,
            run=lambda rendered, task: Answer("a", Usage(10, 1)),
            propose=propose,
            max_tokens=100_000,
            n_workers=1,
        )
    assert "no call reported its tokens" in str(caught.value)
    assert "the last call that failed: RuntimeError: no such prompt template" in str(caught.value)


def test_an_agent_that_proposes_in_another_grammar_is_refused_before_anything_is_spent() -> None:
    class Agent:
        name = "mine"
        calls = 0
        strategy = KeyedRules(("tone",))

        def solve(self, rendered: str, task: Task) -> str:
            self.calls += 1
            return "a"

        def propose(self, rendered: str, task: Task, output: str, score: float) -> str | None:
            return None

    agent, tasks = Agent(), [Task(f"t{n}", "?") for n in range(12)]
    for strategy in (AppendRules(), SingleSlot(), KeyedRules(("tone", "facts"))):
        with pytest.raises(UsageError, match=r"mine proposes for KeyedRules.*tone.*give both the same"):
            evolve(tasks, lambda task, output: 0.5, agent=agent, strategy=strategy, rounds=1)
    assert agent.calls == 0
    evolve(tasks, lambda task, output: 0.5, agent=agent, strategy=KeyedRules(("tone",), max_ops=2), rounds=1)
    assert agent.calls > 0
