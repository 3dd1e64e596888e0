"""As many together as there are: what waits in a queue, and what several futures of a cluster came to."""

from __future__ import annotations

import queue
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def gathered(client: Any, futures: dict[int, Any]) -> dict[int, Any]:
    """Results by number, the errors of tasks among them, without those that there are none of."""
    try:
        found: dict[int, Any] = await client.gather(futures, errors="skip", asynchronous=True)
        for number, future in futures.items():
            if future.status == "error":
                found[number] = await future.exception()
    except Exception:  # the connection broke
        return {}
    return found


def drain(waiting: queue.SimpleQueue[T | None]) -> list[T] | None:
    """Everything that waits, at least one; None when the end does."""
    found = [waiting.get()]
    with suppress(queue.Empty):
        while True:
            found.append(waiting.get_nowait())
    kept = [one for one in found if one is not None]
    return kept if len(kept) == len(found) else None
