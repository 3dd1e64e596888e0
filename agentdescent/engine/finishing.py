"""Gates that may be stopped by prediction: what they ask first, and what a check comes to.

A check stands between two waves of a gate. It is decided from the state alone; when the gate goes on, the choice, if
there was one, is recorded with the next task, and when it does not, with the verdict.
"""

from __future__ import annotations

from agentdescent.allocation.choice import Choice
from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.allocation.features import AllocatorContext, vector
from agentdescent.allocation.value_model import has_signal, predict
from agentdescent.artifact.diff import Ops, union
from agentdescent.engine.allotting import ask, base_score, context_of, decides, mean_tokens
from agentdescent.engine.draw import Draw
from agentdescent.engine.state import State
from agentdescent.merge.card import Card
from agentdescent.merge.futility import acceptance, afresh, combine, partial, together
from agentdescent.merge.gate import Gate, checked
from agentdescent.merge.scores import score_at
from agentdescent.record import Record, replace


class Check(Record, frozen=True):
    """`acceptance`: predicted, in [0, 1]. `choice`: to stop or to go on, where that was a question."""

    acceptance: float
    choice: Choice | None = None

    @property
    def stops(self) -> bool:
        return self.choice is not None and not self.choice.choice


def checks(state: State) -> bool:
    """Whether gates of this run may be stopped by prediction."""
    return state.spec.futility > 0.0 or decides(state, "finish")


def gate_order(state: State, cards: tuple[Card, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The order in which a gate asks, and the failing tasks of the clusters that prompted it. With checks these come
    first, then other failing tasks, then the rest, each in the order of the head."""
    head, tasks = state.head, state.setup.tasks
    if not checks(state):
        return head.order, ()
    clusters = {tasks[card.task].cluster for card in cards}
    own, failing, rest = list[int](), list[int](), list[int]()
    for position in head.order:
        if score_at(head.scores, position) >= state.solved_at:
            rest.append(position)
        elif tasks[state.split.heldout[position]].cluster in clusters:
            own.append(position)
        else:
            failing.append(position)
    return (*own, *failing, *rest), tuple(own)


def ops_of(cards: tuple[Card, ...]) -> Ops:
    return cards[0].ops if len(cards) == 1 else union(tuple(card.ops for card in cards))


def gate_context(state: State, cards: tuple[Card, ...]) -> AllocatorContext:
    return replace(context_of(state, cards, ops_of(cards)), base_score=base_score(state, cards[0]))


def check(state: State, gate: Gate, draw: Draw) -> Check:
    """Below the bar, or not worth the price, it is stopped, unless the draw completes it all the same. Outcomes that
    did not lower the prediction stop nothing: a prior below the bar would stop every gate."""
    spec, part = state.spec, partial(gate.base, gate.probe.scores, gate.own)
    now = acceptance(part, state.rates, gate.weight_gain, gate.weight_loss, gate.bar)
    before = acceptance(afresh(part), state.rates, gate.weight_gain, gate.weight_loss, gate.bar)
    context = gate_context(state, gate.cards)
    prior = _prior(state, context)
    predicted = now if prior is None else combine(now, before, prior)
    if now >= before:
        return Check(predicted)
    scores = gate.probe.scores
    context = replace(context, acceptance=predicted, answered=scores.count / scores.size)
    if predicted < spec.futility:
        chance, uniform = spec.finish_epsilon, draw("finish", gate.subject)
        x = vector("finish", context)
        if uniform < chance:
            return Check(predicted, Choice("finish", x, predicted, chance, uniform, True, "counterfactual", chance))
        return Check(predicted, Choice("finish", x, predicted, chance, uniform, False, "skip", 1.0 - chance))
    cost = mean_tokens(state, "gate") * (scores.size - scores.count)
    return Check(predicted, ask(state, "finish", gate.subject, context, draw, cost))


def _prior(state: State, context: AllocatorContext) -> float | None:
    """What the gate model says of the candidate, once it has an opinion."""
    allocator, learned = state.spec.allocator, state.learned.gate.weights
    if not isinstance(allocator, ValueBudgetAllocator) or learned.observed < allocator.min_observations:
        return None
    if not has_signal(learned, allocator.min_weight):
        return None
    return predict(allocator.model, learned, vector("gate", context))


def goes_on(gate: Gate, choice: Choice | None) -> Gate:
    """Past the check it is at. One that goes on by chance is not checked again: its propensity is that of this draw."""
    return chose(checked(gate, again=choice is None or choice.propensity == 1.0), choice)


def chose(gate: Gate, choice: Choice | None) -> Gate:
    """The choice belongs to the only card, or to the union."""
    if choice is None:
        return gate
    if len(gate.cards) > 1:
        return replace(gate, choices=(*gate.choices, choice))
    card = gate.cards[0]
    return replace(gate, cards=(replace(card, choices=(*card.choices, choice)),))


def learned_from(state: State, gate: Gate) -> State:
    """What was answered in a gate that is over tells what others may bring."""
    if not checks(state):
        return state
    return replace(state, rates=together(state.rates, partial(gate.base, gate.probe.scores, gate.own).seen))
