"""What a language model is to this package: one call, its worst case, and how it fails.

A call that fails raises CallFailed, with the kind that tells what to do about it:

    rate-limit   turned away (429, 503, 529), not billed; `retry_after` seconds, and it is repeated within the deadline
    provider     an error of the server or of the connection; the usage is unknown where it may have been billed
    timeout      no answer in time, or a stream that stalled; the usage is unknown
    empty        an answer without text; billed as it says
    truncated    cut off at its ceiling, or before it said why it ended; billed as it says
    malformed    an answer that is none: no JSON, no choices, not of the schema
    overflow     the prompt does not fit the context of the model, or what was reserved for it; not billed, and the same
                 prompt is not sent again
    contract     what the user has to mend (a wrong key, an unknown model): ends the run with its message; not billed

Unknown usage (None) is charged at the reservation.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from agentdescent.budget.tariff import Prices
from agentdescent.budget.usage import Usage
from agentdescent.ports import Repeat

Finish: TypeAlias = Literal["stop", "length", "filter", "unknown"]
"""Why an answer ended: of itself, at its ceiling, by a content filter, or the provider does not say."""


class Request(msgspec.Struct, frozen=True):
    """One call. `ceiling`: completion tokens at most, reasoning included; None is the model's own, which no call may
    exceed. `sample`: equal requests with another number may be answered otherwise. `schema`: the JSON schema of the
    answer, as JSON; None for free text. `prompt_limit`: tokens that were reserved for the prompt; a model that counts
    exactly refuses ("overflow") to send more; None: not limited."""

    user: str
    system: str = ""
    ceiling: int | None = None
    sample: int = 0
    schema: bytes | None = None
    prompt_limit: int | None = None


class Reply(msgspec.Struct, frozen=True):
    """What came back. `text` as it was sent, reasoning blocks included where the provider puts them there. `usage`:
    None when the provider did not say."""

    text: str
    finish: Finish
    usage: Usage | None


class Terms(msgspec.Struct, frozen=True):
    """What one call can cost at most: `overhead` + ceil(bytes / `bytes_per_token`) + `ceiling` tokens, the bytes being
    those of system and user text (and the schema) in UTF-8. `overhead`: tokens that the provider's template adds.
    `bytes_per_token` above 1 is a bound only where the model counts exactly and refuses what is longer. `strict`:
    the provider keeps to the ceiling and says what it bills. `prices`: None when unknown."""

    ceiling: int
    overhead: int = 64
    bytes_per_token: int = 1
    strict: bool = True
    prices: Prices | None = None


@runtime_checkable
class Model(Protocol):
    """`name` says all that changes an answer (model, parameters): it is part of what a resume must match."""

    @property
    def name(self) -> str: ...

    @property
    def terms(self) -> Terms: ...

    @property
    def repeat(self) -> Repeat: ...

    async def complete(self, request: Request) -> Reply:
        """Raises CallFailed as above, and nothing else."""
