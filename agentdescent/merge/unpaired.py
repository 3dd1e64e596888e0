"""Acceptance by two Beta posteriors, for outcomes that cannot be paired by task.

    base       Beta(1 + up + S,         1 + down + n - S)
    candidate  Beta(1 + up + S + g - l + wg, 1 + down + n - S - g + l + wl)

S is the base's sum over the n held-out tasks, g and l are the candidate's sums of gains and losses against it, wg and
wl the weights of self-verify, up and down the running prior, which both share. P is the probability that a rate drawn
from the second exceeds one drawn from the first. A candidate is accepted when P > bar, the mean did not fall, and some
task changed: a change that alters no outcome has P > 1/2 as soon as self-verify liked it, and must not commit for that.

P falls as l rises and rises with g, so the best that the remaining tasks can do still decides whether a rejection is
certain. Pairing uses more of the same data; prefer `acceptance.Paired` where every task was scored under both.
"""

from __future__ import annotations

from agentdescent import beta
from agentdescent.merge.acceptance import MILLION
from agentdescent.record import Record

_TOLERANCE = 1e-8


class Prior(Record, frozen=True):
    """What completed gates have taught, in millionths of a pseudo-outcome. One that was cut short teaches nothing."""

    up: int = 0
    down: int = 0


class Counts(Record, frozen=True):
    """The base on the held-out tasks: its total in millionths, and how many there are."""

    total: int
    size: int


def learn(prior: Prior, gain: int, loss: int, size: int, *, committed: bool) -> Prior:
    """With one more completed gate over `size` tasks: a commit adds two successes, a rejection min(1, 4 |mean
    difference|) to the side of its sign."""
    if committed:
        return Prior(prior.up + 2 * MILLION, prior.down)
    weight = min(MILLION, 4 * abs(gain - loss) // size)
    if gain > loss:
        return Prior(prior.up + weight, prior.down)
    return Prior(prior.up, prior.down + weight)


def probability(prior: Prior, base: Counts, gain: int, loss: int, weight_gain: int = 0, weight_loss: int = 0) -> float:
    """Pr(candidate > base), sums and weights in millionths; exactly 1/2 when nothing tells them apart."""
    a, b = MILLION + prior.up + base.total, MILLION + prior.down + base.size * MILLION - base.total
    shift = gain - loss
    c, d = a + shift + weight_gain, b - shift + weight_loss
    return beta.exceeds(c / MILLION, d / MILLION, a / MILLION, b / MILLION)


def accepts(prior: Prior, base: Counts, gain: int, loss: int, weight_gain: int, weight_loss: int, bar: int) -> bool:
    """The verdict on final sums, `bar` in millionths as of `acceptance.bar`. Monotone but for gain = loss = 0."""
    if gain < loss or (gain == 0 and loss == 0):
        return False
    return probability(prior, base, gain, loss, weight_gain, weight_loss) > bar / MILLION + _TOLERANCE
