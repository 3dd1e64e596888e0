"""What bench.calibration compares with is the truth, and what it counts is counted right."""

from __future__ import annotations

import pytest

from agentdescent.allocation import Always, Never
from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.engine.event import Event
from agentdescent.experiment.regret import Regret
from agentdescent.history.recall import Recall
from agentdescent.history.whatif_gates import gates_again
from agentdescent.history.whatif_log import decisions_of
from agentdescent.job import Options
from agentdescent.search.sampling import Stakes
from agentdescent_adapters.worlds.suite import setting
from bench.calibration import Missed, within
from bench.coverage import Row, engine, scripted, summary
from bench.deviation import Came, recorded
from bench.trial import trial

EVEN = ValueBudgetAllocator(
    stages=("verify", "gate"), budget_start=2.0, min_propensity=0.5, max_consecutive_skips=10**6
)
OPTIONS: Options = {
    "n_workers": 1,
    "self_verify": True,
    "screen": True,
    "fusion": "none",
    "sampling": Stakes(),
    "max_tokens": 3_000_000,
    "allocator": EVEN,
}


def test_a_run_taken_otherwise_is_the_run_that_chose_otherwise() -> None:
    """The first gate that was skipped: what the fork came to is what a run that always spends there came to."""
    cap = 400_000
    options: Options = {**OPTIONS, "self_verify": False, "screen": False, "seed": 1}
    options["allocator"] = ValueBudgetAllocator(
        stages=("gate",), budget_start=2.0, min_propensity=0.5, max_consecutive_skips=10**6
    )
    events, otherwise = recorded(setting("clusters", 1), options, cap)
    made = next(one for one in decisions_of(events, Always()).decisions if not one.spent)
    spending: Options = {**options, "allocator": None}
    full, _ = recorded(setting("clusters", 1), spending, cap)
    before = all(one.spent for one in decisions_of(events, Always()).decisions if one.number < made.number)
    assert before
    same = next(one for one in decisions_of(full, Never(("gate",))).decisions if one.subject == made.subject)
    assert otherwise[made.number] == Came(same.tokens, same.commits, same.gain)
    assert (made.tokens, made.commits) == (0, 0)


def test_every_choice_of_a_run_has_its_counterpart() -> None:
    events, otherwise = recorded(setting("clusters", 3), {**OPTIONS, "seed": 3}, 300_000)
    decisions = decisions_of(events, Always(("verify", "gate"))).decisions
    assert len(decisions) > 5
    assert {one.number for one in decisions} == set(otherwise)
    for one in decisions:
        if one.stage == "gate" and one.spent:
            assert otherwise[one.number] == Came()


def test_gates_foretell_a_whole_run_in_a_world() -> None:
    logs: dict[bool, list[Event]] = {True: [], False: []}
    for curtail, log in logs.items():
        options: Options = {"seed": 2, "rounds": 8, "n_workers": 2, "curtail": curtail}
        trial(setting("clusters", 2), options, 4_000_000, watch=log.append)
    again, real = gates_again(logs[False], curtail=True), gates_again(logs[True])
    assert again.lasting
    saved = sum(gate.tokens - gate.tokens_low for gate in again.gates)
    assert saved > 0
    assert again.tokens - saved == real.tokens


def test_a_scripted_log_and_one_of_the_engine_give_intervals_of_every_part() -> None:
    rows = scripted(3)
    assert {row.part for row in rows} == {"verify", "gate", "total"}
    assert {row.method for row in rows} == {"ips", "snips", "dr"}
    assert {row.where for row in engine(0)} == {"engine"}
    assert scripted(3) == rows


def test_the_summary_counts() -> None:
    rows = [Row("a", "gate", "tokens", "dr", side) for side in (0, 0, -1, 1, None)]
    assert summary(rows, "where", "method") == {
        "a/dr": {"intervals": 4, "coverage": 0.5, "below": 0.25, "above": 0.25, "refused": 0.2}
    }


def test_pools_of_missed_gain() -> None:
    behind = Regret(0.0, 0.0, None)
    none = [Missed(Recall(stopped=4, finished=2, commits=3, gain=3_000_000), 0.3, 0.0, behind)] * 10
    much = [Missed(Recall(commits=3, gain=3_000_000), 0.1, 0.9, behind)] * 10  # nothing was stopped, so nothing is lost
    assert within(none) == (1, 1, 0.0, 0.0)
    held, pools, true, stated = within([*none, *much])
    assert (held, pools, stated) == (1, 2, 0.0)
    assert true == pytest.approx(0.45)
