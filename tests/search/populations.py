"""Arbitrary populations, and draws for policies that should make none."""

from __future__ import annotations

from hypothesis import strategies as st

from agentdescent.search import Candidate, SelectionContext
from agentdescent.search.candidate import MILLION, Draw

SCORES = st.one_of(st.none(), st.sampled_from([0, MILLION // 2, MILLION]), st.integers(0, MILLION))


def no_draw(purpose: str, key: int) -> float:
    raise AssertionError(f"this policy draws nothing: {purpose}, {key}")


def always(u: float) -> Draw:
    return lambda purpose, key: u


@st.composite
def contexts(draw: st.DrawFn) -> SelectionContext:
    size, width = draw(st.integers(1, 12)), draw(st.integers(0, 5))
    candidates = tuple(
        Candidate(
            f"a{i}",
            i,
            draw(SCORES),
            tuple(draw(st.lists(SCORES, min_size=width, max_size=width))) if draw(st.booleans()) else (),
            draw(st.integers(0, 9)),
            f"a{draw(st.integers(0, 14))}" if draw(st.booleans()) else None,
            draw(st.one_of(st.none(), st.floats(0.0, 5.0))),
            draw(st.one_of(st.none(), st.integers(0, 5_000))),
        )
        for i in range(size)
    )
    return SelectionContext(
        candidates,
        draw(st.integers(0, size - 1)),
        draw(st.integers(0, 5)),
        draw(st.integers(1, 6)),
        draw(st.sampled_from([0.0, 0.3, 1.0])),
    )
