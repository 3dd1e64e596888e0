"""How many waiting proposals go into one gate: enough that one more would not pay for the waiting.

Of a union with m cards in a cluster of u unsolved tasks, M cards in all, on a head that solves S, is expected

    gain = sum over clusters of u (1 - (1 - a)^m)  -  S (1 - (1 - b)^M)

where a card mends the share a of what it was made for and loses the share b of the rest. To wait for one more while it
adds more per token than the union has on average, its gate included, maximises that average (Charnov 1976, the marginal
value theorem). A card that contradicts an older one adds nothing, and the more often cards did, the less another one is
worth. Sums in millionths.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentdescent.record import Record

MAX_WIDTH = 16
_MOST = 0.95


class Yields(Record, frozen=True):
    """What the run's proposals came to. `cards`: that came to wait for merge. At the gates, summed over cards: `mended`
    of the `exposed` unsolved scores of the cards' clusters, `lost` of the `kept` solved ones. The defaults are the
    prior: a card mends half of four tasks, and loses one of forty. `clashed` of the `met`: cards that came when others
    waited, and contradicted one."""

    cards: int = 0
    mended: int = 2_000_000
    exposed: int = 4_000_000
    lost: int = 1_000_000
    kept: int = 40_000_000
    clashed: int = 0
    met: int = 0


def gains(yields: Yields, unsolved: Sequence[int], solved: int, clusters: Sequence[int | None]) -> list[float]:
    """Expected gain of the first 1, 2, .. cards; `clusters`: that of each, in their order, None for a card that
    contradicts one before it."""
    mends, loses = _rates(yields)
    left = [float(mass) for mass in unsolved]
    safe, won, found = float(solved), 0.0, []
    for cluster in clusters:
        if cluster is not None:
            won += mends * left[cluster]
            left[cluster] *= 1.0 - mends
            safe *= 1.0 - loses
        found.append(won - (solved - safe))
    return found


def marginal(
    yields: Yields, unsolved: Sequence[int], solved: int, clusters: Sequence[int | None], weights: Sequence[float]
) -> float:
    """Expected addition by one more card, whose cluster is drawn by `weights` (not all 0)."""
    mends, loses = _rates(yields)
    left, safe, total = [float(mass) for mass in unsolved], float(solved), 0.0
    for cluster in clusters:
        if cluster is not None:
            left[cluster] *= 1.0 - mends
            safe *= 1.0 - loses
    more = 0.0
    for weight, mass in zip(weights, left, strict=True):
        total += weight
        more += weight * mass
    return (mends * more / total - loses * safe) * (1.0 - yields.clashed / max(1, yields.met))


def pays(gain: float, more: float, cards: int, card_cost: float, gate_cost: float) -> bool:
    """True when the union of `cards` goes to its gate now."""
    return cards >= MAX_WIDTH or more * (cards * card_cost + gate_cost) <= gain * card_cost


def _rates(yields: Yields) -> tuple[float, float]:
    return min(_MOST, yields.mended / yields.exposed), min(_MOST, yields.lost / yields.kept)
