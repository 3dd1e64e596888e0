"""A candidate before the held-out tasks: asked where the head loses most first, in waves, until it is certain.

A wave is the fewest further outcomes before which no rejection could be certain, so asking for them at once
wastes nothing. A rejection is certain when the best that the remaining tasks could bring, a score of 1 on each,
would not lead to acceptance; that is exact, because acceptance is monotone in gains and losses.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent.allocation.choice import Choice
from agentdescent.artifact.diff import Entries
from agentdescent.budget.usage import Amount
from agentdescent.merge import rule
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.audit import Auditing
from agentdescent.merge.card import Card
from agentdescent.merge.probe import Probe, answer, idle
from agentdescent.merge.scores import UNKNOWN, Scores, blank, score_at
from agentdescent.merge.unpaired import Counts, Prior
from agentdescent.merge.verdict import GateEvidence
from agentdescent.record import Record, replace

CHECK_EVERY = 8
Status: TypeAlias = Literal["open", "accepted", "rejected", "failed", "won", "stale"]


class Gate(Record, frozen=True):
    """One candidate's gate. Sums in millionths.

    `gain`, `loss`: against `base`, over the tasks answered. `best`: what the tasks not answered could gain.
    `prefix[i]`: sum of base scores of the first i tasks of the order. `hold`: the earmark that is left.
    `choices`, `tokens`: of a union, what was chosen about it and used for it; a single card has its own.
    `own`: positions of failing tasks of the clusters that prompted it; `check_at`: how many tasks of the order are
    asked before the next prediction, -1 for none; `checking`: that is due.
    `safe`, `lost`: places (gain, loss) known to be accepted / not accepted, which spare most evaluations of P.
    `prior`: of the unpaired rule, as it was when the gate opened; None: paired. `audit`: what is to follow acceptance.
    """

    subject: int
    cards: tuple[Card, ...]
    entries: Entries
    artifact: str
    size: int
    version: int
    base: Scores
    probe: Probe
    prefix: tuple[int, ...]
    weight_gain: int
    weight_loss: int
    bar: int
    hold: Amount
    curtail: bool
    wave_min: int
    gain: int = 0
    loss: int = 0
    best: int = 0
    safe: tuple[int, int] | None = None
    lost: tuple[int, int] | None = None
    status: Status = "open"
    choices: tuple[Choice, ...] = ()
    tokens: int = 0
    own: tuple[int, ...] = ()
    check_at: int = -1
    checking: bool = False
    prior: Prior | None = None
    audit: Auditing | None = None


def informative(base: Scores) -> tuple[int, ...]:
    """Positions, those where the base loses most first; ties by position."""
    return tuple(sorted(range(base.size), key=lambda position: score_at(base, position)))


def prefix_sums(base: Scores, order: tuple[int, ...]) -> tuple[int, ...]:
    sums = [0]
    for position in order:
        sums.append(sums[-1] + score_at(base, position))
    return tuple(sums)


def open_gate(gate: Gate, known: Scores | None, *, checks: bool = False) -> Gate:
    """Start: take over the scores that are `known` already, then ask for the first wave. `checks`: stop when a
    prediction says so."""
    probe = gate.probe
    if known is not None and known.count:
        order = tuple(position for position in probe.order if score_at(known, position) == UNKNOWN)
        seen = [position for position in range(known.size) if score_at(known, position) != UNKNOWN]
        gate = replace(
            gate,
            probe=replace(probe, order=order, scores=known),
            prefix=prefix_sums(gate.base, order),
            gain=sum(max(0, score_at(known, p) - score_at(gate.base, p)) for p in seen),
            loss=sum(max(0, score_at(gate.base, p) - score_at(known, p)) for p in seen),
        )
    if checks:
        gate = replace(gate, check_at=first_check(gate.probe.scores.count, len(gate.own), unanswered(gate)))
    best = len(gate.probe.order) * MILLION - gate.prefix[-1]
    return weigh(replace(gate, best=best))


def score(gate: Gate, position: int, value: int, threshold: int) -> Gate:
    """Fold one outcome; at the end of a wave, weigh what is known."""
    base = score_at(gate.base, position)
    gate = replace(
        gate,
        probe=answer(gate.probe, position, value, threshold),
        gain=gate.gain + max(0, value - base),
        loss=gate.loss + max(0, base - value),
        best=gate.best - (MILLION - base),
    )
    return weigh(gate)


def whole_wave(gate: Gate, values: tuple[int, ...]) -> Gate:
    """Ask for everything up to the limit and fold the outcomes, in order: the sums that `ask` and `score` come to one
    by one. The scores themselves are not kept."""
    probe = gate.probe
    pairs = [
        (value, score_at(gate.base, p)) for p, value in zip(probe.order[probe.asked : probe.limit], values, strict=True)
    ]
    return weigh(
        replace(
            gate,
            probe=replace(probe, asked=probe.limit),
            gain=gate.gain + sum(value - base for value, base in pairs if value > base),
            loss=gate.loss + sum(base - value for value, base in pairs if base > value),
            best=gate.best - sum(MILLION - base for _, base in pairs),
        )
    )


def weigh(gate: Gate) -> Gate:
    """When nothing is open: a verdict, or the next wave."""
    probe = gate.probe
    if gate.status != "open" or not idle(probe):
        return gate
    if probe.failure is not None:
        return replace(gate, status="failed")
    left = len(probe.order) - probe.asked
    if left == 0:
        won = accepts(gate, gate.gain, gate.loss)
        return replace(gate, status="accepted" if won else "rejected")
    if not gate.curtail:
        return _widen(gate, left)
    gate, hopeful = _accepts(gate, gate.gain + gate.best, gate.loss)
    if not hopeful:
        return replace(gate, status="rejected")
    if probe.asked == gate.check_at:
        return replace(gate, checking=True)
    gate, wave = _wave(gate, left)
    return _widen(gate, min(left, max(wave, gate.wave_min)))


def _widen(gate: Gate, wave: int) -> Gate:
    """Ask for so many more, but not beyond the next check."""
    probe, limit = gate.probe, gate.probe.asked + wave
    if gate.check_at < 0:
        return replace(gate, probe=replace(probe, limit=limit))
    if probe.asked == gate.check_at:
        return replace(gate, checking=True)
    return replace(gate, probe=replace(probe, limit=min(limit, gate.check_at)))


def checked(gate: Gate, *, again: bool) -> Gate:
    """Go on after a check, and unless it was the last one come to the next."""
    at = next_check(gate.probe.asked, unanswered(gate)) if again else -1
    return weigh(replace(gate, checking=False, check_at=at))


def first_check(known: int, own: int, left: int) -> int:
    """After how many tasks of an order that begins with `left` of `own` tasks, when `known` scores are there."""
    enough = max(0, CHECK_EVERY - known)
    return min(left, enough) if own else enough


def next_check(asked: int, left: int) -> int:
    """The end of the tasks the order begins with, or CHECK_EVERY outcomes later, whichever comes first."""
    return asked + (min(left, CHECK_EVERY) if left else CHECK_EVERY)


def unanswered(gate: Gate) -> int:
    """How many of the tasks of the prompting clusters have no score yet."""
    return sum(score_at(gate.probe.scores, position) == UNKNOWN for position in gate.own)


def _wave(gate: Gate, left: int) -> tuple[Gate, int]:
    """The smallest k for which k outcomes of 0 in order would make rejection certain; `left` if there is none."""
    low, high = 0, 1
    while high < left:
        gate, alive = _after(gate, high)
        if not alive:
            break
        low, high = high, high * 2
    high = min(high, left)
    while high - low > 1:
        middle = (low + high) // 2
        gate, alive = _after(gate, middle)
        low, high = (middle, high) if alive else (low, middle)
    return gate, high


def _after(gate: Gate, outcomes: int) -> tuple[Gate, bool]:
    asked = gate.probe.asked
    lost = gate.prefix[asked + outcomes] - gate.prefix[asked]
    return _accepts(gate, gate.gain + gate.best - (outcomes * MILLION - lost), gate.loss + lost)


def accepts(gate: Gate, gain: int, loss: int) -> bool:
    """The verdict of this gate on final sums."""
    base = Counts(gate.base.total, gate.base.size)
    return rule.accepts(gate.prior, base, gain, loss, gate.weight_gain, gate.weight_loss, gate.bar)


def _accepts(gate: Gate, gain: int, loss: int) -> tuple[Gate, bool]:
    if gain == 0 or gain < loss:
        return gate, False
    at, safe, lost = rule.place(gate.prior, gain, loss), gate.safe, gate.lost
    if safe is not None and at[0] >= safe[0] and at[1] <= safe[1]:
        return gate, True
    if lost is not None and at[0] <= lost[0] and at[1] >= lost[1]:
        return gate, False
    if accepts(gate, gain, loss):
        return replace(gate, safe=at), True
    return replace(gate, lost=at), False


def evidence(gate: Gate, *, split: bool = False) -> GateEvidence:
    base = Counts(gate.base.total, gate.base.size)
    p = rule.probability(gate.prior, base, gate.gain, gate.loss, gate.weight_gain, gate.weight_loss)
    return GateEvidence(
        gate.gain,
        gate.loss,
        round(p * MILLION),
        gate.bar,
        gate.probe.scores.count,
        gate.probe.scores.size,
        split,
    )


def fell(gate: Gate) -> bool:
    """The mean fell, or is certain to: a regression."""
    return gate.gain + gate.best < gate.loss


def fresh_probe(order: tuple[int, ...], size: int) -> Probe:
    return Probe(order, 0, blank(size))
