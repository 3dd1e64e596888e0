"""The audit: a second scorer, the oracle, is asked about an accepted candidate and vetoes one that does not beat the
head; and trust, which says how well the cheap subset foretells a gate, and so whether anybody need be asked.
"""

from __future__ import annotations

from agentdescent.errors import UsageError
from agentdescent.merge.probe import Probe
from agentdescent.merge.scores import UNKNOWN, Scores, blank, score_at
from agentdescent.record import Record


class Audit(Record, frozen=True):
    """When the oracle is asked: about artifacts with a blast radius above `blast_radius`, and while trust is below
    `trust`. Trust begins at `start`, gains `gain` up to `top` with every completed gate whose verdict the cheap subset
    foretold, and halves, down to `floor`, with every other."""

    blast_radius: float = 0.30
    trust: float = 0.75
    start: float = 1.0
    gain: float = 0.25
    top: float = 4.0
    floor: float = 0.25


class Auditing(Record, frozen=True):
    """An audit that is wanted. `calls` of the oracle are set aside for it, none when its budget does not cover them.

    Once it has begun: `artifact` of the head, and the probes of the head (`base`) and the candidate (`own`) on the
    cheap subset."""

    calls: int
    artifact: str = ""
    base: Probe | None = None
    own: Probe | None = None


class Audited(Record, frozen=True):
    """What the oracle said of the head, which is `artifact`, on the cheap subset; None when it was not asked."""

    artifact: str = ""
    scores: Scores | None = None


def wanted(rule: Audit, blast_radius: float, trust: float) -> bool:
    return blast_radius > rule.blast_radius or trust < rule.trust


def observe(rule: Audit, trust: float, *, agree: bool) -> float:
    """Trust after one more completed gate."""
    return min(rule.top, trust + rule.gain) if agree else max(rule.floor, trust / 2.0)


def cheap_verdict(own: Scores, base: Scores, cheap: tuple[int, ...]) -> bool:
    """Whether the candidate has the higher mean on the cheap subset, all of which both were scored on."""
    return sum(score_at(own, position) for position in cheap) > sum(score_at(base, position) for position in cheap)


def missing(known: Scores | None, cheap: tuple[int, ...]) -> tuple[int, ...]:
    """What the oracle has not said yet."""
    return cheap if known is None else tuple(p for p in cheap if score_at(known, p) == UNKNOWN)


def probe_of(known: Scores | None, cheap: tuple[int, ...], size: int) -> Probe:
    """Ask for everything that is missing at once."""
    order = missing(known, cheap)
    return Probe(order, len(order), known or blank(size))


def open_calls(audit: Auditing | None) -> int:
    """Calls of the oracle that are not answered."""
    if audit is None or audit.base is None or audit.own is None:
        return 0
    return audit.base.open + audit.own.open


def begun(audit: Auditing | None) -> bool:
    return audit is not None and audit.base is not None


def of_candidate(audit: Auditing | None, artifact: str) -> Audited:
    """What the oracle said of a candidate, once that is the head."""
    return Audited() if audit is None or audit.own is None else Audited(artifact, audit.own.scores)


def check(rule: Audit) -> None:
    """Raises UsageError when a number is out of its range."""
    if not 0.0 <= rule.blast_radius <= 1.0:
        raise UsageError(f"audit.blast_radius is {rule.blast_radius!r}: it must be in [0, 1]")
    if not 0.0 < rule.floor <= rule.start <= rule.top or not rule.gain >= 0.0 or not rule.trust >= 0.0:
        raise UsageError(f"audit is {rule!r}: it must have 0 < floor <= start <= top, and no negative gain or trust")
