"""What each round did: a projection of the log, folded event by event."""

from __future__ import annotations

from agentdescent.budget.usage import NOTHING, Amount, subtract
from agentdescent.engine.event import Decided, Event, GateOpened, Judged, Stopped
from agentdescent.engine.population import dev_head
from agentdescent.engine.state import State
from agentdescent.record import Record, replace


class RoundInfo(Record, frozen=True):
    """One round and its merge. `reward`: held-out mean of the head afterwards, in [0, 1]. `reasons`: how many
    proposals ended how. `considered`: candidates put before the gate, `fused`: those that were unions. `rollouts`,
    `calls`, `tokens` and `cost` (nano-dollars): what the round used; the base counts as round 0."""

    round: int
    reward: float
    committed: int = 0
    rejected: int = 0
    reasons: tuple[tuple[str, int], ...] = ()
    considered: int = 0
    fused: int = 0
    rollouts: int = 0
    calls: int = 0
    tokens: int = 0
    cost: int = 0


class Tally(Record, frozen=True):
    """The round being folded, and what was spent before it."""

    current: RoundInfo = RoundInfo(0, 0.0)
    spent: Amount = NOTHING


def observe(tally: Tally, event: Event, state: State) -> tuple[Tally, RoundInfo | None]:
    """Fold an event; `state` is the one after it. Returns the round that it completes, if it does."""
    current = tally.current
    if isinstance(event, Decided):
        if event.round == current.round:
            return tally, None
    elif isinstance(event, Judged):
        won = event.outcome == "committed"
        return replace(
            tally,
            current=replace(
                current,
                committed=current.committed + won,
                rejected=current.rejected + (not won),
                reasons=_count(current.reasons, event.outcome),
            ),
        ), None
    elif isinstance(event, GateOpened):
        fused = current.fused + (len(event.contributors) > 1)
        return replace(tally, current=replace(current, considered=current.considered + 1, fused=fused)), None
    elif not isinstance(event, Stopped):
        return tally, None
    used = subtract(state.governor.spent, tally.spent)
    done = replace(
        current,
        reward=mean(state),
        rollouts=used.rollouts,
        calls=used.calls,
        tokens=used.tokens,
        cost=used.cost,
    )
    number = event.round if isinstance(event, Decided) else current.round
    return Tally(RoundInfo(number, 0.0), state.governor.spent), done


def _count(reasons: tuple[tuple[str, int], ...], outcome: str) -> tuple[tuple[str, int], ...]:
    counts = dict(reasons)
    counts[outcome] = counts.get(outcome, 0) + 1
    return tuple(sorted(counts.items()))


def mean(state: State) -> float:
    """Held-out mean of the dev head, in [0, 1]; 0.0 before the base was scored."""
    scores = dev_head(state).scores
    return scores.total / (1_000_000 * scores.size) if scores.size and scores.count == scores.size else 0.0
