"""What the outcome of a decision teaches: a positive label, a negative one, or nothing."""

from __future__ import annotations

from typing import Literal, TypeAlias, assert_never

Outcome: TypeAlias = Literal[
    "committed",
    "below-threshold",
    "regression",
    "all-stale",
    "oversized",
    "duplicate",
    "declined",
    "lost-conflict",
    "lost-tournament",
    "co-contributor",
    "oracle-rejected",
    "cas-conflict",
    "not-worth-gating",
    "futile",
    "failed",
    "unresolved",
]
"""How a proposal or candidate can end."""

Label: TypeAlias = Literal["positive", "negative", "recorded"]


def label_of(outcome: Outcome) -> Label:
    """`recorded`: kept with the decision and not learned, because it does not say whether the candidate is any good.

    `futile` is a prediction: learning from it would teach the model its own opinion.
    """
    match outcome:
        case "committed":
            return "positive"
        case (
            "below-threshold" | "regression" | "oracle-rejected" | "cas-conflict" | "lost-tournament" | "lost-conflict"
        ):
            return "negative"
        case "all-stale" | "failed" | "unresolved" | "co-contributor" | "not-worth-gating" | "futile":
            return "recorded"
        case "oversized" | "duplicate" | "declined":
            return "recorded"
        case _:
            assert_never(outcome)
