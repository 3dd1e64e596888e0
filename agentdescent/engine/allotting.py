"""The allocator in a run: what it is asked, what it chose, and the one outcome that each choice comes to.

A choice is recorded with the event that it entails and travels with its proposal (`Card.choices`); nothing is looked up
by position or size. When a proposal is closed, each of its choices is observed once, with the vector it was made on.
A proposal still open when the run ends teaches nothing.
"""

from __future__ import annotations

from typing import assert_never

from agentdescent.allocation.allocator import Learned, chosen, observe
from agentdescent.allocation.allocator import decide as learned_choice
from agentdescent.allocation.choice import Choice, Facts
from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.allocation.features import AllocatorContext, Stage
from agentdescent.allocation.outcomes import Outcome
from agentdescent.allocation.own import Own, own_choice
from agentdescent.allocation.policies import Always, Lineage, Never, Randomly, choose
from agentdescent.budget.governor import remaining_fraction
from agentdescent.engine.draw import Draw, policy_of
from agentdescent.engine.state import State
from agentdescent.merge.card import Card
from agentdescent.record import replace

INERT = ValueBudgetAllocator()


def consult(state: State, stage: Stage, card: Card, draw: Draw, *, allowed: bool, rollouts: int) -> Choice | None:
    """What the allocator says to a spend of so many rollouts, at their mean cost so far; None where it has no say."""
    allocator = state.spec.allocator
    if allocator is None:
        return None
    governor = state.governor
    cost = rollouts * governor.spent.tokens / max(1, governor.spent.rollouts)
    facts = Facts(stage, _context(state, card), remaining_fraction(governor), allowed, cost, _left(state))
    uniform = draw(f"allocate-{stage}", card.subject)
    match allocator:
        case ValueBudgetAllocator():
            return learned_choice(allocator, state.learned, facts, uniform) if stage in allocator.stages else None
        case Always() | Never() | Randomly() | Lineage():
            return choose(allocator, facts, uniform)
        case Own():
            return own_choice(allocator, policy_of(draw), facts, card.subject, uniform)
        case _:
            assert_never(allocator)


def _context(state: State, card: Card) -> AllocatorContext:
    return AllocatorContext(
        advantage=card.advantage,
        size=len(card.ops),
        blast_radius=state.spec.strategy.blast_radius,
        before_after_delta=None if card.delta is None else card.delta / 1_000_000,
    )


def _left(state: State) -> float | None:
    """Share of the rounds that may still be made."""
    limit = state.governor.caps.rounds
    return None if limit is None else max(0.0, 1.0 - state.round / limit)


def recorded(state: State, choice: Choice | None) -> State:
    return state if choice is None else replace(state, learned=chosen(state.learned, choice))


def all_closed(state: State, cards: tuple[Card, ...], outcome: Outcome) -> State:
    """A candidate has come to this: its first contributor takes the outcome, the others are co-contributors."""
    for number, card in enumerate(cards):
        state = closed(state, card, outcome if number == 0 else "co-contributor")
    return state


def closed(state: State, card: Card, outcome: Outcome) -> State:
    """The proposal has come to this; so have the choices made about it."""
    if not card.choices or isinstance(state.spec.allocator, Own):  # what that learns is not ours
        return state
    config = state.spec.allocator if isinstance(state.spec.allocator, ValueBudgetAllocator) else INERT
    learned: Learned = state.learned
    for choice in card.choices:
        learned = observe(config, learned, choice, outcome, screen=state.spec.screen)
    return replace(state, learned=learned)
