"""What calls of an adapter consumed. GEPA's protocol does not say: a counter is read before and after.

A counter is a callable without arguments that returns what was consumed so far, as Usage. Where the adapter is called
from one thread at a time, which is the default, one counter of all models is exact. One that counts for each thread by
itself says so with `per_thread = True`, and goes with several.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from agentdescent.budget.usage import Usage
from agentdescent.errors import UsageError
from agentdescent.record import replace

Counter: TypeAlias = Callable[[], Usage]
NOTHING = Usage(calls=0)
CACHED = Usage(calls=0, hits=1)


def plus(a: Usage, b: Usage) -> Usage:
    """The usage of two calls; the cost unknown when that of either is."""
    cost = None if a.cost is None or b.cost is None else a.cost + b.cost
    return Usage(
        a.prompt + b.prompt, a.completion + b.completion, a.cached + b.cached, a.calls + b.calls, cost, a.hits + b.hits
    )


def _minus(a: Usage, b: Usage) -> Usage:
    cost = None if a.cost is None or b.cost is None else a.cost - b.cost
    return Usage(
        a.prompt - b.prompt, a.completion - b.completion, a.cached - b.cached, a.calls - b.calls, cost, a.hits - b.hits
    )


class Bill:
    """What one effect consumes: what the counter says of it, and what answers say of themselves."""

    def __init__(self, counter: Counter | None) -> None:
        self._counter = counter
        self._before = _read(counter) if counter is not None else None
        self._calls = 0
        self._told: Usage | None = None
        self._silent = False

    def counted(self) -> None:
        """A call was made whose tokens only the counter knows."""
        self._calls += 1

    def told(self, usage: Usage | None) -> None:
        """A call was made that says what it used, or that it does not know; the counter does not count it."""
        if usage is None:
            self._silent = True
        else:
            self._told = usage if self._told is None else plus(self._told, usage)

    @property
    def made(self) -> bool:
        """Whether anything was called that may be billed."""
        return self._silent or self._told is not None or self._calls > 0

    def total(self) -> Usage | None:
        """None when any of it is unknown. Where nothing was called, the answer is one out of a cache: it cost nothing,
        and says nothing of what the next may cost."""
        if not self.made:
            return CACHED
        if self._silent or (self._calls and self._counter is None):
            return None
        if not self._calls:
            return self._told or NOTHING
        used = self._since()
        return used if self._told is None else plus(used, self._told)

    def _since(self) -> Usage:
        if self._counter is None or self._before is None:
            return NOTHING
        used = _minus(_read(self._counter), self._before)
        if min(used.prompt, used.completion, used.cached, used.hits, 0 if used.cost is None else used.cost) < 0:
            raise UsageError(f"usage= went down by {used}: it must return all that was consumed so far")
        return replace(used, calls=max(self._calls, used.calls))


def _read(counter: Counter) -> Usage:
    found = counter()
    if not isinstance(found, Usage):
        raise UsageError(f"usage= returned {type(found).__name__}: return a Usage(prompt=..., completion=...) so far")
    return found


class UsageCounter:
    """A counter for models of one's own: call `add` beside each call of the model. Counts for each thread by itself."""

    per_thread = True

    def __init__(self) -> None:
        self._local = threading.local()

    def add(self, *, prompt: int, completion: int, cached: int = 0) -> None:
        """Tokens of one call, as Usage has them. In the thread in which the adapter was called."""
        self._local.usage = plus(self(), Usage(prompt, completion, cached))

    def __call__(self) -> Usage:
        found: Usage = getattr(self._local, "usage", NOTHING)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return UsageCounter, ()


def lm_usage(*lms: object) -> Counter:
    """The counter of `gepa.lm.LM` (by its totals) and of `dspy.LM` (by its history, which must be kept), together.

    Every model that the adapter or a plain `reflection_lm` calls, each once. UsageError for another kind of model.
    """
    return _Lms(tuple({id(lm): lm for lm in lms}.values()))


class _Lms:
    def __init__(self, lms: tuple[object, ...]) -> None:
        self._readers = tuple(_reader(lm) for lm in lms)
        if not self._readers:
            raise UsageError("lm_usage() counts nothing: give it the models that are called")

    def __call__(self) -> Usage:
        total = NOTHING
        for reader in self._readers:
            total = plus(total, reader())
        return total


def _reader(lm: object) -> Counter:
    if hasattr(lm, "total_tokens_in") and hasattr(lm, "total_tokens_out"):
        return _Totals(lm)
    if isinstance(getattr(lm, "history", None), list):
        return _History(lm)
    raise UsageError(f"lm_usage cannot read {type(lm).__name__}: write usage=, a function that returns Usage so far")


class _Totals:
    """A `gepa.lm.LM`."""

    def __init__(self, lm: Any) -> None:
        self._lm = lm

    def __call__(self) -> Usage:
        return Usage(int(self._lm.total_tokens_in), int(self._lm.total_tokens_out), calls=0)


class _History:
    """A `dspy.LM`. Its history forgets the oldest entries: what was read is added up here."""

    def __init__(self, lm: Any) -> None:
        self._lm = lm
        self._last: object = None
        self._total = NOTHING
        self._lock = threading.Lock()

    def __call__(self) -> Usage:
        with self._lock:
            entries = tuple(self._lm.history)
            for entry in reversed(entries):
                if entry is self._last:
                    break
                self._total = plus(self._total, _usage_of(entry))
            self._last = entries[-1] if entries else self._last
            return self._total

    def __reduce__(self) -> tuple[Any, ...]:
        return _History, (self._lm,)


def _usage_of(entry: Mapping[str, Any]) -> Usage:
    """Of one entry; a cached answer has none, and cost nothing."""
    usage = entry.get("usage") or {}
    prompt, completion = (int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens"))
    details = usage.get("prompt_tokens_details")
    cached = int(details.get("cached_tokens") or 0) if isinstance(details, Mapping) else 0
    return Usage(prompt, completion, min(cached, prompt))
