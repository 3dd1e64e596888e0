"""How probable it is that an open gate would end in acceptance, from what was answered and what is left.

What is left is the sum of three independent parts: gains on failing tasks of the clusters that prompted the change,
gains on the others, and losses. Each is Beta-binomial: trials won (or lost) with one unknown rate, whose prior is the
run's own rate at a fixed weight and whose posterior knows this gate's outcomes. Fractional scores count as shares of a
trial: of what could be gained so much was. Acceptance is by the normal approximation of the paired rule,

    Pr(Beta(1 + a, 1 + b) > 1/2) = Phi((a - b) / sqrt(a + b + 1)), error at most 0.011 for whole sums,

so that the whole is a convolution in closed form. It predicts a verdict; it never is one.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from agentdescent import vector
from agentdescent.beta import log_beta
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.scores import UNKNOWN, Scores
from agentdescent.record import Record

_NEGLIGIBLE = 1e-5
_NORMAL = NormalDist()


class Share(Record, frozen=True):
    """Of so much that `could` happen, this much `did`; both in millionths of a task."""

    did: int = 0
    could: int = 0


class Rates(Record, frozen=True):
    """What gates brought: gains on failing tasks of the prompting clusters (`own`), gains elsewhere, losses."""

    own: Share = Share()
    other: Share = Share()
    loss: Share = Share()


class Partial(Record, frozen=True):
    """A gate so far: outcomes `seen`, and the most that each part of what is `left` could bring, in millionths."""

    seen: Rates
    own: int
    other: int
    loss: int


class Belief(Record, frozen=True):
    """A rate before a run has shown any, and the weight, in outcomes, of the run's rate in a gate."""

    mean: float
    weight: float


OWN = Belief(0.5, 2.0)
OTHER = Belief(0.05, 10.0)
LOSS = Belief(0.05, 10.0)
_BEFORE = 2.0
"""The weight, in outcomes, of what is believed before a run has shown any."""


def together(one: Rates, two: Rates) -> Rates:
    return Rates(_sum(one.own, two.own), _sum(one.other, two.other), _sum(one.loss, two.loss))


def _sum(one: Share, two: Share) -> Share:
    return Share(one.did + two.did, one.could + two.could)


def partial(base: Scores, scores: Scores, own: tuple[int, ...]) -> Partial:
    """`own`: positions of the failing tasks of the prompting clusters."""
    sums = {True: [0, 0, 0], False: [0, 0, 0]}  # did, could, left
    lost = lossy = left = 0
    prompting = frozenset(own)
    pairs = zip(vector.items(base.values), vector.items(scores.values), strict=True)
    for position, (was, now) in enumerate(pairs):
        gains = sums[position in prompting]
        if now == UNKNOWN:
            gains[2] += MILLION - was
            left += was
            continue
        gains[1] += MILLION - was
        lossy += was
        if now > was:
            gains[0] += now - was
        else:
            lost += was - now
    (did, could, rest), (other, others, remaining) = sums[True], sums[False]
    return Partial(Rates(Share(did, could), Share(other, others), Share(lost, lossy)), rest, remaining, left)


def afresh(part: Partial) -> Partial:
    """The same gate before anything was answered."""
    seen = part.seen
    return Partial(Rates(), part.own + seen.own.could, part.other + seen.other.could, part.loss + seen.loss.could)


def acceptance(part: Partial, run: Rates, weight_gain: int, weight_loss: int, bar: int) -> float:
    """The predicted probability, in [0, 1]. `run`: rates of the gates before this one; weights of self-verify and the
    bar in millionths, as the gate has frozen them."""
    seen = part.seen
    gains = _convolve(_sums(part.own, seen.own, run.own, OWN), _sums(part.other, seen.other, run.other, OTHER))
    losses = _sums(part.loss, seen.loss, run.loss, LOSS)
    gain, loss = (seen.own.did + seen.other.did) / MILLION, seen.loss.did / MILLION
    z = _NORMAL.inv_cdf(min(max(bar / MILLION, 1e-9), 1.0 - 1e-9))
    more, less = weight_gain / MILLION, weight_loss / MILLION
    below = [0.0]
    for _, p in losses:
        below.append(below[-1] + p)
    total, allowed = 0.0, 0
    for extra, p in gains:
        while allowed < len(losses) and _accepted(gain + extra, loss + losses[allowed][0], more, less, z):
            allowed += 1
        total += p * below[allowed]
    return min(1.0, total)


def combine(prediction: float, before: float, prior: float) -> float:
    """The odds of `prior`, changed as the outcomes changed those of the prediction (from `before`)."""
    return 1.0 / (1.0 + math.exp(-(_logit(prior) + _logit(prediction) - _logit(before))))


def _logit(p: float) -> float:
    p = min(max(p, 1e-9), 1.0 - 1e-9)
    return math.log(p / (1.0 - p))


def _accepted(gain: float, loss: float, more: float, less: float, z: float) -> bool:
    if gain < loss or gain == 0.0:
        return False
    a, b = gain + more, loss + less
    return a > b and a - b > z * math.sqrt(a + b + 1.0)


def _sums(left: int, seen: Share, run: Share, belief: Belief) -> list[tuple[float, float]]:
    """(sum in tasks, probability), ascending, of a Beta-binomial over what is left; the negligible end is folded in."""
    trials = -(-left // MILLION)
    if trials == 0:
        return [(0.0, 1.0)]
    unit = left / MILLION / trials
    mean = (run.did / MILLION + _BEFORE * belief.mean) / (run.could / MILLION + _BEFORE)
    a = belief.weight * mean + seen.did / MILLION
    b = belief.weight * (1.0 - mean) + (seen.could - seen.did) / MILLION
    p = math.exp(log_beta(a, b + trials) - log_beta(a, b))
    out, total = [(0.0, p)], p
    for k in range(trials):
        p *= (trials - k) * (a + k) / ((k + 1) * (trials - k - 1 + b))
        out.append((unit * (k + 1), p))
        total += p
        if 1.0 - total < _NEGLIGIBLE:
            break
    value, p = out[-1]
    out[-1] = (value, p + max(0.0, 1.0 - total))
    return out


def _convolve(one: list[tuple[float, float]], two: list[tuple[float, float]]) -> list[tuple[float, float]]:
    if len(one) == 1 or len(two) == 1:
        return [(a + b, p * q) for a, p in one for b, q in two]
    return sorted((a + b, p * q) for a, p in one for b, q in two if p * q > _NEGLIGIBLE)
