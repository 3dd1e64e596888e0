"""A GET over HTTP that waits as it is told, and ends."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.utils import parsedate_to_datetime

import msgspec

from agentdescent.errors import RunError, UsageError

PASSING = frozenset({408, 425, 429})
"""Statuses below 500 after which the same request may succeed."""

_QUIET = 30.0
"""Seconds without a byte after which a connection counts as dropped."""

_LONGEST_PAUSE = 30.0


class _Passing(Exception):
    """What may be over by the next attempt; `after` seconds, if the server said."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


def fetch(
    url: str,
    remedy: str,
    *,
    deadline: float = 60.0,
    attempts: int = 5,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bytes:
    """The body at `url`, whole. 429, 5xx and dropped connections are tried again, after Retry-After or 0.5, 1, 2, ...
    seconds, while attempts and `deadline` (seconds in all) last; RunError then. Any other status is a UsageError that
    ends in `remedy`."""
    if not url.startswith(("http://", "https://")) or not url.isprintable() or " " in url:
        raise UsageError(f"{url!r} is no address: give one that begins with http:// or https://")
    end = clock() + deadline
    for attempt in range(1, attempts + 1):
        try:
            return _get(url, remedy, end, clock)
        except _Passing as fault:
            pause = min(0.5 * 2 ** (attempt - 1), _LONGEST_PAUSE) if fault.after is None else fault.after
            if attempt == attempts or clock() + pause >= end:
                asked = "" if fault.after is None else f", asked to wait {fault.after:g} s"
                raise RunError(
                    f"{url}: {fault}{asked}: gave up after attempt {attempt} of {attempts} "
                    f"and at most {deadline:g} s: check the network and try again later"
                ) from fault
            sleep(pause)
    raise UsageError(f"{url}: {attempts} attempts: allow at least 1")


def _get(url: str, remedy: str, end: float, clock: Callable[[], float]) -> bytes:
    request = urllib.request.Request(url, headers={"User-Agent": "agentdescent"})
    try:
        with urllib.request.urlopen(request, timeout=_left(end, clock)) as response:
            return _body(response, end, clock)
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(url, remedy, error) from error
    except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
        raise _Passing(f"the connection failed ({_reason(error)})") from error


def _body(response: http.client.HTTPResponse, end: float, clock: Callable[[], float]) -> bytes:
    """Everything, by pieces: the deadline holds for a body that trickles, and a length that was promised is kept."""
    promised = response.getheader("Content-Length")
    length = int(promised) if promised is not None and promised.isdecimal() else None
    pieces: list[bytes] = []
    while piece := response.read1(1 << 20):
        pieces.append(piece)
        if clock() >= end:
            raise TimeoutError("the deadline passed in the middle of the body")
    body = b"".join(pieces)
    if length is not None and len(body) < length:
        raise ConnectionError(f"closed after {len(body)} of {length} bytes")
    return body


def _refused(url: str, remedy: str, error: urllib.error.HTTPError) -> Exception:
    message = f"HTTP {error.code} ({_explanation(error)})"
    if error.code in PASSING or error.code >= 500:
        return _Passing(message, _retry_after(error.headers.get("Retry-After")))
    return UsageError(f"{url}: {message}: {remedy}")


def _explanation(error: urllib.error.HTTPError) -> str:
    """What the server says is wrong, in one line of at most 300 characters."""
    try:
        body = error.read(4096)
    except (OSError, http.client.HTTPException):
        body = b""
    try:
        said = msgspec.json.decode(body, type=dict[str, object]).get("error")
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = None
    return " ".join(said.split())[:300] if isinstance(said, str) else str(error.reason)


def _retry_after(header: str | None) -> float | None:
    """Seconds to wait; the header holds a number of them, or a date."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None


def _left(end: float, clock: Callable[[], float]) -> float:
    return max(0.1, min(_QUIET, end - clock()))


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return " ".join(str(reason).split()) or type(error).__name__
