"""What a call can cost at most: the terms of a model, and the text that is in every prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentdescent.budget.tariff import Prices, Rate
from agentdescent.budget.usage import Usage
from agentdescent.errors import UsageError
from agentdescent_adapters.providers.calling import OPTIONAL
from agentdescent_adapters.providers.model import Model, Terms

NO_CALL = Rate(strict=True, calls=0, prices=Prices(0, 0, 0))
"""Of proposals that call no model."""
FREE = Usage(calls=0)
"""What such a proposal consumed."""

SEAM = 1
"""Tokens that a piece of text may take more between others than by itself."""


def size(text: str) -> int:
    """UTF-8 bytes; what cannot be written as such is a question mark."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def cut(text: str, limit: int) -> str:
    """The first `limit` bytes of a text, less an unfinished character."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def takes(model: Model) -> frozenset[str]:
    """Which of OPTIONAL reach it. A callable takes what it has parameters for, any other model everything."""
    found = getattr(model, "takes", OPTIONAL)
    return found if isinstance(found, frozenset) else OPTIONAL


def ceiling_of(model: Model, wanted: int | None, role: str) -> int:
    """Completion tokens of a call at most; 0: nothing says so. Raises UsageError for what the model cannot promise."""
    own = model.terms.ceiling
    if wanted is None or wanted == own:
        return own
    if type(wanted) is not int or wanted < 1:
        raise UsageError(f"{role} is {wanted!r}: it must be a positive whole number of tokens, or left out")
    if own and wanted > own:
        raise UsageError(f"{role} is {wanted}, and {model.name} gives at most {own} tokens: lower it, or raise that")
    if "ceiling" not in takes(model):
        raise UsageError(f"{role} is {wanted}, but {model.name} cannot be told: give it a parameter named `ceiling`")
    return wanted


def rate_of(model: Model, ceiling: int, text: Iterable[str], more: int, schema: bytes | None) -> Rate:
    """Of prompts with the pieces `text` in them and at most `more` bytes besides the artifact, the task and the output.

    Where the model counts exactly, the pieces are counted, else bounded by their bytes.
    """
    terms = model.terms
    sent = (*text, *(() if schema is None else (schema.decode(),)))
    count = getattr(model, "count", None)
    fixed = _counted(count, sent) if callable(count) else None
    extra = more if fixed is not None else more + sum(map(size, sent))
    overhead = terms.overhead + (fixed or 0) + -(-extra // terms.bytes_per_token)
    return Rate(terms.strict, overhead, terms.bytes_per_token, ceiling, 1, terms.prices)


def prompt_limit(terms: Terms, rate: Rate, data: int) -> int | None:
    """Tokens reserved for a prompt with so many bytes of artifact, task and output; None when none are promised."""
    return rate.overhead + -(-data // rate.bytes_per_token) if terms.strict else None


def _counted(count: Callable[[str], int], texts: Iterable[str]) -> int:
    return sum(count(text) + SEAM for text in texts)
