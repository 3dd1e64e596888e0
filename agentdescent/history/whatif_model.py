"""What a decision comes to, predicted from others: the model of the doubly robust estimate.

    q(a) = b + w.x     ridge regression (Hoerl and Kennard 1970) of what came of action a, penalty 3 on w, at least 0

cross-fitted (Chernozhukov et al. 2018): of five runs or more each is predicted from the others; of fewer, each fifth of
the candidates from the other four. So the draw of a decision never enters its own prediction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int64]

FOLDS = 5
_PENALTY = 3.0
_LEAST = 8
"""Outcomes of an action below which nothing is predicted of it."""


def predicted(x: Floats, y: Floats, spent: Floats, fold: Ints) -> tuple[Floats, Floats]:
    """(q(skip), q(spend)) of n decisions; 0 where too little is known. `x`: n x d features; `y`: what they came to;
    `spent`: 1 or 0; `fold`: each is predicted from those of another."""
    import numpy as np

    rows = np.column_stack((np.ones(len(y)), x))
    found = np.zeros((2, len(y)))
    penalty = _PENALTY * np.eye(rows.shape[1])
    penalty[0, 0] = 1e-9
    for own in np.unique(fold):
        inside = fold == own
        for action in (0, 1):
            known = rows[~inside & (spent == action)]
            if len(known) >= _LEAST:
                sums = known.T @ y[~inside & (spent == action)]
                weights = np.linalg.solve(known.T @ known + penalty, sums)
                found[action, inside] = np.maximum(0.0, rows[inside] @ weights)
    return found[0], found[1]


def folds(run: Ints, subject: Ints) -> Ints:
    """By run, where there are enough; else by candidate."""
    import numpy as np

    return run if len(np.unique(run)) >= FOLDS else (subject % FOLDS)
