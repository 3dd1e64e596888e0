"""Any callable is a Model: told what it takes, awaited where it must be, and what it returns and raises is read."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agentdescent import (
    Answer,
    CallBudget,
    CallFailed,
    EvolutionResult,
    RunError,
    Usage,
    UsageError,
    budgeted_completion,
    evolve,
)
from agentdescent.budget.tariff import Prices
from agentdescent_adapters.llm import LLMAgent, Template
from agentdescent_adapters.providers.calling import BlockingModel, as_model
from agentdescent_adapters.providers.model import Model, Reply, Request, Terms
from tests.adapters.scripted import TASKS, Right, Scripted

REQUEST = Request("user", "system", 9, 3, b'{"type":"object"}')
USED = Usage(prompt=2, completion=1)


def plain(prompt: str) -> str:
    return f"<{prompt}>"


async def awaited(prompt: str) -> str:
    return f"<{prompt}>"


def told(prompt: str, *, sample: int, ceiling: int | None = None, schema: Any = None) -> str:
    return repr((prompt, sample, ceiling, schema))


def apart(prompt: str, system: str) -> str:
    return repr((prompt, system))


def anything(*arguments: Any, **named: Any) -> str:
    return repr((arguments, named))


def run(agent: object, **options: Any) -> EvolutionResult:
    return evolve(TASKS, Right(), agent=agent, **{"rounds": 6, **options})


class Client:
    async def __call__(self, prompt: str, system: str = "") -> str:
        return f"<{prompt}|{system}>"


def ask(model: Model, request: Request = REQUEST) -> Reply:
    reply = asyncio.run(model.complete(request))
    if isinstance(model, BlockingModel):
        again = model.complete_blocking(request)
        assert (again if isinstance(again, Reply) else asyncio.run(_await(again))) == reply
    return reply


async def _await(reply: Awaitable[Reply]) -> Reply:
    return await reply


@pytest.mark.parametrize(
    ("function", "text", "blocking"),
    [
        (plain, "<system\n\nuser>", True),
        (awaited, "<system\n\nuser>", False),
        (functools.partial(awaited), "<system\n\nuser>", False),
        (lambda prompt: awaited(prompt), "<system\n\nuser>", True),
        (told, "('system\\n\\nuser', 3, 9, {'type': 'object'})", True),
        (apart, "('user', 'system')", True),
        (anything, "(('system\\n\\nuser',), {})", True),
        (Client(), "<user|system>", False),
        (str.upper, "SYSTEM\n\nUSER", True),
    ],
)
def test_a_callable_is_told_what_it_takes(function: Callable[..., Any], text: str, blocking: bool) -> None:
    model = as_model(function)
    assert isinstance(model, BlockingModel) is blocking
    assert ask(model) == Reply(text, "unknown", None)
    assert ask(as_model(plain), Request("user")).text == "<user>"


@pytest.mark.parametrize(
    ("value", "reply"),
    [
        ("text", Reply("text", "unknown", None)),
        (Answer("text", USED), Reply("text", "unknown", USED)),
        (Reply("text", "length", USED), Reply("text", "length", USED)),
        (None, Reply("", "unknown", None)),
        (Answer(None, USED), Reply("", "unknown", USED)),
    ],
)
def test_what_a_callable_returns(value: Any, reply: Reply) -> None:
    assert ask(as_model(lambda prompt: value)) == reply


@pytest.mark.parametrize(
    ("error", "kind", "usage"),
    [
        (CallFailed("truncated", "cut", USED), "truncated", USED),
        (TimeoutError("slow"), "timeout", None),
        (OSError("gone"), "provider", None),
        (UsageError("wrong key"), "contract", Usage(calls=0)),
    ],
)
def test_what_a_callable_raises_is_a_failed_call(error: Exception, kind: str, usage: Usage | None) -> None:
    def fails(prompt: str) -> str:
        raise error

    async def fails_later(prompt: str) -> str:
        raise error

    for function in (fails, fails_later, lambda prompt: fails_later(prompt)):
        with pytest.raises(CallFailed, match=str(error)) as caught:
            asyncio.run(as_model(function).complete(REQUEST))
        assert (caught.value.kind, caught.value.usage) == (kind, usage)


@pytest.mark.parametrize("value", [3, b"text", Answer(3, USED), ["text"]])
def test_what_is_no_text_breaks_the_contract(value: Any) -> None:
    with pytest.raises(CallFailed, match="return text") as caught:
        ask(as_model(lambda prompt: value))
    assert caught.value.kind == "contract"


def test_terms_are_promised_with_a_ceiling_and_observed_without() -> None:
    prices = Prices(1, 2)
    assert as_model(plain).terms == Terms(0, 66, strict=False)
    assert as_model(plain, ceiling=9, overhead=0, prices=prices).terms == Terms(9, 2, prices=prices)
    assert as_model(apart, ceiling=9, overhead=0).terms == Terms(9, 0)
    assert as_model(plain).name.endswith("test_llm_calling.plain")
    assert as_model(plain, name="mine", repeat="free").repeat == "free"


def test_an_exact_counter_refuses_what_was_not_reserved() -> None:
    sent = list[str]()

    def words(prompt: str, schema: Any) -> str:
        sent.append(prompt)
        return "fine"

    model = as_model(words, ceiling=9, overhead=1, bytes_per_token=4, count=lambda text: len(text.split()))
    agent = LLMAgent(model, solve="{artifact} {task}", proposer=lambda *_: None)
    assert agent.tariff.solve.overhead == 1 + 2 + 1
    assert agent.tariff.solve.bytes_per_token == 4
    assert asyncio.run(model.complete(Request("a b", prompt_limit=5))).text == "fine"
    for request in (Request("a b c", prompt_limit=5), Request("a b", schema=b"{}", prompt_limit=5)):
        with pytest.raises(CallFailed, match="the prompt is 6 tokens, and 5 were reserved") as caught:
            asyncio.run(model.complete(request))
        assert (caught.value.kind, caught.value.usage) == ("overflow", Usage(calls=0))
    assert sent == ["a b"]
    with pytest.raises(CallFailed, match="were reserved"):
        agent.solve("a " * 40, TASKS[0])


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (3, {}, "cannot be called"),
        (lambda: "", {}, r"must accept \(prompt\)"),
        (lambda prompt, more: "", {}, r"must accept \(prompt\)"),
        (plain, {"ceiling": 0}, "ceiling is 0"),
        (plain, {"ceiling": 1.5}, r"ceiling is 1\.5"),
        (plain, {"overhead": -1}, "overhead is -1"),
        (plain, {"bytes_per_token": 0}, "bytes_per_token is 0"),
        (plain, {"ceiling": 9, "bytes_per_token": 4}, "give count="),
        (Scripted(), {"ceiling": 9}, "says its own terms"),
    ],
)
def test_what_cannot_be_is_named(function: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        as_model(function, **options)


def test_a_model_is_itself() -> None:
    model = Scripted()
    assert as_model(model) is model


def test_a_ceiling_for_a_callable_that_cannot_be_told_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be told: give it a parameter named `ceiling`"):
        LLMAgent(as_model(plain, ceiling=9), solve_ceiling=5)
    assert LLMAgent(as_model(plain, ceiling=9), solve_ceiling=9).tariff.solve.ceiling == 9


# --- in whole runs ----------------------------------------------------------------------------------------------------


def test_a_budgeted_completion_is_a_model() -> None:
    """Field case 35: one client per ceiling, and the tokens of each call once."""
    model, made = Scripted(ceiling=256), list[int]()

    def client(ceiling: int) -> Callable[[str], Answer]:
        made.append(ceiling)

        def complete(prompt: str) -> Answer:
            head, _, tail = prompt.rpartition("\n\nmess")
            reply = model.reply(Request(prompt if not head else f"mess{tail}", head, ceiling))
            return Answer(reply.text, reply.usage)

        return complete

    budget = CallBudget(256, 64)
    complete = as_model(budgeted_completion(client, budget), name="budgeted", ceiling=256)
    agent = LLMAgent(complete, solve=Template("{task}", "{artifact}"), solve_ceiling=16)
    result = run(agent, max_tokens=100_000, call_budget=budget)
    assert result.spend.total.tokens == model.billed <= 100_000
    assert (result.final, result.base) == (1.0, 0.0)
    assert len(made) == len(set(made)) == len({r.ceiling for r in model.asked}) >= 2


def test_a_callable_without_terms_is_observed_and_needs_to_say_what_it_uses() -> None:
    model = Scripted()

    def complete(prompt: str, system: str) -> Answer:
        reply = model.reply(Request(prompt, system))
        return Answer(reply.text, reply.usage)

    agent = LLMAgent(complete)
    assert not agent.tariff.solve.strict
    result = run(agent, max_tokens=60_000)
    assert result.spend.total.tokens == model.billed <= 60_000
    assert result.final == 1.0
    with pytest.raises(UsageError, match="does not take `ceiling`"):
        run(agent, max_tokens=60_000, call_budget=CallBudget(64))
    with pytest.raises(RunError, match="reported its tokens"):
        run(LLMAgent(lambda prompt: "dunno"), max_tokens=60_000)
