"""How long to wait before a call that was turned away is made again: what the provider says, else longer each time."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Mapping
from email.utils import parsedate_to_datetime

DEFAULT_WAIT = 1.0
"""Seconds before the first repetition, when the provider does not say."""
LONGEST_WAIT = 30.0
TRUSTED = 3
"""Repetitions that follow the provider's word alone; later ones also back off."""
GRACE = 3.0
"""Seconds that a server which never answered anything is given to be there."""
_REMEMBERED = 1_024


def told(headers: Mapping[str, str]) -> float | None:
    """Seconds that `retry-after-ms` or `retry-after` asks for (a number, or an HTTP date); None when neither does."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, until.timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def backoff(repetition: int) -> float:
    """Seconds before repetition 0, 1, ...: doubled each time, without chance."""
    return min(LONGEST_WAIT, DEFAULT_WAIT * 2.0 ** min(repetition, 16))


class Waits:
    """Counts how often equal calls were turned away in a row."""

    def __init__(self) -> None:
        self._refused: dict[Hashable, int] = {}

    def next(self, call: Hashable, asked: float | None) -> float:
        """Seconds to wait; `asked`: what the provider said."""
        repetition = self._refused.pop(call, 0)
        self._refused[call] = repetition + 1
        if len(self._refused) > _REMEMBERED:
            del self._refused[next(iter(self._refused))]
        if asked is None:
            return backoff(repetition)
        return asked if repetition < TRUSTED else max(asked, backoff(repetition - TRUSTED))

    def answered(self, call: Hashable) -> None:
        if self._refused:
            self._refused.pop(call, None)


class Reach:
    """Whether anybody ever answered."""

    def __init__(self) -> None:
        self._reached = False
        self._since: float | None = None

    def answered(self) -> None:
        self._reached = True

    def missed(self) -> bool:
        """No connection once more: True when there never was one, and has not been for GRACE."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return not self._reached and now - self._since >= GRACE
