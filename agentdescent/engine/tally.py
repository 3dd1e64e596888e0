"""Who a token was used for: the turn it was used in and the card that came of it, a candidate, or an open gate."""

from __future__ import annotations

from agentdescent import vector
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Decided
from agentdescent.engine.state import State, Worker
from agentdescent.merge.card import Card
from agentdescent.merge.gate import Gate
from agentdescent.merge.sweep import Sweep
from agentdescent.record import replace


def used(state: State, decided: Decided, tokens: int) -> State:
    """An effect that is open no more used so many; nobody keeps count without an allocator."""
    if state.spec.allocator is None or not tokens:
        return state
    if decided.worker >= 0:
        worker = _worker(vector.get(state.workers, decided.worker), tokens)
        return replace(state, workers=vector.put(state.workers, decided.worker, worker))
    command, sweep = decided.command, state.sweep
    if sweep is None or not isinstance(command, Rollout):
        return state
    if command.purpose in ("gate", "audit"):
        gates = tuple(_gate(gate, tokens) if gate.subject == decided.subject else gate for gate in sweep.gates)
        return replace(state, sweep=replace(sweep, gates=gates))
    if command.purpose in ("rebase", "conflict", "tournament"):
        return replace(state, sweep=_measured(sweep, decided.subject, tokens))
    return state


def _worker(worker: Worker, tokens: int) -> Worker:
    card = worker.card
    return replace(
        worker,
        tokens=worker.tokens + tokens,
        card=None if card is None else replace(card, tokens=card.tokens + tokens),
    )


def _gate(gate: Gate, tokens: int) -> Gate:
    return replace(gate, tokens=gate.tokens + tokens)


def _measured(sweep: Sweep, subject: int, tokens: int) -> Sweep:
    candidate = sweep.candidate
    if candidate is not None and candidate.subject == subject:
        return replace(sweep, candidate=replace(candidate, tokens=candidate.tokens + tokens))

    def more(cards: tuple[Card, ...]) -> tuple[Card, ...]:
        return tuple(replace(card, tokens=card.tokens + tokens) if card.subject == subject else card for card in cards)

    return replace(sweep, intake=more(sweep.intake), kept=more(sweep.kept))
