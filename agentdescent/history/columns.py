"""A log as rows and as columns, for notebooks: one for each answer, with what it was asked for and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from agentdescent.engine.command import Propose
from agentdescent.engine.event import Abandoned, Event, Failed, Proposed, RolledOut
from agentdescent.engine.population import dev_head
from agentdescent.engine.window import find
from agentdescent.history.fold import folded
from agentdescent.history.rounds import mean
from agentdescent.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Answered(Record, frozen=True):
    """One answered call. `event`: its number in the log. `subject`, `worker`: -1 for none. `task`: its id. `score` in
    [0, 1], None where nothing was scored. `failure`: the kind, "" for none. `prompt`, `cached`, `completion`: tokens as
    reported, 0 where they were not; `spent`: tokens of the run so far. `version`, `reward`: of the head after it."""

    event: int
    command: int
    purpose: str
    subject: int
    worker: int
    round: int
    attempt: int
    task: str
    artifact: str
    score: float | None
    failure: str
    prompt: int
    cached: int
    completion: int
    spent: int
    version: int
    reward: float


def records(events: Iterable[Event]) -> Iterator[Answered]:
    """In the order of the log. Raises CorruptLog when it does not begin with Started."""
    for number, (event, before, after) in enumerate(folded(events)):
        if not isinstance(event, RolledOut | Proposed | Failed | Abandoned):
            continue
        decided = find(before.window, event.id)
        command = decided.command
        usage = None if isinstance(event, Abandoned) else event.usage
        failure = event.kind if isinstance(event, Failed) else "abandoned" if isinstance(event, Abandoned) else ""
        yield Answered(
            number,
            event.id,
            "propose" if isinstance(command, Propose) else command.purpose,
            decided.subject,
            decided.worker % after.spec.n_workers if decided.worker >= 0 else -1,
            decided.round,
            decided.attempt,
            after.setup.tasks[command.task].id,
            command.artifact,
            event.score / 1_000_000 if isinstance(event, RolledOut) else None,
            failure,
            0 if usage is None else usage.prompt,
            0 if usage is None else usage.cached,
            0 if usage is None else usage.completion,
            after.governor.spent.tokens,
            dev_head(after).version.number,
            mean(after),
        )


def columns(events: Iterable[Event]) -> dict[str, NDArray[Any]]:
    """The records as one numpy array a field, shape (answers,): integers, floats (`score` NaN for None), text.

    `pandas.DataFrame(columns(log.events()))` and `polars.DataFrame(...)` take it as it is.
    """
    import numpy as np

    rows = list(records(events))
    kinds = {"int": np.int64, "str": np.str_}
    return {
        name: np.array([_number(getattr(row, name)) for row in rows], kinds.get(kind, np.float64))
        for name, kind in Answered.__annotations__.items()
    }


def _number(value: object) -> object:
    return float("nan") if value is None else value
