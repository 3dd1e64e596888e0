"""Whether what the project states with 95 % holds in 95 of 100 cases, in worlds whose truth is known.

    python -m bench.calibration --json

`whatif_coverage`: of the intervals of `what_if`, the share that holds the truth, over scripted logs and logs of the
engine (`bench.coverage`); by estimator and by stage in the rows. `aa_false_positives`: of comparisons of two arms that
differ in nothing but the random numbers of the run, the share with a verdict other than no difference. Each takes 30
pairs out of a pool of worlds in which both arms ran, and a coin for each pair says which arm is the treatment.
`futility_miss_within_bound`: gates stopped by prediction lost, of the gain that there was, what the interval of
`result.recall` says, pooled over ten runs, in no less than 95 % of the pools (Wilson's interval of that share reaches
95 %), in every world. Beside them, of the value model of those engine runs, how calibrated its p is; and the regret
against the clairvoyant of the runs that futility was measured in.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from agentdescent.engine.draw import seeded
from agentdescent.engine.event import Event
from agentdescent.experiment.pairing import LEAST_PAIRS_TOKENS, paired
from agentdescent.experiment.regret import Regret, mean_regret, regret
from agentdescent.experiment.results import ArmResult
from agentdescent.experiment.verdict import decided, level_for
from agentdescent.history.calibration import Prediction, predictions, reliability
from agentdescent.history.interval import wilson
from agentdescent.history.recall import Recall, interval, loss, pooled
from agentdescent.job import Options
from agentdescent_adapters.worlds.clairvoyant import clairvoyant
from agentdescent_adapters.worlds.suite import setting
from bench import harness
from bench.arms import BEST, named, options_of
from bench.coverage import Row, engine, scripted, summary
from bench.trial import trial

COVERAGE = (0.93, 0.97)
MOST_FALSE_POSITIVES = 0.075
AA_CAP, FUTILITY_CAP, POOL, TARGET = 1_000_000, 1_200_000, 10, 0.7
WORLDS = ("clusters", "jewel")
OTHER_NUMBERS = 1_000_000
FUTILE: Options = options_of(named("futility"))
VALUED: Options = options_of(named("allocator at gate"))


class Missed(NamedTuple):
    """A run with futility on: what its log says of the loss, the truth, and how far behind the clairvoyant it was."""

    recall: Recall
    won: float
    lost: float
    regret: Regret


# --- two equal arms ---------------------------------------------------------------------------------------------------


def twins(seed: int) -> tuple[ArmResult, ArmResult]:
    """The same arm twice in one world, with other random numbers."""
    return _arm("one", seed, seed), _arm("other", seed, seed + OTHER_NUMBERS)


def _arm(name: str, seed: int, numbers: int) -> ArmResult:
    options: Options = {**BEST, "seed": numbers}
    run = trial(setting("clusters", seed), options, AA_CAP)
    return ArmResult(name, seed, run.best(AA_CAP), tokens=run.tokens, skipped=1, curve=run.path)


def differs(repetition: int, pool: Sequence[tuple[ArmResult, ArmResult]]) -> bool:
    """Whether 30 pairs out of the pool, each with a coin for which is which, come to a verdict."""
    draw = seeded(repetition)
    order = sorted(range(len(pool)), key=lambda at: draw("pick", at))[:LEAST_PAIRS_TOKENS]
    results = []
    for at in order:
        first, second = pool[at] if draw("coin", at) < 0.5 else pool[at][::-1]
        results += [_named(first, "control"), _named(second, "treatment")]
    level = level_for(LEAST_PAIRS_TOKENS)
    found = decided(paired(results, "control", "treatment", cap=AA_CAP, target=TARGET, level=level))
    if found.verdict == "not measurable":
        raise AssertionError(found.why)
    return found.verdict != "no difference"


def _named(result: ArmResult, arm: str) -> ArmResult:
    return ArmResult(arm, result.seed, result.quality, tokens=result.tokens, skipped=result.skipped, curve=result.curve)


# --- gates stopped by prediction --------------------------------------------------------------------------------------


def missed(world: str, seed: int) -> Missed:
    run = trial(setting(world, seed), {**FUTILE, "seed": seed}, FUTILITY_CAP)
    best = clairvoyant(setting(world, seed), seed, FUTILITY_CAP)
    return Missed(run.recall, run.won, run.lost, regret(run.path, best.path, FUTILITY_CAP, TARGET))


def within(runs: Sequence[Missed]) -> tuple[int, int, float, float]:
    """(pools whose interval holds the truth, pools, mean true loss, mean stated loss)."""
    held, truths, stated = 0, list[float](), list[float]()
    for at in range(0, len(runs) - POOL + 1, POOL):
        part = runs[at : at + POOL]
        lost, won = sum(run.lost for run in part), sum(run.won for run in part)
        truth = lost / (lost + won) if lost > 0.0 else 0.0
        recall = pooled(run.recall for run in part)
        low, high = interval(recall)
        held += low <= truth <= high
        truths.append(truth)
        stated.append(loss(recall) or 0.0)
    return held, len(truths), sum(truths) / len(truths), sum(stated) / len(stated)


# --- the value model --------------------------------------------------------------------------------------------------


def predicted(seed: int) -> tuple[Prediction, ...]:
    events: list[Event] = []
    trial(setting("drift", seed), {**VALUED, "seed": seed}, FUTILITY_CAP, watch=events.append)
    return predictions(events)


# --- all of it --------------------------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    scripted: int
    engine: int
    comparisons: int
    pool: int
    futile: int
    valued: int


def coverage(pool: ProcessPoolExecutor, sizes: Sizes) -> list[Row]:
    rows: list[Row] = []
    for one, count in ((scripted, sizes.scripted), (engine, sizes.engine)):
        rows += [row for found in pool.map(one, range(count), chunksize=4) for row in found]
        harness.progress(f"{one.__name__}: {count} repetitions")
    return rows


def false_positives(pool: ProcessPoolExecutor, sizes: Sizes) -> float:
    worlds = tuple(pool.map(twins, range(sizes.pool), chunksize=4))
    harness.progress(f"two equal arms in {sizes.pool} worlds")
    n = sizes.comparisons
    return sum(pool.map(differs, range(n), [worlds] * n, chunksize=20)) / n


def misses(pool: ProcessPoolExecutor, sizes: Sizes) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for world in WORLDS:
        runs = tuple(pool.map(missed, [world] * sizes.futile, range(sizes.futile), chunksize=4))
        held, pools, true, stated = within(runs)
        behind = mean_regret([run.regret for run in runs])
        found.append(
            {
                "world": world,
                "pools": pools,
                "held": held,
                "true_loss": round(true, 4),
                "stated_loss": round(stated, 4),
                "within_bound": wilson(held / pools, pools)[1] >= 0.95,
                "regret": [round(value, 4) for value in (behind.lo, behind.mid, behind.hi)],
            }
        )
        harness.progress(f"futility in {world}: {sizes.futile} runs")
    return found


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in values]


def value_model(pool: ProcessPoolExecutor, sizes: Sizes) -> dict[str, object]:
    found = [one for part in pool.map(predicted, range(sizes.valued), chunksize=4) for one in part]
    held = reliability(found)
    if held is None:
        return {"labels": 0}
    return {
        "labels": held.count,
        "brier": round(held.brier, 4),
        "brier_of_the_mean": round(held.base, 4),
        "ece": _rounded((held.ece_interval[0], held.ece, held.ece_interval[1])),
        "ece_by_chance": round(held.chance, 4),
        "bins": [_rounded((row.low, row.high, row.count, row.predicted, row.observed)) for row in held.bins],
    }


def main() -> int:
    parser = harness.options(__doc__)
    for name, count in zip(Sizes._fields, (2_000, 160, 400, 200, 200, 60), strict=True):
        parser.add_argument(f"--{name}", type=int, default=count)
    given = parser.parse_args()
    sizes = Sizes(*(getattr(given, name) for name in Sizes._fields))
    with ProcessPoolExecutor() as pool:
        rows = coverage(pool, sizes)
        wrong = false_positives(pool, sizes)
        stopped = misses(pool, sizes)
        model = value_model(pool, sizes)
    told = [row.side for row in rows if row.side is not None]
    share = told.count(0) / len(told)
    by_method = {name: found["coverage"] for name, found in summary(rows, "method").items()}
    within_bound = all(bool(one["within_bound"]) for one in stopped)
    result = {
        "whatif_coverage": round(share, 4),
        "aa_false_positives": wrong,
        "futility_miss_within_bound": within_bound,
        "whatif_by_method": by_method,
        "whatif_by_source": {name: found["coverage"] for name, found in summary(rows, "where").items()},
        "whatif_repetitions": sizes.scripted + sizes.engine,
        "futility": stopped,
        "value_model": model,
    }
    met = all(COVERAGE[0] <= one <= COVERAGE[1] for one in (share, *by_method.values()))
    met = met and wrong <= MOST_FALSE_POSITIVES and within_bound
    parts = summary(rows, "where", "part", "quantity", "method")
    return harness.finish(
        "calibration", given, result, met=met, rows=[{"of": name, **one} for name, one in parts.items()]
    )


if __name__ == "__main__":
    sys.exit(main())
