"""Shares are whole, fair and complete."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.errors import UsageError
from agentdescent.experiment import Budget

amounts = st.none() | st.integers(0, 10**12)


@given(amounts, amounts, amounts, st.integers(1, 50))
def test_shares_sum_to_the_whole_and_differ_by_at_most_one(
    rollouts: int | None, calls: int | None, tokens: int | None, n: int
) -> None:
    parts = Budget(rollouts, calls, tokens).split(n)
    assert len(parts) == n
    for whole, name in ((rollouts, "rollouts"), (calls, "calls"), (tokens, "tokens")):
        shares = [getattr(part, name) for part in parts]
        if whole is None:
            assert shares == [None] * n
        else:
            assert sum(shares) == whole
            assert max(shares) - min(shares) <= 1


def test_larger_shares_come_first() -> None:
    assert Budget(tokens=10, calls=2).split(3) == (Budget(None, 1, 4), Budget(None, 1, 3), Budget(None, 0, 3))


@pytest.mark.parametrize("n", [0, -1, 2.0, True])
def test_a_budget_is_split_into_a_whole_number_of_parts(n: int) -> None:
    with pytest.raises(UsageError, match="whole number of at least 1"):
        Budget(tokens=10).split(n)
