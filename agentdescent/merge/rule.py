"""The rule a gate is held to: paired, or unpaired with the prior that was frozen when the gate opened."""

from __future__ import annotations

from agentdescent.merge import acceptance, unpaired
from agentdescent.merge.unpaired import Counts, Prior


def accepts(
    prior: Prior | None, base: Counts, gain: int, loss: int, weight_gain: int, weight_loss: int, bar: int
) -> bool:
    """The verdict on final sums against `base`; no `prior`: paired. More gain or less loss never turns it to False,
    except that without a gain nothing is accepted."""
    if prior is None:
        return acceptance.accepts(gain, loss, weight_gain, weight_loss, bar)
    return unpaired.accepts(prior, base, gain, loss, weight_gain, weight_loss, bar)


def probability(
    prior: Prior | None, base: Counts, gain: int, loss: int, weight_gain: int = 0, weight_loss: int = 0
) -> float:
    """Pr(better), by the same rule."""
    if prior is None:
        return acceptance.probability(gain + weight_gain, loss + weight_loss)
    return unpaired.probability(prior, base, gain, loss, weight_gain, weight_loss)


def place(prior: Prior | None, gain: int, loss: int) -> tuple[int, int]:
    """Where sums with a gain stand: at equal places the verdict is equal. Unpaired, only their difference counts."""
    return (gain, loss) if prior is None else (gain - loss, 0)
