"""Tokens and seconds to a held-out score of 0.70 on the world clusters, by workers and by what the schedule does. Every
run draws its train tasks by the law of the world."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from agentdescent import async_evolve, vector
from agentdescent.engine.command import Propose
from agentdescent.engine.event import Decided, Event, Judged
from agentdescent.engine.spec import Admission
from agentdescent.engine.state import State
from agentdescent.job import Options
from agentdescent.search.sampling import Stakes
from agentdescent.simulation import clock, lognormal, simulate
from agentdescent_adapters.worlds.clusters import ClusterAgent, Clusters, cluster_tasks, right
from bench import harness

TARGET = 0.70
CAP = 6_000_000
ADMISSIONS: tuple[Admission, ...] = ("arrival", "ordered")
CHANGES: tuple[tuple[str, Options], ...] = (
    ("merge_size 1", {"merge_size": 1}),
    ("merge_size 1, 3 merges ahead", {"merge_size": 1, "async_ratio": 3}),
    ("3 merges ahead", {"async_ratio": 3}),
    ("wave_min 1", {"wave_min": 1}),
    ("2 gates", {"open_gates": 2}),
    ("4 gates, one card each", {"open_gates": 4, "fusion": "none"}),
    ("no screen", {"screen": False}),
    ("no screen, one card each", {"screen": False, "fusion": "none"}),
)
"""What else the schedule could do, one choice changed at a time."""


def to_target(seed: int, options: Options) -> tuple[int, float, float, bool]:
    tasks = cluster_tasks(seed)
    agent = ClusterAgent(Clusters(seed), tasks, lognormal(seed, 1.0, 1.0))
    reached: list[tuple[int, float]] = []
    made: dict[int, int] = {}
    behind: list[int] = []

    def watch(event: Event, state: State) -> None:
        if isinstance(event, Decided) and isinstance(event.command, Propose):
            copy = vector.get(state.workers, event.worker).copy
            made[event.subject] = 0 if copy is None else copy.number
        elif isinstance(event, Judged):
            for subject in (event.subject, *event.contributors):
                behind.extend([state.head.version.number - made[subject]] if subject in made else [])

    def stop(state: State) -> bool:
        scores = state.head.scores
        if reached or state.base is not None or scores.total < TARGET * 1_000_000 * scores.size:
            return False
        reached.append((state.governor.spent.tokens, clock()))
        return True

    async def main() -> float:
        given: Options = {
            "agent": agent,
            "seed": seed,
            "heldout_limit": 40,
            "shuffle": False,
            "max_tokens": CAP,
            "rounds": None,
            "screen": True,
            "sampling": Stakes(pending=0.0),
            "stop_when": stop,
            "observers": (watch,),
            "deadline": 1e9,
            **options,
        }
        await async_evolve(tasks, right, **given)
        return clock()

    ended, _ = simulate(main())
    tokens, seconds = reached[0] if reached else (CAP, ended)
    return tokens, seconds, sum(behind) / max(1, len(behind)), bool(reached)


def frontier(seeds: Sequence[int]) -> list[dict[str, object]]:
    """Rows of means over the seeds: `tokens_ratio` and `speed` against one worker in turn, with the standard error of
    the mean of `tokens_k` and `seconds`."""
    cells: list[tuple[int, str, Options]] = [(1, "rounds", {"n_workers": 1})]
    for n in (4, 16, 64):
        cells.append((n, "rounds", {"n_workers": n, "wave_min": 4 * n}))
        for admission in ADMISSIONS:
            for ahead in (1, 2):
                options = Options(n_workers=n, asynchronous=True, admission=admission, async_ratio=ahead)
                cells.append((n, f"continuous {admission}, {ahead} merge(s) ahead", options))
    for change, option in CHANGES:
        options = {**Options(n_workers=16, asynchronous=True, admission="arrival"), **option}
        cells.append((16, f"continuous arrival, {change}", options))
    rows: list[dict[str, object]] = []
    first: tuple[float, float] | None = None
    for n, name, options in cells:
        runs = [to_target(seed, options) for seed in seeds]
        tokens, tokens_error = mean_and_error([run[0] / 1000 for run in runs])
        seconds, seconds_error = mean_and_error([run[1] for run in runs])
        first = first or (tokens, seconds)
        rows.append(
            {
                "workers": n,
                "schedule": name,
                "tokens_k": round(tokens),
                "tokens_se": round(tokens_error),
                "seconds": round(seconds, 1),
                "seconds_se": round(seconds_error, 1),
                "stale": round(mean_and_error([run[2] for run in runs])[0], 2),
                "reached": sum(run[3] for run in runs),
                "tokens_ratio": round(tokens / first[0], 3),
                "speed": round(first[1] / seconds, 2),
            }
        )
        harness.progress(f"{n} workers, {name}: {rows[-1]}")
    return rows


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    mean = statistics.fmean(values)
    return mean, statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
