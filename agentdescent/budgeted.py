"""One client per distinct ceiling, for providers whose clients fix the completion ceiling when they are made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from agentdescent.budget.call_budget import CallBudget, check
from agentdescent.errors import UsageError

R = TypeVar("R")


class Budgeted(Generic[R]):
    """`complete(prompt)` at the base ceiling, `complete(prompt, ceiling)` at the ceiling of a command. May be called
    from several threads: the ceiling belongs to the call, and nothing about it is remembered but the clients."""

    def __init__(self, factory: Callable[[int], Callable[[str], R]], budget: CallBudget) -> None:
        self._factory = factory
        self._base = budget.base
        self._clients: dict[int, Callable[[str], R]] = {}
        self._lock = threading.Lock()

    def __call__(self, prompt: str, ceiling: int | None = None) -> R:
        wanted = self._base if ceiling is None else ceiling
        if not 1 <= wanted <= self._base:
            raise UsageError(f"a ceiling of {wanted} tokens: it must be from 1 to the base of the budget, {self._base}")
        with self._lock:
            client = self._clients.get(wanted)
            if client is None:
                client = self._clients[wanted] = self._factory(wanted)
        return client(prompt)


def budgeted_completion(factory: Callable[[int], Callable[[str], R]], budget: CallBudget) -> Budgeted[R]:
    """`factory(max_tokens)` makes a client with that ceiling; it is called once for each distinct one.

    Ceilings are multiples of 16, so there are at most base / 16 + 1 clients. Raises UsageError for an impossible
    budget.
    """
    check(budget)
    return Budgeted(factory, budget)
