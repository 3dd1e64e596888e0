"""Evaluations whose trajectories a proposal may soon ask for: bounded, and never the truth."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from agentdescent_adapters.gepa.contract import Evaluation

LIMIT = 256


class Traces:
    """The last LIMIT evaluations, by what was run on what, each with the output that the log has of it.

    One is given back only for that very output: what a proposal is about, and no later repetition of it. A copy in
    another process is empty.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._kept: OrderedDict[tuple[str, str], tuple[str, Evaluation]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, rendered: str, task: str, output: str, found: Evaluation) -> None:
        with self._lock:
            self._kept[rendered, task] = (output, found)
            self._kept.move_to_end((rendered, task))
            if len(self._kept) > self._limit:
                self._kept.popitem(last=False)

    def get(self, rendered: str, task: str, output: str) -> Evaluation | None:
        """`output` may be cut off at the end, as it is for a proposal."""
        with self._lock:
            kept, found = self._kept.get((rendered, task), ("", None))
        return found if found is not None and kept.startswith(output) else None

    def __reduce__(self) -> tuple[Any, ...]:
        return Traces, (self._limit,)
