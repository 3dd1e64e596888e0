"""What the economy of the engine is worth: tokens to a quality in worlds with known truth, against the clock, which
puts every proposal before every held-out task, and against a clairvoyant, which gates only what will commit.

    python -m bench.economy --seeds 200 --json     # --seeds 20 for a minute

*reference*: mean tokens (thousands) to 0.70 of the clock and of the clairvoyant in the world *clusters*, and both
over what the reference simulator states, 1657 and 569; over five times as many seeds, since the standard error of a
mean over 200 is 3 %. *worlds*: ratios of mean tokens of the best arm, [lo, mid, hi] of the paired bootstrap interval
of 95 %; what is never reached counts as the cap, 3 million tokens. Equal seeds are equal worlds, and every draw is a
function of (seed, artifact, task). `vs_clock` and `vs_clairvoyant` are to the first target, 0.70; in *k-module* and
*circles* to the median of what the clock reaches; in *barren*, where nothing can be reached, they are tokens a
proposal. *ablation*: one mechanism `on` over the clock (or over what it needs), `off` from the best, `added` to the
best: tokens with the change over tokens without it. *jewel* says besides, of the best with gates stopped by
prediction, what share of the gain that gave up in truth, and the interval that its log states. Below 100 seeds only
in *clusters*; else with half of the seeds there (also to the last target) and a fifth in the other worlds.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from agentdescent.history.recall import interval, pooled
from agentdescent.job import Options
from agentdescent_adapters.worlds.clairvoyant import Known
from bench import harness
from bench.arms import ADDED, BEST, CLOCK, OFF, ON, SCREEN, Change, options_of
from bench.cells import MEASURES, Cells, value
from bench.figures import ratio
from bench.trial import Trial

SPEC_CLOCK, SPEC_CLAIRVOYANT = 1657, 569
"""Thousands of tokens to 0.70, of the reference simulator."""

WITHIN = 0.05
MOST = {"clusters to 0.70 vs_clock": 0.28, "clusters to 0.70 vs_clairvoyant": 0.80, "clusters to 0.95 vs_clock": 0.55}
WORST_WORLD = 1.10
NOISY_BUDGET = 1_500_000


def reference(cells: Cells, seeds: int) -> dict[str, float]:
    wanted, target = range(5 * seeds), MEASURES["clusters"].targets[0]
    clock, known = cells.arm("clusters", CLOCK, wanted, target), cells.clairvoyant("clusters", wanted, target)
    ours = statistics.fmean(value("clusters", run, target) for run in clock.runs()) / 1000
    theirs = statistics.fmean(value("clusters", run, target) for run in known.result()) / 1000
    return {
        "clock": round(ours, 1),
        "clairvoyant": round(theirs, 1),
        "clock_over_spec": round(ours / SPEC_CLOCK, 4),
        "clairvoyant_over_spec": round(theirs / SPEC_CLAIRVOYANT, 4),
    }


# --- worlds -----------------------------------------------------------------------------------------------------------


class Main:
    """The runs of a world that everything else is compared with."""

    def __init__(self, cells: Cells, world: str, seeds: Sequence[int]) -> None:
        self.world, self.measure = world, MEASURES[world]
        until = None if self.measure.whole else self.measure.targets[-1]
        arms: dict[str, Options] = {"clock": CLOCK, "best": BEST}
        if world == "barren":
            arms["screen"] = SCREEN
        self._cells = {name: cells.arm(world, options, seeds, until) for name, options in arms.items()}
        self._known = cells.clairvoyant(world, seeds, 1.0 if until is None else until)

    def wait(self) -> None:
        self.runs = {name: cell.runs() for name, cell in self._cells.items()}
        self.known = self._known.result()
        self.targets: tuple[float | None, ...] = self.measure.targets
        if not self.targets:
            reached = [run.best(self.measure.cap) for run in self.runs["clock"]]
            self.targets = (None if self.world == "barren" else statistics.median_high(reached),)

    def values(self, runs: Sequence[Trial | Known], target: float | None) -> list[float]:
        return [value(self.world, run, target) for run in runs]

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for number, target in enumerate(self.targets):
            suffix = f"_{target:.2f}" if number else ""
            best = self.values(self.runs["best"], target)
            row[f"vs_clock{suffix}"] = ratio(best, self.values(self.runs["clock"], target))
            row[f"vs_clairvoyant{suffix}"] = ratio(best, self.values(self.known, target))
        first, cap = self.targets[0], self.measure.cap
        if first is not None:
            arms: dict[str, Sequence[Trial | Known]] = {**self.runs, "clairvoyant": self.known}
            row["target"] = round(first, 4)
            row["reached"] = {name: sum(v < cap for v in self.values(runs, first)) for name, runs in arms.items()}
            row["tokens_k"] = {name: _k(self.values(runs, first)) for name, runs in arms.items()}
        return {**row, **self._special()}

    def _special(self) -> dict[str, Any]:
        clock, best = self.runs["clock"], self.runs["best"]
        match self.world:
            case "barren":
                cheapest = min((self.runs["screen"], best), key=lambda runs: statistics.fmean(self.values(runs, None)))
                return {"vs_best_screen": ratio(self.values(best, None), self.values(cheapest, None))}
            case "noisy":
                return {
                    name: {
                        "quality": round(statistics.fmean(run.at(NOISY_BUDGET) for run in runs), 4),
                        "useless_commits": round(statistics.fmean(run.useless for run in runs), 2),
                        "commits": round(statistics.fmean(run.commits for run in runs), 2),
                    }
                    for name, runs in (("of_clock", clock), ("of_best", best))
                }
            case "faulty":
                return {"uncharged_or_wasted": max(abs(run.calls - run.made) for run in (*clock, *best))}
            case "jewel":
                stated = pooled(run.recall for run in best)
                return {"lost_to_futility": lost_share(best), "stated_recall_loss": interval(stated)}
            case _:
                return {}


def lost_share(runs: Sequence[Trial]) -> float:
    """Of what there was to gain, the share given up with candidates that were judged futile."""
    lost, won = sum(run.lost for run in runs), sum(run.won for run in runs)
    return round(lost / (lost + won), 4) if lost else 0.0


def _k(values: Sequence[float]) -> int:
    return round(statistics.fmean(values) / 1000)


# --- ablation ---------------------------------------------------------------------------------------------------------


def ablation(cells: Cells, mains: Mapping[str, Main], seeds: int) -> dict[str, dict[str, dict[str, Any]]]:
    """By table, mechanism and world: tokens with the change over tokens without it."""
    some, few = (seeds // 2, seeds // 5) if seeds >= 100 else (seeds, 0)
    counts = {world: some if world == "clusters" else few for world in mains if world == "clusters" or few}
    changes = [("on", change) for change in ON] + [("off", change) for change in OFF]
    changes += [("added", change) for change in ADDED]
    running = [
        (table, change, world, cells.arm(world, options_of(change), range(n), _until(mains[world])))
        for table, change in changes
        for world, n in counts.items()
    ]
    found: dict[tuple[str, str, str], list[Trial]] = {}
    tables: dict[str, dict[str, dict[str, Any]]] = {"on": {}, "off": {}, "added": {}}
    for table, change, world, cell in running:
        main, runs = mains[world], cell.runs()
        found[table, change.name, world] = runs
        without = _without(main, found, change)[: len(runs)]
        row = tables[table].setdefault(change.name, {"over": change.over})
        for target in _targets(main):
            name = world if target == main.targets[0] else f"{world}_{target:.2f}"
            row[name] = ratio(main.values(runs, target), main.values(without, target))
        harness.progress(f"{table} {change.name}, {world}: {row[world]}")
    return tables


def _targets(main: Main) -> tuple[float | None, ...]:
    """The first; in *clusters* also the last, before which what learns has little to go by."""
    return (main.targets[0], main.targets[-1]) if main.world == "clusters" else main.targets[:1]


def _until(main: Main) -> float | None:
    return _targets(main)[-1]


def _without(main: Main, found: Mapping[tuple[str, str, str], list[Trial]], change: Change) -> list[Trial]:
    return main.runs[change.over] if change.over in main.runs else found["on", change.over, main.world]


# --- all of it --------------------------------------------------------------------------------------------------------


def misses(result: Mapping[str, Any]) -> list[str]:
    """The targets that were missed."""
    worlds, ref = result["worlds"], result["reference"]
    found = []
    for name in ("clock", "clairvoyant"):
        if abs(ref[f"{name}_over_spec"] - 1) > WITHIN:
            found.append(f"reference {name}: {ref[f'{name}_over_spec']} is not within {WITHIN} of 1")
    clusters = worlds["clusters"]
    figures = (clusters["vs_clock"], clusters["vs_clairvoyant"], clusters["vs_clock_0.95"])
    for (name, most), figure in zip(MOST.items(), figures, strict=True):
        if figure[1] > most:
            found.append(f"{name}: {figure[1]} > {most}")
    if result["worst_world_hi"] > WORST_WORLD:
        found.append(f"worst world: {result['worst_world_hi']} > {WORST_WORLD}")
    if worlds["faulty"]["uncharged_or_wasted"]:
        found.append("faulty: calls made and calls charged differ")
    lost, stated = worlds["jewel"]["lost_to_futility"], worlds["jewel"]["stated_recall_loss"][1]
    if lost > stated:
        found.append(f"jewel: {lost} of the gain lost to futility > {stated}, the most that it states")
    return found


def measured(seeds: int) -> dict[str, Any]:
    with Cells() as cells:
        mains = {world: Main(cells, world, range(seeds)) for world in MEASURES}
        rows: dict[str, dict[str, Any]] = {}
        for world, main in mains.items():
            main.wait()
            rows[world] = main.row()
            harness.progress(f"{world}: {rows[world]}")
        ref = reference(cells, seeds)
        harness.progress(f"reference: {ref}")
        tables = ablation(cells, mains, seeds)
    worst = max(rows, key=lambda world: float(rows[world]["vs_clock"][2]))
    return {
        "reference": ref,
        "worlds": rows,
        "ablation": tables,
        "worst_world_hi": rows[worst]["vs_clock"][2],
        "worst_world": worst,
    }


def main() -> int:
    parser = harness.options(__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    given = parser.parse_args()
    result = measured(given.seeds)
    missed = misses(result)
    for miss in missed:
        harness.progress(f"missed: {miss}")
    rows = [{"world": world, **row} for world, row in result["worlds"].items()]
    return harness.finish("economy", given, result, met=not missed, rows=rows)


if __name__ == "__main__":
    sys.exit(main())
