"""The worst case of a call, computed before it is made. Everything here is integer arithmetic."""

from __future__ import annotations

from agentdescent.budget.usage import Amount, Usage
from agentdescent.record import Record


class Prices(Record, frozen=True):
    """Pico-dollars per token (a dollar per million tokens is 1,000,000)."""

    prompt: int
    completion: int
    cached: int | None = None


class Rate(Record, frozen=True):
    """What one kind of effect can cost at most.

    tokens <= overhead + ceil(bytes / bytes_per_token) + ceiling, where `bytes` are the UTF-8 bytes that
    enter the prompt. `bytes_per_token` = 1 bounds any byte-level tokeniser. `calls` is how many calls of
    the provider one effect makes at most; 0 in a strict rate of
    proposals: they call none, and cost nothing. `strict`: the bound is a promise, and breaking it ends the run.
    Not strict (*observed*): the port promises nothing; twice the largest cost seen is reserved.
    """

    strict: bool = False
    overhead: int = 0
    bytes_per_token: int = 1
    ceiling: int = 0
    calls: int = 1
    prices: Prices | None = None


class Tariff(Record, frozen=True):
    """`solve`: one solve and its score. `propose`: one proposal, whose prompt holds at most
    `output_limit` bytes of the output it explains."""

    solve: Rate = Rate()
    propose: Rate = Rate()
    output_limit: int = 65_536


def cost(prices: Prices | None, usage: Usage) -> int:
    """Nano-dollars of a usage, rounded up; what the provider stated wins; 0 when nothing is known."""
    if usage.cost is not None:
        return usage.cost
    if prices is None:
        return 0
    cached = prices.prompt if prices.cached is None else prices.cached
    pico = (usage.prompt - usage.cached) * prices.prompt + usage.cached * cached + usage.completion * prices.completion
    return -(-pico // 1000)


def worst(rate: Rate, prompt_bytes: int, rollouts: int, ceiling: int | None = None) -> Amount:
    """The most that one effect under a strict rate can consume; `ceiling`: that of the call, where it has its own."""
    if not rate.calls:
        return Amount(rollouts=rollouts)
    prompt = rate.overhead + -(-prompt_bytes // rate.bytes_per_token)
    completion = rate.ceiling if ceiling is None else ceiling
    return Amount(
        prompt + completion,
        cost(rate.prices, Usage(prompt=prompt, completion=completion)),
        rate.calls,
        rollouts,
    )
