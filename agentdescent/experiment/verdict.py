"""What a paired comparison of allocators comes to.

| verdict | when |
|---|---|
| not measurable | fewer than 10 pairs, or the treatment skipped nothing: it was the control |
| improved | quality is higher; or no difference in quality, 30 pairs, and fewer tokens to the target |
| worse | quality is lower; or no difference in quality, 30 pairs, and more tokens to the target |
| no difference | otherwise |

*Higher*, *lower*, *fewer* and *more*: the interval excludes no difference. From 30 pairs on there are two looks, at
quality and at tokens, and each is given half of the error (Bonferroni), so that two equal arms differ by chance in 5 %
of comparisons at most.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent.experiment.pairing import LEAST_PAIRS, LEAST_PAIRS_TOKENS, PairedComparison
from agentdescent.record import Record

Verdict: TypeAlias = Literal["improved", "no difference", "worse", "not measurable"]
ERROR = 0.05


class Decided(Record, frozen=True):
    """A verdict, and in words what it rests on."""

    verdict: Verdict
    why: str


def level_for(n: int) -> float:
    """The level of the intervals that a verdict on `n` pairs reads."""
    return 1 - (ERROR / 2 if n >= LEAST_PAIRS_TOKENS else ERROR)


def decided(comparison: PairedComparison) -> Decided:
    """The intervals are taken as they are: see `level_for`."""
    n, quality = comparison.pairs, comparison.quality_diff
    if n < LEAST_PAIRS or quality is None:
        return Decided("not measurable", f"{n} complete pairs: a verdict needs {LEAST_PAIRS}")
    if not comparison.fired:
        explored = f", {comparison.counterfactuals} counterfactuals" if comparison.counterfactuals else ""
        return Decided("not measurable", f"the allocator never fired: 0 skips{explored}; both arms did the same")
    if quality.lo > 0:
        return Decided("improved", "quality is higher")
    if quality.hi < 0:
        return Decided("worse", "quality is lower")
    ratio = comparison.tokens_to_target_ratio
    if n < LEAST_PAIRS_TOKENS or ratio is None:
        what = f"nothing is said of tokens below {LEAST_PAIRS_TOKENS} pairs" if ratio else "no target was measured"
        return Decided("no difference", f"the interval of the difference in quality holds 0; {what}")
    if ratio.hi < 1:
        return Decided("improved", "no difference in quality, and fewer tokens to the target")
    if ratio.lo > 1:
        return Decided("worse", "no difference in quality, and more tokens to the target")
    return Decided("no difference", "neither the quality nor the tokens to the target differ")
