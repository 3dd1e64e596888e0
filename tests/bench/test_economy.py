"""The driver of bench.economy gives the log of `evolve`; its figures are those of their formulas; and it can fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentdescent import evolve
from agentdescent.engine.event import Event
from agentdescent.experiment.curves import tokens_to
from agentdescent.history.memory import MemoryLog
from agentdescent.job import Options
from agentdescent_adapters.worlds.calls import Immediate
from agentdescent_adapters.worlds.suite import setting
from bench import economy
from bench.arms import ADDED, BEST, CLOCK, OFF, ON, options_of
from bench.cells import MEASURES, Cells, value
from bench.figures import ratio
from bench.trial import Trial, trial

CAP = 500_000
PATH = ((10, 0.3), (20, 0.5), (30, 0.4), (40, 0.7))


def of_evolve(world: str, options: Options) -> list[Event]:
    made, log = setting(world, 3), MemoryLog()
    given: Options = {**made.options, **options, "rounds": None, "agent": Immediate(made.agent), "log": log}
    evolve(made.tasks, made.scorer, **given)
    return list(log.events())


@pytest.mark.parametrize(
    ("world", "arm"),
    [("clusters", CLOCK), ("clusters", BEST), ("drift", BEST), ("circles", {**BEST, "n_workers": 4})],
)
def test_a_trial_gives_the_log_of_evolve(world: str, arm: Options) -> None:
    options: Options = {**arm, "seed": 3, "max_tokens": 1_000_000}
    events: list[Event] = []
    run = trial(setting(world, 3), options, 10 * CAP, watch=events.append)
    assert events == of_evolve(world, options)
    assert run.calls == run.made > 0
    assert run.tokens <= 1_000_000


def test_a_trial_ends_where_it_is_told_to() -> None:
    whole = trial(setting("clusters", 3), {**BEST, "seed": 3}, CAP)
    assert CAP <= whole.tokens < CAP + 20_000
    assert whole.commits == len(whole.path) - 1 > 0
    assert whole.won == pytest.approx(whole.path[-1][1] - whole.path[0][1])
    at = next(at for at, (_, quality) in enumerate(whole.path) if quality > whole.path[0][1])
    spent, target = whole.path[at]
    short = trial(setting("clusters", 3), {**BEST, "seed": 3}, CAP, until=target)
    assert (short.path, short.tokens) == (whole.path[: at + 1], spent)
    assert short.lost == whole.lost == 0.0


def test_every_call_of_a_faulty_world_is_charged() -> None:
    run = trial(setting("faulty", 0), {**BEST, "seed": 0}, CAP)
    assert run.calls == run.made > 50
    assert run.assumed > 0


def test_commits_that_gain_nothing_in_truth_are_counted() -> None:
    runs = [trial(setting("noisy", seed), {**CLOCK, "seed": seed}, 600_000) for seed in range(12)]
    assert 0 < sum(run.useless for run in runs) < sum(run.commits for run in runs)


def test_tokens_to_a_quality_and_the_quality_at_tokens() -> None:
    assert [tokens_to(PATH, quality, 99) for quality in (0.3, 0.5, 0.6, 0.8)] == [10, 20, 40, 99]
    assert tokens_to(PATH, 0.7, 35) == 35
    run = Trial(PATH, 50, 0, 0, 0, 5, 3, 1, 0.4, 0.0)
    assert [run.at(tokens) for tokens in (5, 10, 35, 60)] == [0.0, 0.3, 0.4, 0.7]
    assert [run.best(tokens) for tokens in (5, 35, 60)] == [0.0, 0.5, 0.7]
    assert value("barren", run, None) == 10.0
    assert value("clusters", run, 0.6) == 40.0
    assert value("clusters", run, 0.9) == MEASURES["clusters"].cap


def test_a_ratio_of_means_and_its_interval() -> None:
    assert ratio([2.0, 4.0], [4.0, 8.0]) == (0.5, 0.5, 0.5)
    draw = np.random.default_rng(0)
    pace = draw.lognormal(0.0, 0.5, 400)
    ours, theirs = 0.5 * pace * draw.lognormal(0.0, 0.1, 400), pace
    lo, mid, hi = ratio(list(ours), list(theirs))
    assert mid == round(float(ours.mean() / theirs.mean()), 4)
    error = float(np.std(ours - mid * theirs) / theirs.mean() / 20)
    assert mid - lo == pytest.approx(1.96 * error, rel=0.15)
    assert hi - mid == pytest.approx(1.96 * error, rel=0.15)
    assert ratio(list(ours), list(theirs)) == (lo, mid, hi)
    for unpaired in ([1.0], []):
        with pytest.raises(ValueError, match="not paired"):
            ratio(unpaired, unpaired * 2 if unpaired else [])


def test_an_arm_is_what_it_changes() -> None:
    arms = {change.name: options_of(change) for change in ON}
    assert arms["curtailment"] == {**CLOCK, "curtail": True}
    assert arms["gate order"] == {**CLOCK, "curtail": True, "gate_order": "informative"}
    for table in (ON, OFF, ADDED):
        assert len({change.name for change in table}) == len(table)
        for change in table:
            base = {"clock": CLOCK, "best": BEST}.get(change.over) or arms[change.over]
            assert options_of(change) != base


def test_an_ablation_of_two_seeds() -> None:
    with Cells() as cells:
        main = economy.Main(cells, "clusters", range(2))
        main.wait()
        row, tables = main.row(), economy.ablation(cells, {"clusters": main}, 2)
        barren = economy.Main(cells, "barren", range(2))
        barren.wait()
    assert row["vs_clock"] == ratio(main.values(main.runs["best"], 0.7), main.values(main.runs["clock"], 0.7))
    assert set(row) > {"vs_clairvoyant", "vs_clock_0.85", "vs_clock_0.95", "reached", "tokens_k"}
    assert {table: list(rows) for table, rows in tables.items()} == {
        "on": [change.name for change in ON],
        "off": [change.name for change in OFF],
        "added": [change.name for change in ADDED],
    }
    assert tables["on"]["screen"]["clusters"][1] < 1
    assert barren.targets == (None,)
    assert 0 < barren.row()["vs_best_screen"][1] < 2


def passing() -> dict[str, Any]:
    return {
        "reference": {"clock_over_spec": 1.04, "clairvoyant_over_spec": 0.96},
        "worlds": {
            "clusters": {
                "vs_clock": (0.2, 0.28, 0.3),
                "vs_clairvoyant": (0.7, 0.8, 0.9),
                "vs_clock_0.95": (0, 0.55, 1),
            },
            "faulty": {"uncharged_or_wasted": 0},
            "jewel": {"lost_to_futility": 0.1, "stated_recall_loss": (0.05, 0.1)},
        },
        "worst_world_hi": 1.1,
    }


def test_every_target_can_be_missed() -> None:
    assert economy.misses(passing()) == []
    for path, bad in (
        (("reference", "clock_over_spec"), 1.06),
        (("reference", "clairvoyant_over_spec"), 0.94),
        (("worlds", "clusters", "vs_clock"), (0.2, 0.29, 0.3)),
        (("worlds", "clusters", "vs_clairvoyant"), (0.2, 0.81, 0.9)),
        (("worlds", "clusters", "vs_clock_0.95"), (0.2, 0.56, 0.9)),
        (("worst_world_hi",), 1.11),
        (("worlds", "faulty", "uncharged_or_wasted"), 1),
        (("worlds", "jewel", "lost_to_futility"), 0.2),
    ):
        result = passing()
        inner = result
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = bad
        assert len(economy.misses(result)) == 1
