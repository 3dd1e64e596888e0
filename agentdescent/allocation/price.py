"""What a token buys in this run, and whether a spend is expected to buy at least as much.

To go on where the expected gain per token is at least the long-run average, and to leave where it is not, maximises
that average (Charnov 1976, the marginal value theorem). Gains are in any one unit, such as millionths of the held-out
total.
"""

from __future__ import annotations

from agentdescent.record import Record


class Account(Record, frozen=True):
    """Exponential averages over closed candidates: `gain` and `tokens` of all, `per_commit` the gain of those that
    committed. Started at 0 together, so that gain / tokens is unbiased from the first."""

    gain: float = 0.0
    tokens: float = 0.0
    per_commit: float = 0.0
    commits: int = 0


def earn(account: Account, rate: float, gain: float, tokens: float, *, committed: bool) -> Account:
    """One candidate is closed: it used `tokens`, the head rose by `gain`. `rate` in (0, 1]: weight of the newest."""
    keep = 1.0 - rate
    per_commit, commits = account.per_commit, account.commits
    if committed:
        per_commit = gain if commits == 0 else keep * per_commit + rate * gain
        commits += 1
    return Account(keep * account.gain + rate * gain, keep * account.tokens + rate * tokens, per_commit, commits)


def price(account: Account) -> float:
    """Gain per token; 0 before anything was used."""
    return account.gain / account.tokens if account.tokens > 0.0 else 0.0


def pace(remaining: float, left: float | None, limit: float) -> float:
    """By what to multiply the price so that tokens and rounds (or rollouts) run out together, within [1/limit, limit].

    Above 1 when the tokens would run out first, below 1 when some would be left over; 1 where nothing else is limited.
    """
    if left is None:
        return 1.0
    if remaining * limit <= left:
        return limit
    return max(1.0 / limit, left / remaining)


def worth(account: Account, p: float, cost: float, factor: float) -> bool:
    """p * expected gain / cost >= factor * price, without a division."""
    return p * account.per_commit * account.tokens >= factor * account.gain * cost
