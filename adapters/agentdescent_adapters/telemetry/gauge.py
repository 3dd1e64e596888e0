"""How much of a budget is spent, as a number and as a bar."""

from __future__ import annotations

from typing import TextIO

from agentdescent.budget.governor import Governor


def share_spent(governor: Governor) -> float | None:
    """Spent share of the tightest cap, in [0, 1]; None when nothing but rounds or time limits the run."""
    caps, spent = governor.caps, governor.spent
    shares = [
        used / cap
        for used, cap in (
            (spent.tokens, caps.tokens),
            (spent.cost, caps.cost),
            (spent.calls, caps.calls),
            (spent.rollouts, caps.rollouts),
        )
        if cap is not None
    ]
    return min(1.0, max(shares)) if shares else None


def bar(share: float, width: int, *, full: str = "█", empty: str = "░") -> str:
    """A bar of `width` characters for a share in [0, 1]."""
    filled = round(min(1.0, max(0.0, share)) * width)
    return full * filled + empty * (width - filled)


def can_draw(stream: TextIO) -> bool:
    """Whether block characters can be written there."""
    try:
        "█░▏".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
