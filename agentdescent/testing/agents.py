"""The contracts of an agent and of a scorer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from agentdescent.budget.tariff import Rate, worst
from agentdescent.budget.usage import NOTHING, Usage
from agentdescent.effects import ask_for_change, checked
from agentdescent.engine.command import Propose
from agentdescent.ports import Answer, CallFailed, Task
from agentdescent.record import replace
from agentdescent.testing.facts import expect
from agentdescent.wiring import Ports, describe, ports_of


def check_agent(agent: object, tasks: Sequence[Task], rendered: str = "") -> None:
    """What the driver relies on: a name that stays, text for every task, replies that are text or None, usage within
    the strict tariff it declares, arguments left alone. The agent is called: use one that costs nothing."""
    ports = ports_of(lambda task, output: 0.0, agent, None, None, None, None)
    expect(ports.agent == ports_of(lambda task, output: 0.0, agent, None, None, None, None).agent, "the name changes")
    if ports.begin is not None:
        ports.begin(list(tasks))
    for number, task in enumerate(tasks):
        before = describe(task)
        answer = _value(ports.solve(rendered, task))
        output = answer.value
        expect(isinstance(output, str), f"solve returned {type(output).__name__} for task {task.id!r}: it returns text")
        prompt = len(rendered.encode()) + before.size
        _within(ports.tariff.solve, answer.usage, prompt, f"solve of task {task.id!r}")
        ceiling = ports.tariff.propose.ceiling
        command = Propose(0, "", 0, 0, number, 0, ceiling, NOTHING)
        reply = _value(ask_for_change(ports, rendered, task, output, 0.0, command))
        expect(reply.value is None or isinstance(reply.value, str), "propose returns text or None")
        read = min(len(output.encode()), ports.tariff.output_limit)
        _within(ports.tariff.propose, reply.usage, prompt + read, f"proposal for task {task.id!r}")
        if ports.ceilings and ports.tariff.propose.strict:
            lower = replace(ports.tariff.propose, ceiling=max(1, ceiling // 2))
            usage = _usage_below(ports, rendered, task, output, replace(command, ceiling=lower.ceiling))
            _within(lower, usage, prompt + read, f"proposal for task {task.id!r} within {lower.ceiling} tokens")
        expect(describe(task) == before, f"task {task.id!r} was changed")


def check_scorer(scorer: Callable[..., Any], tasks: Sequence[Task], outputs: Sequence[str]) -> None:
    """A number in [0, 1] for every task and output, the same when asked again."""
    for task in tasks:
        for output in outputs:
            score = _value(scorer(task, output)).value
            real = isinstance(score, Real) and not isinstance(score, bool)
            expect(real and 0 <= score <= 1, f"the score of task {task.id!r} is {score!r}: it is in [0, 1]")
            expect(_value(scorer(task, output)).value == score, f"the score of task {task.id!r} changes")


def _usage_below(ports: Ports, rendered: str, task: Task, output: str, command: Propose) -> Usage | None:
    """What a proposal used at a lower ceiling, cut off or not."""
    try:
        return _value(ask_for_change(ports, rendered, task, output, 0.0, command)).usage
    except CallFailed as error:
        expect(error.kind == "truncated", f"a reply that does not fit its ceiling is truncated, not {error.kind}")
        return error.usage


def _value(answer: Any) -> Answer:
    if inspect.iscoroutine(answer):
        answer = asyncio.run(answer)
    return answer if isinstance(answer, Answer) else Answer(answer)


def _within(rate: Rate, usage: Usage | None, prompt_bytes: int, what: str) -> None:
    checked(usage)
    if rate.strict and usage is not None:
        bound = worst(rate, prompt_bytes, 1)
        within = usage.tokens <= bound.tokens and usage.calls <= bound.calls
        expect(within, f"{what} used {usage}, and its strict tariff allows {bound.tokens} tokens, {bound.calls} calls")
