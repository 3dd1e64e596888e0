"""FlatPuct and CostEfficient: ranks, priors, costs, visits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.record import replace
from agentdescent.search import Candidate, CostEfficient, FlatPuct, SelectionContext, select
from agentdescent.search.candidate import lineage, parents
from agentdescent.search.puct import priors, ranks, relative_costs
from tests.search.populations import contexts, no_draw


def scored(*scores: int | None) -> tuple[Candidate, ...]:
    return tuple(Candidate(f"a{i}", i, score) for i, score in enumerate(scores))


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((7,), [0.5]),
        ((None,), [0.5]),
        ((1, 3, 2), [0.0, 1.0, 0.5]),
        ((5, 5), [0.5, 0.5]),
        ((1, 5, 5), [0.0, 0.75, 0.75]),
        ((0, None, 9), [0.5, 0.0, 1.0]),
        ((None, None, 0), [0.25, 0.25, 1.0]),
    ],
)
def test_ranks(scores: tuple[int | None, ...], expected: list[float]) -> None:
    assert ranks(scored(*scores)) == expected


def test_priors_and_costs() -> None:
    some = tuple(Candidate(f"a{i}", prior=p, cost=c) for i, (p, c) in enumerate([(1.0, 300), (None, None), (3.0, 100)]))
    assert priors(some, 0.0) == [1 / 3] * 3
    assert priors(some, 1.0) == [1 / 6, 2 / 6, 3 / 6]
    assert priors(scored(1, 2), 1.0) == [0.5, 0.5]
    assert priors((Candidate("a", prior=0.0), Candidate("b", prior=0.0)), 1.0) == [0.5, 0.5]
    assert relative_costs(some) == [1.5, 1.0, 0.5]
    assert relative_costs((Candidate("a", cost=0), Candidate("b", cost=3))) == [0.5, 1.5]
    assert relative_costs(scored(1, 2)) == [1.0, 1.0]


def test_values_by_hand() -> None:
    """r + c P sqrt(N) / (1 + n): 1 + 0.5 * 3 / 10 = 1.15 against 0 + 0.5 * 3 / 1 = 1.5."""
    pair = (Candidate("a", 0, 9, visits=9), Candidate("b", 1, 1))
    assert select(FlatPuct(), SelectionContext(pair), no_draw) == (1,)
    assert select(FlatPuct(c_puct=0.5), SelectionContext(pair), no_draw) == (0,)
    assert select(CostEfficient(), SelectionContext(pair, budget_remaining=0.5), no_draw) == (0,)
    dear = (pair[0], replace(pair[1], cost=300))
    assert select(CostEfficient(), SelectionContext((replace(pair[0], cost=100), dear[1])), no_draw) == (0,)


def test_a_pick_visits_itself_and_its_ancestors() -> None:
    chain = (
        Candidate("root", 0, 1, visits=4),
        Candidate("mid", 1, 2, visits=2, parent="root"),
        Candidate("leaf", 2, 3, parent="mid"),
        Candidate("other", 3, 3, visits=1, parent="gone"),
    )
    assert parents(chain) == [-1, 0, 1, -1]
    assert lineage(parents(chain), 2) == [2, 1, 0]
    assert lineage([1, 0], 0) == [0, 1]
    expected, visits = [], [candidate.visits for candidate in chain]
    for _ in range(6):
        values = [r + 0.25 * math.sqrt(sum(visits)) / (1 + n) for r, n in zip(ranks(chain), visits, strict=True)]
        expected.append(values.index(max(values)))
        for i in lineage(parents(chain), expected[-1]):
            visits[i] += 1
    assert select(FlatPuct(), SelectionContext(chain, n_workers=6), no_draw) == tuple(expected)
    assert len(set(expected)) > 1


@given(contexts(), st.sampled_from([0.0, 0.3, 1.0, 2.0]), st.sampled_from([0.0, 0.5, 1.0]))
def test_without_cost_and_annealing_it_is_flat_puct(context: SelectionContext, c: float, exponent: float) -> None:
    plain = CostEfficient(cost_exponent=0.0, anneal=False, c_puct=c, prior_exponent=exponent)
    assert select(plain, context, no_draw) == select(FlatPuct(c, exponent), context, no_draw)


@given(contexts(), st.integers(0, 10**9), st.sampled_from([0.5, 1.0, 3.0]))
def test_uniform_costs_change_nothing(context: SelectionContext, cost: int, exponent: float) -> None:
    uniform = tuple(
        replace(candidate, cost=None if candidate.cost is None else cost) for candidate in context.candidates
    )
    assert set(relative_costs(uniform)) == {1.0}
    chosen = select(CostEfficient(exponent, anneal=False), replace(context, candidates=uniform), no_draw)
    assert chosen == select(FlatPuct(), context, no_draw)


@given(contexts())
def test_a_budget_beyond_its_range_is_clamped(context: SelectionContext) -> None:
    def at(remaining: float) -> tuple[int, ...]:
        return select(CostEfficient(), replace(context, budget_remaining=remaining), no_draw)

    assert (at(-3.0), at(7.0)) == (at(0.0), at(1.0))
    best = max(ranks(context.candidates))
    assert {ranks(context.candidates)[i] for i in at(0.0)} == {best}
