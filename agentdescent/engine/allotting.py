"""The allocator in a run: what it is asked, what it chose, and the one outcome that each choice comes to.

A choice is recorded with the event that it entails and travels with its proposal (`Card.choices`) or, about a union,
with the candidate and its gate; nothing is looked up by position or size. When a proposal or a union is closed, each of
its choices is observed once, with the vector it was made on, and what it brought and cost is booked once. What is still
open when the run ends teaches nothing.
"""

from __future__ import annotations

from typing import assert_never

from agentdescent.allocation.allocator import book, chosen, observe
from agentdescent.allocation.allocator import decide as learned_choice
from agentdescent.allocation.choice import Choice, Facts
from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.allocation.features import AllocatorContext, Stage
from agentdescent.allocation.outcomes import Outcome, label_of
from agentdescent.allocation.own import Own, own_choice
from agentdescent.allocation.policies import Always, Lineage, Never, Randomly, choose
from agentdescent.artifact.diff import Ops
from agentdescent.budget.governor import Purpose, remaining_fraction
from agentdescent.engine.draw import Draw, policy_of
from agentdescent.engine.state import Kin, State
from agentdescent.merge.card import Card
from agentdescent.merge.gate import Gate
from agentdescent.merge.scores import score_at
from agentdescent.record import replace

INERT = ValueBudgetAllocator()
MILLION = 1_000_000


def consult(state: State, stage: Stage, card: Card, draw: Draw, *, allowed: bool, rollouts: int) -> Choice | None:
    """What the allocator says to a spend of so many rollouts, at their mean cost so far; None where it has no say."""
    if not decides(state, stage):
        return None
    governor = state.governor
    cost = rollouts * governor.spent.tokens / max(1, governor.spent.rollouts)
    context = context_of(state, (card,), card.ops)
    return ask(state, stage, card.subject, context, draw, cost, allowed=allowed)


def decides(state: State, stage: Stage) -> bool:
    """Whether the allocator has a say at this stage."""
    allocator = state.spec.allocator
    return allocator is not None and stage in allocator.stages


def ask(
    state: State,
    stage: Stage,
    subject: int,
    context: AllocatorContext,
    draw: Draw,
    cost: float,
    *,
    allowed: bool = True,
) -> Choice | None:
    """`cost`: expected tokens of the spend and what it entails."""
    allocator = state.spec.allocator
    if allocator is None or stage not in allocator.stages:
        return None
    facts = Facts(stage, context, remaining_fraction(state.governor), allowed, cost, left_of(state))
    uniform = draw("finish" if stage == "finish" else f"allocate-{stage}", subject)
    match allocator:
        case ValueBudgetAllocator():
            return learned_choice(allocator, state.learned, facts, uniform)
        case Always() | Never() | Randomly() | Lineage():
            return choose(allocator, facts, uniform)
        case Own():
            return own_choice(allocator, policy_of(draw), facts, subject, uniform)
        case _:
            assert_never(allocator)


def mean_tokens(state: State, purpose: Purpose) -> float:
    """Of a rollout for this purpose so far; of any, where there was none."""
    for line in state.governor.ledger:
        if line.purpose == purpose and line.used.rollouts:
            return line.used.tokens / line.used.rollouts
    spent = state.governor.spent
    return spent.tokens / max(1, spent.rollouts)


def context_of(state: State, cards: tuple[Card, ...], ops: Ops) -> AllocatorContext:
    """A card, or a union with the vector of its own: what is not of the whole is that of its first contributor."""
    card, cluster = cards[0], state.setup.tasks[cards[0].task].cluster
    commits = closed = kin_commits = kin_closed = 0
    for kin in state.kin:
        if kin.cluster == cluster:
            commits, closed = kin.commits, kin.closed
        else:
            kin_commits, kin_closed = kin_commits + kin.commits, kin_closed + kin.closed
    return AllocatorContext(
        advantage=card.advantage,
        size=len(ops),
        blast_radius=state.spec.strategy.blast_radius,
        entrants=len(cards),
        before_after_delta=None if card.delta is None else card.delta / MILLION,
        commits=commits,
        closed=closed,
        kin_commits=kin_commits,
        kin_closed=kin_closed,
    )


def base_score(state: State, card: Card) -> float | None:
    """The head's mean on the held-out tasks of the card's cluster."""
    cluster = state.setup.tasks[card.task].cluster
    tasks, scores = state.setup.tasks, state.head.scores
    own = [score_at(scores, at) for at, task in enumerate(state.split.heldout) if tasks[task].cluster == cluster]
    return sum(own) / (MILLION * len(own)) if own else None


def left_of(state: State) -> float | None:
    """Share of the rounds or rollouts that may still be made, the lesser one; None where neither is limited."""
    caps, rollouts = state.governor.caps, state.governor.spent.rollouts
    used = [done / cap for done, cap in ((state.round, caps.rounds), (rollouts, caps.rollouts)) if cap is not None]
    return max(0.0, 1.0 - max(used)) if used else None


def recorded(state: State, choice: Choice | None) -> State:
    return state if choice is None else replace(state, learned=chosen(state.learned, choice))


def gate_closed(state: State, gate: Gate, outcome: Outcome) -> State:
    """A candidate has come to this: its first contributor takes the outcome, the others are co-contributors, and what
    was chosen about a union has the union's own."""
    gain, tokens = 0.0, gate.tokens + sum(card.tokens for card in gate.cards)
    if outcome == "committed":
        gain = (gate.probe.scores.total - gate.base.total) / gate.base.size
    state = labelled(state, gate.choices, outcome)
    for number, card in enumerate(gate.cards):
        if number == 0:
            state = closed(state, replace(card, tokens=tokens), outcome, gain)
        else:
            state = closed(state, replace(card, tokens=0), "co-contributor")
    return state


def closed(state: State, card: Card, outcome: Outcome, gain: float = 0.0) -> State:
    """The proposal has come to this; so have the choices made about it. `gain`: rise of the held-out mean, in
    millionths."""
    if state.spec.allocator is not None and label_of(outcome) != "recorded":
        state = _counted(state, state.setup.tasks[card.task].cluster, outcome)
    return labelled(state, card.choices, outcome, gain, card.tokens)


def labelled(
    state: State, choices: tuple[Choice, ...], outcome: Outcome, gain: float = 0.0, cost: float = 0.0
) -> State:
    """Each of these choices has come to this; gain and cost, of the candidate from its rollout on, are booked once."""
    allocator, learned = state.spec.allocator, state.learned
    if isinstance(allocator, Own):  # what that learns is not ours
        return state
    learns = isinstance(allocator, ValueBudgetAllocator)
    config = allocator if isinstance(allocator, ValueBudgetAllocator) else INERT
    for choice in choices:
        learned = observe(config, learned, choice, outcome, screen=state.spec.screen, learns=learns)
    if allocator is not None:
        learned = book(config, learned, gain, cost, committed=outcome == "committed")
    return state if learned is state.learned else replace(state, learned=learned)


def _counted(state: State, cluster: str, outcome: Outcome) -> State:
    won = outcome == "committed"
    for i, kin in enumerate(state.kin):
        if kin.cluster == cluster:
            more = Kin(cluster, kin.commits + won, kin.closed + 1)
            return replace(state, kin=(*state.kin[:i], more, *state.kin[i + 1 :]))
    return replace(state, kin=(*state.kin, Kin(cluster, int(won), 1)))
