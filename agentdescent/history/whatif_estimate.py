"""What another allocator would have changed at the recorded decisions: off-policy estimates and their intervals.

At decision t the log spent (a = 1) or skipped (a = 0) with probabilities mu_t(a), the target would with pi_t(a), and
Y_t(a) is what either comes to. What is estimated is the change

    D = sum_t sum_a (pi_t(a) - mu_t(a)) Y_t(a)

of these candidates in these states, everything after each decision as recorded: one step at a time. By the performance
difference lemma (Kakade and Langford 2002) a sum of such changes is the change of a whole run only to first order. With
w_t = pi_t(a_t) / mu_t(a_t), c_t = w_t - 1 and n decisions

    IPS    sum c_t Y_t                                                        (Horvitz and Thompson 1952)
    SNIPS  n sum w_t Y_t / sum w_t - sum Y_t                                  (Hajek 1971; Swaminathan, Joachims 2015)
    DR     sum_t sum_a (pi_t - mu_t)(a) q_t(a) + sum c_t (Y_t - q_t(a_t))     (Dudik, Langford, Li 2011)

q_t: a regression that never saw decision t. A target equal to the log changes nothing, exactly, by all three. What was
skipped at a gate or a check comes to nothing: Y(0) = 0 is known, and needs no support. What the log never tried counts
as if it came to nothing; it is refused where that is more than a tenth of what the target does.

**Intervals.** What is random is the draw at each decision. With z_t(a) the term of t under action a, the error of a
sum is a sum of (a_t - mu_t(1)) (z_t(1) - z_t(0)), each of mean 0 given all before it: martingale differences. Decisions
of a run depend on one another, and the variance is the sum of the variances all the same,

    V = sum mu(1) mu(0) (z(1) - z(0))^2 <= (sqrt V1 + sqrt V0)^2,   V_a = sum mu(other) z(a)^2 over those that did a

V_a is estimated without bias; nobody sees both outcomes of a decision, so what they have in common is bounded by the
most that there can be (Neyman 1923; Aronow, Green, Lee 2014). Where a skip is known to come to nothing V = V1, exactly.
The interval is that of Student's t with as many degrees of freedom as outcomes other than 0 tell, less one, moved by
the skewness of the sum and by how it goes with its variance (Cornish and Fisher; Johnson 1978). That is about the
recorded states. With ten runs or more `per_run` is about runs of this kind: the mean change of a run, with the variance
between runs (Liang and Zeger 1986: runs are the clusters).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from agentdescent.history.student import quantile
from agentdescent.history.whatif_log import Decision
from agentdescent.history.whatif_model import folds, predicted
from agentdescent.record import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

Method: TypeAlias = Literal["ips", "snips", "dr"]
Quantity: TypeAlias = Literal["tokens", "commits", "gain"]
Kind: TypeAlias = Literal["exact", "estimate", "no-support"]
METHODS: tuple[Method, ...] = ("ips", "snips", "dr")
QUANTITIES: tuple[Quantity, ...] = ("tokens", "commits", "gain")
KNOWN = ("gate", "finish")
"""Stages at which a skip comes to nothing."""

MOST_UNSUPPORTED = 0.1
LEAST_EFFECTIVE = 20.0
LEAST_TELLING = 8.0
LEAST_RUNS = 10
_Z = 1.959963984540054


class Change(Record, frozen=True):
    """What the target would have changed of one quantity, in its unit, by one estimate. `low`, `high`: of 95 %, equal
    to `value` where it is exact. `telling`: how many outcomes other than 0 the interval rests on. `per_run`: the
    mean change of a run, and its interval for runs of this kind; None below ten runs. A refused one has no numbers but
    `reason`."""

    quantity: Quantity
    method: Method
    kind: Kind
    value: float | None = None
    low: float | None = None
    high: float | None = None
    telling: float = 0.0
    per_run: tuple[float, float, float] | None = None
    reason: str = ""


class Support(Record, frozen=True):
    """`n` decisions of which `open` were not closed. `unsupported`: share of what the target does that the log never
    tries. `effective`: how many decisions of the target's own would tell as much as those that have to be weighed, (sum
    pi)^2 / sum pi^2 / mu (Kish 1965, before the draws); `largest`: the largest w among them. None where nothing has to
    be weighed."""

    n: int
    open: int
    unsupported: float
    effective: float | None
    largest: float | None


class Columns(NamedTuple):
    """Decisions of one stage as arrays of length n; `x` is n x d. `known`: a skip comes to nothing."""

    x: Floats
    spent: Floats
    mu: Floats
    pi: Floats
    weight: Floats
    run: NDArray[np.int64]
    fold: NDArray[np.int64]
    known: bool


def columns(decisions: Sequence[Decision]) -> Columns:
    """Of one stage, at least one."""
    import numpy as np

    spent = np.array([float(one.spent) for one in decisions])
    mu = np.array([one.logged for one in decisions])
    pi = np.array([one.target for one in decisions])
    weight = np.where(
        spent == 1.0, pi / np.where(spent == 1.0, mu, 1.0), (1 - pi) / np.where(spent == 0.0, 1 - mu, 1.0)
    )
    width = max(len(one.features) for one in decisions)
    x = np.array([one.features + (0.0,) * (width - len(one.features)) for one in decisions]).reshape(len(mu), width)
    run = np.array([one.run for one in decisions], dtype=np.int64)
    subject = np.array([one.subject for one in decisions], dtype=np.int64)
    return Columns(x, spent, mu, pi, weight, run, folds(run, subject), decisions[0].stage in KNOWN)


def support(decisions: Sequence[Decision]) -> Support:
    """Of one stage, at least one decision."""
    import numpy as np

    c = columns(decisions)
    never = np.where(c.mu == 0.0, c.pi, 0.0) + np.where((c.mu == 1.0) & (not c.known), 1.0 - c.pi, 0.0)
    free = uncertain(c)
    largest = float(c.weight[free].max()) if free.any() else None
    open_ = sum(one.closed < 0 for one in decisions)
    return Support(len(decisions), open_, float(never.mean()), _effective(c) if free.any() else None, largest)


class Terms(NamedTuple):
    """An estimate as a sum over decisions: the `value` of each, and of the error of their sum the variance, the third
    cumulant, and the covariance with the estimate of that variance. `telling`: how many outcomes other than 0 the
    weighed part rests on, at the share of the decisions that is effective."""

    value: Floats
    variance: float
    third: float
    slope: float
    telling: float


def uncertain(c: Columns) -> NDArray[np.bool_]:
    """Where a draw matters: the target would do otherwise, and what it changes is not known exactly."""
    import numpy as np

    certain = (c.mu == 1.0) if c.known else np.zeros(len(c.mu), dtype=np.bool_)
    changed: NDArray[np.bool_] = (c.pi != c.mu) & ~certain
    return changed


def terms(c: Columns, y: Floats, method: Method) -> Terms:
    """`y`: what each decision came to."""
    import numpy as np

    free = uncertain(c)
    w, seen, value = c.weight[free], y[free], (c.weight - 1.0) * y
    spent, mu, pi = c.spent[free], c.mu[free], c.pi[free]
    z, of_skip = value[free], np.zeros(len(w))
    if method == "dr":
        skip, spend = (q[free] for q in predicted(c.x, y, c.spent, c.fold))
        skip = np.zeros(len(w)) if c.known else skip
        z = (w - 1.0) * (seen - np.where(spent == 1.0, spend, skip))
        value[free] = z + (pi - mu) * (spend - skip)
    elif method == "snips" and w.sum() > 0.0:
        scale, mean = len(w) / w.sum(), (w * seen).sum() / w.sum()
        value[free] = scale * w * seen - seen
        z = (scale * w - 1.0) * (seen - mean)
        of_skip = (scale * (1.0 - pi) / (1.0 - mu) - 1.0) * -mean if c.known else of_skip
    other = np.where(spent == 1.0, 1.0 - mu, mu)
    if c.known:  # of each spend both terms are known; a skip tells nothing of what it missed
        z = np.where(spent == 1.0, z - of_skip, 0.0)
    parts = [float((other * z * z)[spent == action].sum()) ** 0.5 for action in (0.0, 1.0)]
    cubes = other * z**3
    telling = float(((seen != 0.0) & (w > 0.0)).sum()) * _effective(c) / max(1, len(w))
    third, slope = float((cubes * (2.0 * other - 1.0)).sum()), float((cubes * other).sum())
    return Terms(value, sum(parts) ** 2, third, slope, telling)


def _effective(c: Columns) -> float:
    """Over both actions where both come to something. It does not depend on the draws: an estimate that is refused
    because of them would be one that they made look bad."""
    free = uncertain(c)
    pi, mu = c.pi[free], c.mu[free]
    tried = mu > 0.0
    weight = (pi[tried] ** 2 / mu[tried]).sum()
    total = pi[tried].sum()
    if not c.known:
        tried = mu < 1.0
        weight += ((1.0 - pi[tried]) ** 2 / (1.0 - mu[tried])).sum()
        total += (1.0 - pi[tried]).sum()
    return float(total**2 / weight) if weight > 0.0 else 0.0


def change(quantity: Quantity, method: Method, decisions: Sequence[Decision], held: Support) -> Change:
    """Of one stage, at least one decision, or refused with the reason."""
    import numpy as np

    refusal = refused(held)
    if refusal:
        return Change(quantity, method, "no-support", reason=refusal)
    c = columns(decisions)
    y = np.array([float(getattr(one, quantity)) for one in decisions])
    found = terms(c, y, method)
    return summed(quantity, method, (found,), (c.run,), certain=held.effective is None)


def refused(held: Support) -> str:
    """Why these decisions cannot tell; "" when they can."""
    if held.unsupported > MOST_UNSUPPORTED:
        return (
            f"the log never tried {held.unsupported:.0%} of what the target does (at most {MOST_UNSUPPORTED:.0%}): "
            "record runs with an allocator that explores, such as min_propensity=0.1"
        )
    if held.effective is not None and held.effective < LEAST_EFFECTIVE:
        return f"effective sample size {held.effective:.1f}, less than {LEAST_EFFECTIVE:.0f}: give more logs"
    return ""


def summed(
    quantity: Quantity,
    method: Method,
    parts: Sequence[Terms],
    runs: Sequence[NDArray[np.int64]],
    *,
    certain: bool,
) -> Change:
    """Stages together. The errors of two decisions are uncorrelated, also of two about one candidate, as far as the
    later one is made whatever the earlier one was."""
    import numpy as np

    value = float(sum(part.value.sum() for part in parts))
    between = _between(np.concatenate(runs), np.concatenate([part.value for part in parts]))
    if certain:
        return Change(quantity, method, "exact", value, value, value, 0.0, between)
    telling = sum(part.telling for part in parts)
    if telling < LEAST_TELLING:
        reason = f"the change rests on {telling:.1f} outcomes, less than {LEAST_TELLING:.0f}: give more logs"
        return Change(quantity, method, "no-support", telling=telling, reason=reason)
    spread = sum(part.variance for part in parts) ** 0.5
    if spread == 0.0:
        return Change(quantity, method, "no-support", telling=telling, reason="no draw of the log tells anything")
    third, slope = sum(part.third for part in parts) / spread**3, sum(part.slope for part in parts) / spread**3
    t = quantile(0.975, telling - 1.0)
    shift = -slope / 2.0 + (_Z * _Z - 1.0) * (third - 3.0 * slope) / 6.0
    shift = min(max(shift, -t / 2.0), t / 2.0)
    low, high = value - (t + shift) * spread, value + (t - shift) * spread
    return Change(quantity, method, "estimate", value, low, high, telling, between)


def _between(run: NDArray[np.int64], values: Floats) -> tuple[float, float, float] | None:
    """Mean change of a run with its interval, by the variance between runs."""
    import numpy as np

    names, at = np.unique(run, return_inverse=True)
    if len(names) < LEAST_RUNS:
        return None
    by_run = np.bincount(at, weights=values)
    mean = float(by_run.mean())
    half = quantile(0.975, len(names) - 1.0) * float(by_run.std(ddof=1)) / len(names) ** 0.5
    return mean, mean - half, mean + half
