"""Regret against a run that knew every outcome, by hand."""

from __future__ import annotations

import pytest

from agentdescent.errors import UsageError
from agentdescent.experiment.regret import Regret, mean_regret, regret

KNOWS = ((100, 0.5), (200, 0.9))
RUN = ((100, 0.5), (600, 0.9))


def test_by_hand() -> None:
    assert regret(KNOWS, KNOWS, 1_000, 0.9) == Regret(0.0, 0.0, 1.0)
    found = regret(RUN, KNOWS, 1_000, 0.9)
    assert found.mean == pytest.approx(400 * 0.4 / 1_000)
    assert (found.final, found.tokens) == (0.0, 3.0)
    early = regret(RUN, KNOWS, 500, 0.9)
    assert early.final == pytest.approx(0.4)
    assert early.tokens == 2.5  # not reached: the cap
    assert regret(RUN, KNOWS, 1_000, 0.95).tokens is None
    assert regret(KNOWS, RUN, 1_000, 0.9).mean < 0.0


def test_a_target_is_reached_as_the_curves_say() -> None:
    """A sum of tenths is a little less than the tenths it is of."""
    knows = ((100, 0.5), (200, 0.1 + 0.7))
    assert knows[1][1] < 0.8
    assert regret(RUN, knows, 1_000, 0.8).tokens == 3.0


def test_the_mean_has_an_interval() -> None:
    found = mean_regret([Regret(0.1, 0.0, None), Regret(0.3, 0.0, None)])
    assert found.mid == pytest.approx(0.2)
    assert found.lo < 0.1
    assert found.hi > 0.3


def test_an_empty_curve_is_refused() -> None:
    with pytest.raises(UsageError, match="never scored the start"):
        regret((), KNOWS, 100, 0.5)
