"""No barrier, no luck: what a schedule costs in time, tokens and staleness, measured in simulated time.

*Independent effects*: 64 workers, latencies lognormal(0, 1) seconds, 20,000 calls of which few depend on one another.
Wall time over the bound of a work-conserving schedule: the same latencies, in the order in which they were asked for,
each given to the first of 64 servers that is free, after the base, which every schedule has to await. Answers folded as
they arrive, and in order with windows of 1 to 32 effects a worker.

*Dependent effects*, the frontier: world *clusters*, tokens and seconds to a held-out score of 0.70 for 1, 4, 16 and 64
workers, rounds and continuous, screened by self-verify. Compared with one worker that does everything in turn.

*The log does not know latencies*: one digest of the ordered log for 50 assignments of latencies.

*Real threads*: a blocking agent of 20 ms, 64 workers, rollouts a second over 64 / 20 ms; and beside it what bare
threads that hand each other the same calls come to on this machine, without an engine.

    python -m bench.schedule --json     # {"arrival_over_bound": .., "ordered_over_bound": .., "frontier": [..], ..}
"""

from __future__ import annotations

import asyncio
import heapq
import statistics
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from agentdescent import Answer, Rate, Tariff, Task, Usage, async_evolve, evolve, vector
from agentdescent.engine.command import Propose
from agentdescent.engine.event import Decided, Event, Judged
from agentdescent.engine.spec import Admission
from agentdescent.engine.state import State
from agentdescent.job import Options
from agentdescent.ports import Repeat
from agentdescent.record import Record
from agentdescent.simulation import clock, lognormal, simulate
from agentdescent_adapters.worlds.clusters import ClusterAgent, Clusters, cluster_tasks, right
from bench import harness
from bench.agents import Right, chance

WORKERS = 64
EFFECTS = 20_000
WINDOWS = (1, 2, 4, 8, 16, 32)
DEFAULT_WINDOW = 16
SEEDS = 60
TARGET = 0.70
CAP = 6_000_000
ASSIGNMENTS = 50
ADMISSIONS: tuple[Admission, ...] = ("arrival", "ordered")
AGENT_SECONDS = 0.02
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
STRICT = Tariff(Rate(strict=True, ceiling=10), Rate(strict=True, ceiling=10))


# --- independent effects ----------------------------------------------------------------------------------------------


class Independent:
    """Solves four tasks of five whatever the artifact, and declines to propose."""

    name = "independent"
    repeat: Repeat = "free"
    tariff = STRICT

    def __init__(self, latency_seed: int) -> None:
        self._latency = lognormal(latency_seed, 1.0, 1.0)
        self._calls = 0
        self.seconds: list[float] = []

    async def _call(self) -> None:
        self._calls += 1
        seconds = self._latency("call", self._calls)
        self.seconds.append(seconds)
        await asyncio.sleep(seconds)

    async def solve(self, rendered: str, task: Task) -> Answer:
        await self._call()
        return Answer("right" if chance(task.id) < 0.8 else "wrong", Usage(prompt=1, completion=1))

    async def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        await self._call()
        return Answer(None, Usage(prompt=1, completion=1))


def work_conserving(seconds: Iterable[float], servers: int) -> float:
    """The time that servers need which take the next call whenever they are free."""
    free = [0.0] * servers
    for one in seconds:
        heapq.heapreplace(free, free[0] + one)
    return max(free)


def over_bound(admission: Admission, window: int, effects: int) -> float:
    """Wall time over that of a work-conserving schedule."""
    agent = Independent(1)
    base = 40

    async def main() -> float:
        await async_evolve(
            [Task(f"t{i}", f"task {i}") for i in range(400)],
            Right(),
            agent=agent,
            asynchronous=True,
            n_workers=WORKERS,
            admission=admission,
            window=window,
            max_calls=effects,
            heldout_limit=base,
            deadline=1e9,
        )
        return clock()

    wall, _ = simulate(main())
    seconds = agent.seconds
    return wall / (work_conserving(seconds[:base], WORKERS) + work_conserving(seconds[base:], WORKERS))


# --- dependent effects ------------------------------------------------------------------------------------------------


class Point(Record, frozen=True):
    """Means over the seeds; `stale`: versions of the head that passed between a proposal's start and its verdict."""

    tokens: float
    seconds: float
    stale: float
    reached: int


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


# --- the log does not know latencies ----------------------------------------------------------------------------------


def ordered_digests(assignments: int) -> set[str]:
    """Of one job on each schedule under many assignments of latencies, prefixed with the schedule."""
    digests = set()
    for continuous in (False, True):
        for latencies in range(assignments):
            tasks = cluster_tasks(3)
            agent = ClusterAgent(Clusters(3), tasks, lognormal(1_000 + latencies, 1.0, 1.5))

            async def main(
                agent: ClusterAgent = agent, tasks: list[Task] = tasks, continuous: bool = continuous
            ) -> str:
                result = await async_evolve(
                    tasks,
                    right,
                    agent=agent,
                    asynchronous=continuous,
                    n_workers=8,
                    max_tokens=900_000,
                    heldout_limit=40,
                    shuffle=False,
                    rounds=None,
                    deadline=1e9,
                )
                return result.digest

            digest, _ = simulate(main())
            digests.add(f"{continuous} {digest}")
    return digests


# --- real threads -----------------------------------------------------------------------------------------------------


class Sleeper:
    """Blocks for 20 ms, as a client of a fast model would."""

    name = "sleeper"
    repeat: Repeat = "free"
    tariff = STRICT

    def solve(self, rendered: str, task: Task) -> Answer:
        time.sleep(AGENT_SECONDS)
        return Answer("right" if chance(task.id) < 0.8 else "wrong", Usage(prompt=1, completion=1))

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        time.sleep(AGENT_SECONDS)
        return Answer(None, Usage(prompt=1, completion=1))


def threads_utilisation(admission: Admission, effects: int) -> float:
    """Calls a second over workers / 20 ms, from the end of the base to the last call but the drain."""
    marks: list[tuple[int, float]] = []

    def watch(event: Event, state: State) -> None:
        if state.seq % 64 == 0 and state.base is None:
            marks.append((state.governor.spent.calls, time.perf_counter()))

    evolve(
        [Task(f"t{i}", f"task {i}") for i in range(400)],
        Right(),
        agent=Sleeper(),
        asynchronous=True,
        n_workers=WORKERS,
        admission=admission,
        max_calls=effects,
        heldout_limit=64,
        observers=(watch,),
    )
    (first, began), (last, ended) = marks[2], next(mark for mark in marks if mark[0] >= effects - 2 * WORKERS)
    return (last - first) / (ended - began) * AGENT_SECONDS / WORKERS


def bare_threads(effects: int) -> float:
    """The same calls handed to a plain thread pool, whose loop does nothing else: what this machine can do."""
    with ThreadPoolExecutor(WORKERS) as pool:
        deque(pool.map(time.sleep, [AGENT_SECONDS] * WORKERS), maxlen=0)
        began = time.perf_counter()
        deque(pool.map(time.sleep, [AGENT_SECONDS] * effects), maxlen=0)
        return effects / (time.perf_counter() - began) * AGENT_SECONDS / WORKERS


# --- all of it --------------------------------------------------------------------------------------------------------


def main() -> int:
    parser = harness.options(__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--effects", type=int, default=EFFECTS)
    given = parser.parse_args()
    arrival = over_bound("arrival", DEFAULT_WINDOW, given.effects)
    harness.progress(f"arrival: {arrival:.3f} of the bound")
    windows = {}
    for window in WINDOWS:
        windows[window] = over_bound("ordered", window, given.effects)
        harness.progress(f"ordered, window {window}: {windows[window]:.3f} of the bound")
    digests = ordered_digests(ASSIGNMENTS)
    bare = bare_threads(given.effects // 2)
    threads = {admission: threads_utilisation(admission, given.effects) for admission in ADMISSIONS}
    harness.progress(f"threads: {threads}, bare threads {bare:.3f}")
    rows = frontier(range(given.seeds))
    sixteen = [row for row in rows if row["workers"] == 16 and "ahead" in str(row["schedule"])]
    met_at_16 = [row for row in sixteen if float(str(row["speed"])) >= 8 and float(str(row["tokens_ratio"])) <= 1.15]
    result = {
        "arrival_over_bound": round(arrival, 4),
        "ordered_over_bound": round(windows[DEFAULT_WINDOW], 4),
        "ordered_over_bound_by_window": {str(window): round(over, 3) for window, over in windows.items()},
        "frontier": [
            [row["workers"], row["schedule"], row["tokens_k"], row["seconds"], row["tokens_ratio"], row["speed"]]
            for row in rows
        ],
        "at_16_8x_for_1.15": [row["schedule"] for row in met_at_16],
        "distinct_ordered_digests": len(digests) // 2,
        "threads_utilisation": round(threads["arrival"], 3),
        "threads_utilisation_ordered": round(threads["ordered"], 3),
        "bare_threads_utilisation": round(bare, 3),
    }
    met = (
        arrival <= 1.02
        and windows[DEFAULT_WINDOW] <= 1.3
        and len(digests) == 2
        and bool(met_at_16)
        and min(threads.values()) >= 0.95
    )
    return harness.finish("schedule", given, result, met=met, rows=rows)


if __name__ == "__main__":
    sys.exit(main())
