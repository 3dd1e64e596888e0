"""When going on is not worth it, or not expected to fit: what rounds bought and cost.

The fold takes a point when the base is scored and at the end of each round, which is when the next begins; on the
continuous schedule at the end of each merge, which is when the next begins. `decide` looks at a barrier as if the round
had been folded; on the continuous schedule at what was folded, so that an end holds until a merge brings a gain.
"""

from __future__ import annotations

from agentdescent.budget import projection
from agentdescent.budget.returns import DiminishingReturns, Returns, diminished, observe
from agentdescent.engine.population import dev_head
from agentdescent.engine.state import State
from agentdescent.record import replace

_MILLION = 1_000_000


def _after(state: State, rule: DiminishingReturns) -> Returns:
    scores = dev_head(state).scores
    return observe(rule, state.returns, state.governor.spent.tokens, scores.total / (_MILLION * scores.size))


def search_begins(state: State) -> State:
    """The base is scored: the first point, and the start of the first round."""
    state = _point(state)
    if state.spec.projection != "round":
        return state
    return replace(state, costs=projection.Rounds(began=state.governor.spent.tokens))


def round_ended(state: State) -> State:
    """On the rounds schedule."""
    if state.spec.schedule == "continuous":
        return state
    state = _point(state)
    if state.spec.projection != "round":
        return state
    return replace(state, costs=projection.observe(state.costs, state.governor.spent.tokens))


def merge_begins(state: State) -> State:
    """On the continuous schedule the merge before it, if any, is over."""
    return state if state.spec.schedule == "rounds" or state.sweep is None else _point(state)


def _point(state: State) -> State:
    rule = state.spec.diminishing_returns
    return state if rule is None else replace(state, returns=_after(state, rule))


def has_diminished(state: State) -> bool:
    rule = state.spec.diminishing_returns
    if rule is None:
        return False
    return diminished(rule, state.returns if state.spec.schedule == "continuous" else _after(state, rule))


def affords_round(state: State) -> bool:
    """At a barrier: whether the next round is expected to fit, where the spec asks."""
    governor = state.governor
    cap = governor.caps.tokens
    if state.spec.projection != "round" or cap is None:
        return True
    free = cap - governor.spent.tokens - governor.due.tokens - governor.held.tokens
    return projection.affords_next_round(projection.observe(state.costs, governor.spent.tokens), free)
