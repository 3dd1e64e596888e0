"""One artifact being scored on a list of positions: what was asked, what is open, what must be asked again."""

from __future__ import annotations

from agentdescent.merge.scores import Scores, record
from agentdescent.merge.verdict import FailureEvidence
from agentdescent.record import Record, replace


class Slot(Record, frozen=True):
    """A position to ask for; `attempt` counts its failures."""

    position: int
    attempt: int = 0


class Probe(Record, frozen=True):
    """Positions are asked in `order`, at most `limit` of them so far; `failure`: a slot that stays empty."""

    order: tuple[int, ...]
    limit: int
    scores: Scores
    asked: int = 0
    open: int = 0
    again: tuple[Slot, ...] = ()
    failure: FailureEvidence | None = None


def next_slot(probe: Probe) -> Slot | None:
    """What to ask for next; failed slots first; nothing once a slot has failed for good."""
    if probe.failure is not None:
        return None
    if probe.again:
        return probe.again[0]
    if probe.asked < probe.limit:
        return Slot(probe.order[probe.asked])
    return None


def ask(probe: Probe, attempt: int) -> Probe:
    """The next slot is being asked for: the oldest failed one, else the next in order."""
    if probe.again:
        return replace(probe, again=probe.again[1:], open=probe.open + 1)
    return replace(probe, asked=probe.asked + 1, open=probe.open + 1)


def answer(probe: Probe, position: int, score: int, threshold: int) -> Probe:
    return replace(probe, scores=record(probe.scores, position, score, threshold), open=probe.open - 1)


def fail(probe: Probe, slot: Slot, attempts: int, why: FailureEvidence | None) -> Probe:
    """`slot` holds the failures so far; at `attempts` of them it has failed for good. No `why`: it was abandoned,
    and is asked again however often that happens."""
    if why is not None and slot.attempt >= attempts:
        return replace(probe, open=probe.open - 1, failure=probe.failure or why)
    return replace(probe, open=probe.open - 1, again=(*probe.again, slot))


def idle(probe: Probe) -> bool:
    """Everything asked for was answered, or a slot has failed for good and nothing is open."""
    return probe.open == 0 and (probe.failure is not None or (not probe.again and probe.asked == probe.limit))
