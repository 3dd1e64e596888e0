"""When what waits is wide enough for a gate, in this run; and what its gates taught about that."""

from __future__ import annotations

from agentdescent.artifact.diff import contradict
from agentdescent.budget.governor import Purpose
from agentdescent.budget.usage import NOTHING, Amount, add
from agentdescent.engine.clusters import unsolved
from agentdescent.engine.state import State
from agentdescent.engine.tasking import cluster_weights
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.card import Card
from agentdescent.merge.gate import Gate
from agentdescent.merge.scores import UNKNOWN, score_at
from agentdescent.merge.width import gains, marginal, pays
from agentdescent.record import replace


def wide_enough(state: State, cards: tuple[Card, ...]) -> bool:
    """Whether these cards should wait no longer for others."""
    width = state.spec.fusion_width
    if not cards or width == "all":
        return True
    if width != "adaptive":
        return len(cards) >= width
    weights = cluster_weights(state)
    if not any(weights):
        return True
    left, solved = unsolved(state.clusters, state.head.scores), state.head.scores.total
    clusters = _clusters(state, cards)
    gain = gains(state.yields, left, solved, clusters)[-1]
    more = marginal(state.yields, left, solved, clusters, weights)
    card = _units(_used(state, ("rollout", "propose", "verify"))) / max(1, state.yields.cards)
    scored = _used(state, ("base", "gate"))
    gate = _units(scored) / max(1, scored.rollouts) * state.heldout.count
    return pays(gain, more, len(cards), card, gate)


def chunks(state: State, cards: tuple[Card, ...]) -> tuple[tuple[Card, ...], ...]:
    """Oldest first, as many to a gate as are good for it."""
    width = state.spec.fusion_width
    if width == "all" or not cards:
        return (cards,)
    if width == "adaptive":
        left, solved = unsolved(state.clusters, state.head.scores), state.head.scores.total
        expected = gains(state.yields, left, solved, _clusters(state, cards))
        width = expected.index(max(expected)) + 1
    if width >= len(cards):
        return (cards,)
    return (cards[:width], *chunks(state, cards[width:]))


def _clusters(state: State, cards: tuple[Card, ...]) -> list[int | None]:
    """The cluster of each card, None of one that contradicts a card before it."""
    kept, found = list[Card](), list[int | None]()
    for card in cards:
        clashes = any(contradict(other.ops, card.ops) for other in kept)
        found.append(None if clashes else state.clusters.of[card.task])
        if not clashes:
            kept.append(card)
    return found


def _used(state: State, purposes: tuple[Purpose, ...]) -> Amount:
    total = NOTHING
    for line in state.governor.ledger:
        if line.purpose in purposes:
            total = add(total, line.used)
    return total


def _units(used: Amount) -> int:
    """Tokens; calls where no port reports tokens."""
    return used.tokens or used.calls


def card_waits(state: State, card: Card) -> State:
    """One more proposal came to wait for merge."""
    if state.spec.fusion_width != "adaptive":
        return state
    seen = state.yields
    others = [other for other in state.cards if not other.verifying and other.subject != card.subject]
    clashed = seen.clashed + any(contradict(other.ops, card.ops) for other in others)
    return replace(state, yields=replace(seen, cards=seen.cards + 1, clashed=clashed, met=seen.met + bool(others)))


def gate_measured(state: State, gate: Gate) -> State:
    """A gate has its verdict: what its cards mended and lost, as far as it was asked."""
    if state.spec.fusion_width != "adaptive":
        return state
    counts = [0] * len(state.clusters.train)
    for card in gate.cards:
        counts[state.clusters.of[card.task]] += 1
    mended = exposed = kept = 0
    for count, positions in zip(counts, state.clusters.heldout, strict=True):
        for position in positions:
            score, base = score_at(gate.probe.scores, position), score_at(gate.base, position)
            if score != UNKNOWN:
                kept += base * len(gate.cards)
                exposed += (MILLION - base) * count
                mended += max(0, score - base) if count else 0
    seen = state.yields
    return replace(
        state,
        yields=replace(
            seen,
            mended=seen.mended + mended,
            exposed=seen.exposed + exposed,
            lost=seen.lost + gate.loss,
            kept=seen.kept + kept,
        ),
    )
