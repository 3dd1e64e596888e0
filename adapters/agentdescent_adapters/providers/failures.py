"""What an HTTP answer other than success means, and what it may have cost: decision 0008.

4xx, 503 and 529 were not billed; another 5xx, a dropped connection and a half-sent answer may have been.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from agentdescent.budget.usage import Usage
from agentdescent.engine.event import FailureKind
from agentdescent.ports import CallFailed
from agentdescent_adapters.providers.waiting import told

UNBILLED = Usage()
"""A call that was turned away: one call, no tokens."""
NOT_MADE = Usage(calls=0)
"""A call that was not made at all."""
_TURNED_AWAY = (429, 503, 529)
_OVERFLOW_CODES = ("context_length_exceeded", "exceed_context_size_error", "request_too_large")
_OVERFLOW_WORDS = (
    "prompt is too long",
    "maximum context length",
    "context size",
    "context length",
    "context window",
    "too many tokens",
)
_FILTERED = ("content_filter", "content_policy_violation", "moderation_blocked")
_UNPAID = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
_QUOTED = 300
_TELLING = 8
"""Characters of a key at least: what is shorter is a placeholder, and may be part of any word."""


class TurnedAway(Exception):
    """A call that was certainly not billed and may be repeated. `asked`: seconds that the provider asks to wait."""

    def __init__(self, kind: FailureKind, message: str, asked: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.asked = asked

    def after(self, seconds: float) -> CallFailed:
        return CallFailed(self.kind, str(self), UNBILLED, retry_after=seconds)


class Place(NamedTuple):
    """Where a model is asked, for messages. `key_env`: the environment variable with the key; `key`: what no message
    may hold."""

    url: str
    model: str
    key_env: str
    key: str = ""

    def quoted(self, body: bytes) -> bytes:
        """What a server says, without the key: some repeat it."""
        return body.replace(self.key.encode(), b"...") if len(self.key) >= _TELLING else body


class Problem(msgspec.Struct, frozen=True):
    """What a provider says is wrong: `codes` are its type and code, `message` its words."""

    codes: tuple[str, ...]
    message: str


class _Detail(msgspec.Struct, frozen=True):
    message: str | None = None
    type: str | None = None
    code: str | int | None = None


class _Body(msgspec.Struct, frozen=True):
    error: _Detail | str | None = None
    message: str | None = None
    detail: object = None


def problem_of(body: bytes) -> Problem:
    """Reads the error of any format; what is none of them is quoted."""
    quoted = body[:_QUOTED].decode("utf-8", "replace").strip()
    try:
        said = msgspec.json.decode(body, type=_Body)
    except msgspec.MsgspecError:
        return Problem((), quoted)
    error = said.error
    if isinstance(error, _Detail):
        codes = tuple(str(code) for code in (error.type, error.code) if code is not None)
        return Problem(codes, (error.message or quoted)[:_QUOTED])
    return Problem((), (error or said.message or quoted)[:_QUOTED])


def refusal(status: int, headers: Mapping[str, str], body: bytes, place: Place) -> CallFailed | TurnedAway:
    """The failure that a status other than 2xx stands for. `headers` by lower-case name."""
    problem = problem_of(place.quoted(body))
    said = f"{place.url} answered {status}: {problem.message or 'no reason given'}"
    if _any(problem.codes, _UNPAID):
        return CallFailed("contract", f"{said} (add credit to the account, or use another key)", UNBILLED)
    if status in _TURNED_AWAY:
        return TurnedAway("rate-limit", said, told(headers))
    if _overflows(status, problem):
        return CallFailed("overflow", said, UNBILLED)
    if status == 408:
        return CallFailed("timeout", said)
    if status >= 500 or status == 409:
        return CallFailed("provider", said)
    if _any(problem.codes, _FILTERED):
        return CallFailed("provider", said, UNBILLED)
    return CallFailed("contract", f"{said} ({_remedy(status, place)})", UNBILLED)


def _any(codes: tuple[str, ...], known: tuple[str, ...]) -> bool:
    return any(code in known for code in codes)


def _overflows(status: int, problem: Problem) -> bool:
    if status == 413:
        return True
    words = problem.message.lower()
    return status in (400, 422) and (
        _any(problem.codes, _OVERFLOW_CODES) or any(word in words for word in _OVERFLOW_WORDS)
    )


def _remedy(status: int, place: Place) -> str:
    if status in (401, 403):
        return f"give api_key=, or set {place.key_env} to a key that may use {place.model!r}"
    if status == 402:
        return "add credit to the account, or use another key"
    if status in (404, 405):
        return f"check the model {place.model!r} and base_url"
    if 300 <= status < 400:
        return "give the address it redirects to as base_url"
    return f"check the parameters of {place.model!r}"


def unreachable(place: Place, reason: str) -> CallFailed:
    """Nobody there ever answered: what the user has to mend."""
    return CallFailed(
        "contract",
        f"cannot reach {place.url}: {reason} (start the server, or check base_url and the network)",
        UNBILLED,
    )


def unconnected(place: Place, reason: str) -> TurnedAway:
    """No connection, so nothing was sent."""
    return TurnedAway("provider", f"cannot connect to {place.url}: {reason}")


def dropped(place: Place, reason: str) -> CallFailed:
    """The connection broke when the call may have been made already."""
    return CallFailed("provider", f"the connection to {place.url} broke: {reason}")


def late(place: Place, reason: str) -> CallFailed:
    return CallFailed("timeout", f"{place.url}: {reason}")


def reported(raw: bytes, usage: Usage | None = None) -> CallFailed:
    """An error in place of an answer that began with success: it may have been billed."""
    return CallFailed("provider", f"an error in place of an answer: {problem_of(raw).message}", usage)


def truncated(usage: Usage | None = None) -> CallFailed:
    return CallFailed("truncated", "the stream ended without saying why the answer did", usage)


def malformed(what: str, usage: Usage | None = None) -> CallFailed:
    return CallFailed("malformed", what, usage)
