"""Where workers start: every policy by an example, and what all of them promise."""

from __future__ import annotations

from collections import Counter
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.engine.draw import seeded
from agentdescent.errors import UsageError
from agentdescent.record import replace
from agentdescent.search import (
    Archive,
    Beam,
    Candidate,
    CladeThompson,
    CostEfficient,
    FlatPuct,
    ParetoFrontier,
    Selection,
    SelectionContext,
    SingleHead,
    select,
)
from agentdescent.search.candidate import MILLION, weighted
from agentdescent.search.clade import clades
from agentdescent.search.pareto import frontier, rows_of, wins
from agentdescent.search.selection import check
from tests.search.populations import always, contexts, no_draw

POLICIES: tuple[Selection, ...] = (
    SingleHead(),
    FlatPuct(),
    CostEfficient(),
    Beam(),
    Beam(3),
    Archive(),
    Archive(0.1, novelty=False),
    ParetoFrontier(),
    ParetoFrontier("win-frequency"),
    ParetoFrontier("top-k", 2),
    CladeThompson(),
)


def by_task(*rows: tuple[int | None, ...]) -> tuple[Candidate, ...]:
    return tuple(Candidate(f"a{i}", i, None, row) for i, row in enumerate(rows))


@given(st.sampled_from(POLICIES), contexts(), st.integers(0, 3))
def test_one_candidate_a_worker_and_the_same_again(policy: Selection, context: SelectionContext, seed: int) -> None:
    chosen = select(policy, context, seeded(seed))
    assert len(chosen) == context.n_workers
    assert set(chosen) <= set(range(len(context.candidates)))
    assert select(policy, context, seeded(seed)) == chosen
    for value, kind in ((policy, Selection), (context, SelectionContext)):
        assert msgspec.json.decode(msgspec.json.encode(value), type=kind) == value


@given(st.sampled_from(POLICIES), st.integers(1, 4))
def test_a_candidate_alone_is_picked(policy: Selection, n: int) -> None:
    assert select(policy, SelectionContext((Candidate("a"),), n_workers=n), seeded(0)) == (0,) * n


def test_single_head() -> None:
    context = SelectionContext((Candidate("a", 0, 9), Candidate("b", 1, 1)), head=1, n_workers=3)
    assert select(SingleHead(), context, no_draw) == (1, 1, 1)


def test_beam_takes_what_was_not_scored_first_then_the_best_in_turn() -> None:
    candidates = tuple(Candidate(f"a{i}", i, score) for i, score in enumerate((5, None, 9, 5)))
    context = SelectionContext(candidates, n_workers=4)
    assert select(Beam(1), context, no_draw) == (1, 1, 1, 1)
    assert select(Beam(3), context, no_draw) == (1, 2, 0, 1)
    assert select(Beam(3), replace(context, round=1), no_draw) == (2, 0, 1, 2)
    assert select(Beam(9), context, no_draw) == (1, 2, 0, 3)
    assert select(ParetoFrontier("top-k", 3), context, no_draw) == (1, 2, 0, 1)


# --- draws ------------------------------------------------------------------------------------------------------------


def test_a_weighted_draw_falls_into_shares_of_the_line() -> None:
    weights = [1.0, 0.0, 2.0, 1.0, 0.0]
    assert [weighted(weights, u) for u in (0.0, 0.249, 0.25, 0.749, 0.75, 0.999_999)] == [0, 0, 2, 2, 3, 3]


def test_archive_weighs_scores_and_novelty() -> None:
    """exp(1) : 1 : exp(1/2) = 0.507 : 0.186 : 0.307; with visits 3, 0, 1 it is 0.680 : 1 : 0.824."""
    candidates = (Candidate("a", 0, MILLION, visits=3), Candidate("b", 1, 0), Candidate("c", 2, None, visits=1))
    context = SelectionContext(candidates)
    plain = [select(Archive(novelty=False), context, always(u)) for u in (0.50, 0.51, 0.69, 0.70)]
    assert plain == [(0,), (1,), (1,), (2,)]
    novel = [select(Archive(), context, always(u)) for u in (0.27, 0.28, 0.66, 0.68)]
    assert novel == [(0,), (1,), (1,), (2,)]
    # A pick is a visit: b weighs 1, then 1/2, and when c weighs 0.550 in place of 0.824 it is b's turn again.
    assert select(Archive(), replace(context, n_workers=3), always(0.6)) == (1, 2, 1)


def test_draws_are_keyed_by_round_and_worker() -> None:
    keys: list[tuple[str, int]] = []

    def draw(purpose: str, key: int) -> float:
        keys.append((purpose, key))
        return 0.5

    select(Archive(), SelectionContext((Candidate("a"), Candidate("b")), round=3, n_workers=2), draw)
    assert keys == [("select", 6), ("select", 7)]


# --- pareto -----------------------------------------------------------------------------------------------------------


def dominates(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return a != b and all(x >= y for x, y in zip(a, b, strict=True))


@given(contexts())
def test_frontier_and_wins_against_their_definitions(context: SelectionContext) -> None:
    rows = rows_of(context.candidates)
    undominated = [i for i, row in enumerate(rows) if not any(dominates(other, row) for other in rows)]
    assert frontier(rows) == undominated
    best = [max(column) for column in zip(*rows, strict=True)]
    expected = [
        sum(score == top != -1 for score, top in zip(row, best, strict=True)) if i in undominated else 0
        for i, row in enumerate(rows)
    ]
    assert wins(rows) == expected


def test_pareto_modes_by_example() -> None:
    candidates = by_task((9, 0, 5, 5), (0, 9, 5, 4), (9, 0, 5, 4), (3, 3, 3, 3), (None, None, 9, None))
    assert frontier(rows_of(candidates)) == [0, 1, 3, 4]
    assert wins(rows_of(candidates)) == [2, 1, 0, 0, 1]
    context = SelectionContext(candidates, n_workers=5)
    assert select(ParetoFrontier(), context, no_draw) == (0, 1, 3, 4, 0)
    drawn = [select(ParetoFrontier("win-frequency"), context, always(u))[0] for u in (0.0, 0.49, 0.5, 0.74, 0.75)]
    assert drawn == [0, 0, 1, 1, 4]


def test_without_scores_by_task_the_head_is_picked() -> None:
    context = SelectionContext((Candidate("a", 0, 9), Candidate("b", 1, 1)), head=1, n_workers=2)
    assert select(ParetoFrontier(), context, no_draw) == (1, 1)
    assert select(ParetoFrontier("win-frequency"), context, no_draw) == (1, 1)


def test_equal_rows_win_alike() -> None:
    assert wins([(1, 0), (1, 0), (0, 1), (0, 0)]) == [1, 1, 1, 0]


# --- clades -----------------------------------------------------------------------------------------------------------


def test_a_clade_holds_all_that_descends() -> None:
    million = MILLION
    candidates = (
        Candidate("root", 0, None, (0, million)),
        Candidate("left", 1, None, (million, million), parent="root"),
        Candidate("right", 2, None, (None, 250_000), parent="root"),
        Candidate("leaf", 3, None, (million, 0), parent="left"),
        Candidate("alone", 4, None, (0, 0), parent="gone"),
    )
    successes, failures = clades(SelectionContext(candidates))
    assert successes == [4_250_000, 3_000_000, 250_000, 1_000_000, 0]
    assert failures == [2_750_000, 1_000_000, 750_000, 1_000_000, 2_000_000]


def test_thompson_prefers_the_better_clade_and_more_so_as_money_runs_out() -> None:
    good, bad = (MILLION,) * 6 + (0,) * 4, (MILLION,) * 4 + (0,) * 6
    context = SelectionContext(by_task(bad, good), n_workers=400)
    shares = []
    for remaining in (1.0, 0.2, 0.02):
        chosen = select(CladeThompson(), replace(context, budget_remaining=remaining), seeded(1))
        shares.append(Counter(chosen)[1] / 400)
    assert shares[0] == pytest.approx(0.81, abs=0.06)  # Pr(Beta(7, 5) > Beta(5, 7)) = 0.803
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > 0.99


# --- what is wrong ----------------------------------------------------------------------------------------------------


def test_the_policies_above_are_possible() -> None:
    for policy in POLICIES:
        check(policy)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Beam(0), "k is 0: it must be a whole number of candidates"),
        (ParetoFrontier(k=0), "k is 0"),
        (Archive(temperature=0.0), "temperature is 0.0"),
        (CladeThompson(0.0), "least_remaining is 0.0"),
        (FlatPuct(c_puct=-1.0), "c_puct is -1.0"),
        (FlatPuct(prior_exponent=float("nan")), "prior_exponent is nan"),
        (CostEfficient(cost_exponent=-1.0), "cost_exponent is -1.0"),
    ],
)
def test_what_is_impossible_is_named(policy: Selection, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check(policy)


def test_no_policy_reads_the_order_of_anything_but_ties() -> None:
    """With distinct scores and no ties, reversing the population reverses the picks."""
    scores = (3, 9, 1, 7)
    context = SelectionContext(tuple(Candidate(f"a{i}", i, s, visits=i) for i, s in enumerate(scores)), n_workers=3)
    turned = replace(context, candidates=context.candidates[::-1], head=3)
    for policy in (SingleHead(), FlatPuct(), CostEfficient(), Beam(2)):
        assert tuple(3 - i for i in select(policy, turned, no_draw)) == select(policy, context, no_draw)


def test_small_boards_of_binary_scores_exhaustively() -> None:
    for flat in product((0, 1), repeat=9):
        rows = [flat[:3], flat[3:6], flat[6:]]
        undominated = [i for i, row in enumerate(rows) if not any(dominates(other, row) for other in rows)]
        assert frontier(rows) == undominated
        assert [i for i, count in enumerate(wins(rows)) if count] == undominated
