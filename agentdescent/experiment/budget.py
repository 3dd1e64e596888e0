"""What every arm of a comparison may use, and how it is shared out."""

from __future__ import annotations

from agentdescent.errors import UsageError
from agentdescent.record import Record


class Budget(Record, frozen=True):
    """A limit in each unit; None: none."""

    rollouts: int | None = None
    calls: int | None = None
    tokens: int | None = None

    def split(self, n: int) -> tuple[Budget, ...]:
        """`n` budgets that sum to this one in every unit; shares differ by at most one, larger ones first."""
        if type(n) is not int or n < 1:
            raise UsageError(f"a budget cannot be split into {n!r} parts: it must be a whole number of at least 1")
        shares = (_shares(self.rollouts, n), _shares(self.calls, n), _shares(self.tokens, n))
        return tuple(Budget(*of_one) for of_one in zip(*shares, strict=True))


def _shares(whole: int | None, n: int) -> tuple[int | None, ...]:
    if whole is None:
        return (None,) * n
    share, rest = divmod(whole, n)
    return tuple(share + (i < rest) for i in range(n))
