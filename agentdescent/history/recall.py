"""What stopping gates by prediction has lost: estimated from those that were completed all the same, by chance.

A gate below the bar is completed with probability pi, the propensity of its choice. Weighting each such gate by 1 / pi
makes its gain stand for those that were stopped (Horvitz and Thompson 1952):

    loss = sum of gain (1 - pi) / pi  over  sum of gain / pi      over the gates that committed, pi = 1 above the bar

The interval is Wilson's for the share of commits among the gates completed by chance, times the gates stopped and the
mean gain of a commit: of those completed by chance, or of all, the smaller below and the larger above, since the few
that chance completed say little of how much a commit gains. Counts and sums of several runs add up. A union that was
stopped counts as lost although its parts go on, so the estimate errs upwards.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentdescent.engine.event import Decided, Event, Judged
from agentdescent.history.interval import Z95, wilson
from agentdescent.merge.verdict import FutilityEvidence, GateEvidence
from agentdescent.record import Record, replace


class Recall(Record, frozen=True):
    """`stopped` gates; `finished` all the same, by chance, and how many of those committed, with what `chance_gain` and
    with what `weighted` gain (1 - pi) / pi; `commits` and `gain` of all that committed. Gains in millionths of a task.
    `pending`: open candidates that go on by chance, with the propensity."""

    stopped: int = 0
    finished: int = 0
    finished_commits: int = 0
    chance_gain: int = 0
    weighted: float = 0.0
    commits: int = 0
    gain: int = 0
    pending: tuple[tuple[int, float], ...] = ()


def observe(recall: Recall, event: Event) -> Recall:
    if isinstance(event, Decided):
        choice = event.choice
        if choice is None or choice.stage != "finish" or choice.propensity == 1.0:
            return recall
        return replace(recall, pending=(*recall.pending, (event.subject, choice.propensity)))
    if not isinstance(event, Judged):
        return recall
    if isinstance(event.evidence, FutilityEvidence):
        return replace(recall, stopped=recall.stopped + 1)
    chance = next((propensity for subject, propensity in recall.pending if subject == event.subject), None)
    if chance is not None:
        rest = tuple(one for one in recall.pending if one[0] != event.subject)
        counted = isinstance(event.evidence, GateEvidence)  # else it was not completed after all
        recall = replace(recall, pending=rest, finished=recall.finished + counted)
    if event.outcome != "committed" or not isinstance(event.evidence, GateEvidence):
        return recall
    gain = event.evidence.gain - event.evidence.loss
    recall = replace(recall, commits=recall.commits + 1, gain=recall.gain + gain)
    if chance is None:
        return recall
    return replace(
        recall,
        finished_commits=recall.finished_commits + 1,
        chance_gain=recall.chance_gain + gain,
        weighted=recall.weighted + gain * (1.0 - chance) / chance,
    )


def recall_of(events: Iterable[Event]) -> Recall:
    recall = Recall()
    for event in events:
        recall = observe(recall, event)
    return recall


def pooled(recalls: Iterable[Recall]) -> Recall:
    """Several runs as one: where each is too short to tell."""
    total = Recall()
    for one in recalls:
        total = Recall(
            total.stopped + one.stopped,
            total.finished + one.finished,
            total.finished_commits + one.finished_commits,
            total.chance_gain + one.chance_gain,
            total.weighted + one.weighted,
            total.commits + one.commits,
            total.gain + one.gain,
        )
    return total


def loss(recall: Recall) -> float | None:
    """Estimated share, by gain, of would-be commits that were stopped, in [0, 1]; None where nothing can tell: gates
    were stopped and none was completed by chance."""
    if recall.stopped == 0:
        return 0.0
    if recall.finished == 0:
        return None
    total = recall.gain + recall.weighted
    return recall.weighted / total if total > 0.0 else 0.0


def interval(recall: Recall, z: float = Z95) -> tuple[float, float]:
    """For `loss`, by default of 95 %. (0, 1) where nothing can tell."""
    if recall.stopped == 0:
        return 0.0, 0.0
    if recall.finished == 0 or recall.commits == 0:
        return 0.0, 1.0
    won, of_all = recall.finished_commits, recall.gain / recall.commits
    of_chance = recall.chance_gain / won if won else of_all
    low, high = wilson(won / recall.finished, recall.finished, z)

    def share(rate: float, mean: float) -> float:
        lost = rate * recall.stopped * mean
        return lost / (lost + recall.gain) if lost > 0.0 else 0.0

    return share(low, min(of_chance, of_all)), share(high, max(of_chance, of_all))
