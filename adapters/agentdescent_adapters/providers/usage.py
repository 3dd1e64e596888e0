"""One meaning for what providers count: the prompt includes what came from a cache, the completion reasoning."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from agentdescent.budget.usage import Usage

Counts = TypeVar("Counts", bound=msgspec.Struct)


def counts(raw: msgspec.Raw, shape: type[Counts]) -> Counts | None:
    """The counts that a provider states; None where it states none, or what cannot be read."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.MsgspecError:
        return None


def given(raw: msgspec.Raw) -> bool:
    """Whether a field is there, and not null."""
    return bytes(raw) not in (b"", b"null")


def usage_of(prompt: int | None, completion: int | None, cached: int | None = None) -> Usage | None:
    """The usage of one call; None when either count is missing or cannot be one: a prompt is never empty."""
    if prompt is None or completion is None or prompt <= 0 or completion < 0:
        return None
    return Usage(prompt=prompt, completion=completion, cached=min(prompt, max(0, cached or 0)))
