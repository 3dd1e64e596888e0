"""What models cost: dollars per million tokens, by name, each with the day on which it was looked up.

Prices change, and depend on the contract: check them before `max_cost` is relied on, and give your own where they
differ, as `prices=` of a model or as a TOML table. No price is claimed for a server of one's own.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agentdescent.budget.tariff import Prices
from agentdescent.errors import UsageError


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars per million tokens. `cached`: of a prompt token out of the provider's cache; None: as the prompt.
    `as_of`: the day (YYYY-MM-DD) for which it was written down."""

    prompt: float
    completion: float
    cached: float | None = None
    as_of: str = ""

    def per_token(self) -> Prices:
        """In pico-dollars, rounded up, so that a worst case stays one."""
        prompt, completion = _pico("prompt", self.prompt), _pico("completion", self.completion)
        cached = None if self.cached is None else _pico("cached", self.cached)
        if cached is not None and cached > prompt:
            raise UsageError(
                f"the price cached is {self.cached}: it must not be above that of the prompt, {self.prompt}"
            )
        return Prices(prompt, completion, cached)


def _pico(name: str, dollars: float) -> int:
    if type(dollars) not in (int, float) or not (math.isfinite(dollars) and dollars >= 0):
        raise UsageError(f"the price {name} is {dollars!r}: it must be dollars per million tokens, at least 0")
    return math.ceil(round(dollars * 1_000_000, 6))


def _at(prompt: float, cached: float, completion: float, as_of: str) -> Price:
    return Price(prompt, completion, cached, as_of)


_OPENAI, _ANTHROPIC = "2026-06-20", "2026-10-10"
TABLE: Mapping[str, Price] = {
    "gpt-4o": _at(2.50, 1.25, 10.00, _OPENAI),
    "gpt-4o-mini": _at(0.15, 0.075, 0.60, _OPENAI),
    "gpt-4.1": _at(2.00, 0.50, 8.00, _OPENAI),
    "gpt-4.1-mini": _at(0.40, 0.10, 1.60, _OPENAI),
    "gpt-4.1-nano": _at(0.10, 0.025, 0.40, _OPENAI),
    "gpt-5": _at(1.25, 0.125, 10.00, _OPENAI),
    "gpt-5-mini": _at(0.25, 0.025, 2.00, _OPENAI),
    "gpt-5-nano": _at(0.05, 0.005, 0.40, _OPENAI),
    "claude-opus-4-5": _at(5.00, 0.50, 25.00, _ANTHROPIC),
    "claude-opus-4-6": _at(5.00, 0.50, 25.00, _ANTHROPIC),
    "claude-opus-4-7": _at(5.00, 0.50, 25.00, _ANTHROPIC),
    "claude-opus-4-8": _at(5.00, 0.50, 25.00, _ANTHROPIC),
    "claude-opus-5": _at(5.00, 0.50, 25.00, _ANTHROPIC),
    "claude-sonnet-4-5": _at(3.00, 0.30, 15.00, _ANTHROPIC),
    "claude-sonnet-4-6": _at(3.00, 0.30, 15.00, _ANTHROPIC),
    "claude-haiku-4-5": _at(1.00, 0.10, 5.00, _ANTHROPIC),
}
"""To be checked: from the providers' published lists, as of the day of each. Surcharges for long prompts, for what is
written to a cache, for regions and for speed are not in it."""
_OTHERWISE = frozenset(("gpt-4o-2024-05-13",))
"""Dated models that cost more than those of their name do now."""
_DATED = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")


def price_of(model: str, table: Mapping[str, Price]) -> Price | None:
    """By the name, also without its date ("-20251001", "-2025-10-01") or the provider before a slash."""
    for name in (model, model.rpartition("/")[2]):
        found = table.get(name) or (None if name in _OTHERWISE else table.get(_DATED.sub("", name)))
        if found is not None:
            return found
    return None


def prices_of(model: str, given: Prices | Price | Mapping[str, Price] | None) -> Prices | None:
    """What a model costs: as given, a mapping before the table here; None when nothing says so."""
    if isinstance(given, Prices):
        return given
    if not isinstance(given, Price | Mapping | None):
        raise UsageError(
            f"prices are {given!r}: give a Price(prompt=, completion=, cached=), or a mapping of them by name"
        )
    price = given if isinstance(given, Price) else price_of(model, {**TABLE, **(given or {})})
    if price is not None and not isinstance(price, Price):
        raise UsageError(f"prices of {model!r} are {price!r}: give a Price(prompt=, completion=, cached=)")
    return None if price is None else price.per_token()


def load_prices(path: str | Path) -> dict[str, Price]:
    """A TOML file of `["model"]` tables with prompt, completion, cached and as_of. Raises UsageError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return msgspec.convert(tomllib.loads(text), dict[str, Price])
    except OSError as error:
        raise UsageError(f"cannot read prices: {error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path} is no table of prices: {error}") from error
