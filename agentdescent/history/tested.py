"""The test part, which no decision reads: how the start and the final artifact did on it."""

from __future__ import annotations

from agentdescent.engine.population import dev_head
from agentdescent.engine.state import State
from agentdescent.history.interval import wilson
from agentdescent.merge.scores import Scores
from agentdescent.record import Record


class Tested(Record, frozen=True):
    """Means in [0, 1] and the 95 % Wilson interval of `final`; None where no test task was asked."""

    base: float | None
    final: float | None
    interval: tuple[float, float] | None
    tasks: int = 0


def mean_of(scores: Scores | None) -> float | None:
    return scores.total / (1_000_000 * scores.count) if scores is not None and scores.count else None


def tested(state: State) -> Tested:
    version = dev_head(state).version
    found = state.test_final if state.tested == version.artifact and state.test_final else None
    final_scores = found if version.number else state.test_base
    final = mean_of(final_scores)
    interval = None if final_scores is None or final is None else wilson(final, final_scores.count)
    return Tested(mean_of(state.test_base), final, interval, len(state.split.test))
