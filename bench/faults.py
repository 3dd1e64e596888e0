"""Whatever fails, hangs, answers late or dies: the books add up, and every run ends.

Every run is a random job under a random schedule of faults, in simulated time: both schedules and admissions, 1 to 32
workers, strict and observed tariffs, every kind of cap, free and charged ports, in the loop and behind an executor that
tells late, twice or never. Of all calls 10 % fail, 2 % never end, some end after the deadline, and latencies have heavy
tails. Up to three processes of a run do not reach its end: they die between any two writes, are cancelled, interrupted,
lose their executor or fill the disk; the next goes on with what the log kept, sometimes under raised caps.

Checked are the books after every event (bench/books.py), the replay of what is left in the end, and, counted at the
provider: tokens billed for charged ports under a strict tariff <= tokens in the log; no call for a command whose answer
was journalled, and none after a stop; every answer that was given in time is in the log.

    python -m bench.faults --runs 500 --json     # {"runs": 500, "violations": 0, "stuck": 0, "over_cap": 0, "lost": 0}
    python -m bench.faults --seed 17             # that run alone, with everything it did
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from bench import harness
from bench.fault_plan import draw
from bench.fault_trial import Ended, Stuck, Trial

WALL = 60
"""More real seconds than a run can need."""
TARGETS = ("violations", "stuck", "over_cap", "lost")
"""What has to be 0."""


@contextmanager
def limited(trial: Trial, seconds: int) -> Iterator[None]:
    """A trial that takes longer is given up; Stuck is raised where that does not end it."""

    def stop(number: int, frame: object) -> None:
        if trial.given_up:
            raise Stuck(f"{seconds} seconds, and it cannot be given up")
        trial.give_up(f"{seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def trial(seed: int, root: str) -> Trial:
    """The run with this seed."""
    plan = draw(seed)
    return Trial(plan, os.path.join(root, str(seed)) if plan.on_disk else None)


def ended(one: Trial) -> Ended:
    try:
        with limited(one, WALL):
            return one.go()
    except Stuck as stuck:
        return Ended([f"stuck: {stuck}"], stuck=1)


def summary(done: list[Ended]) -> dict[str, object]:
    fates, troubles, reasons = Counter[str](), Counter[str](), Counter[str]()
    for one in done:
        fates += one.fates
        troubles += one.troubles
        reasons[one.reason] += 1
    return {
        "runs": len(done),
        "violations": sum(len(one.found) for one in done),
        "stuck": sum(one.stuck for one in done),
        "over_cap": sum(one.over_cap for one in done),
        "lost": sum(one.lost for one in done),
        "processes": sum(one.processes for one in done),
        "events": sum(one.events for one in done),
        "commits": sum(one.commits for one in done),
        "calls": sum(fates.values()),
        "fates": dict(sorted(fates.items())),
        "troubles": dict(sorted(troubles.items())),
        "ended": dict(sorted(reasons.items())),
        "simulated_hours": round(sum(one.seconds for one in done) / 3_600),
    }


def main() -> int:
    parser = harness.options(__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, help="make this run alone, and say what it was")
    given = parser.parse_args()
    began, done = time.monotonic(), list[Ended]()
    seeds = range(given.runs) if given.seed is None else (given.seed,)
    with tempfile.TemporaryDirectory() as root:
        for seed in seeds:
            done.append(ended(trial(seed, root)))
            for what in done[-1].found[:5]:
                harness.progress(f"seed {seed}: {what}")
            if len(done) % 100 == 0:
                harness.progress(f"{len(done)} runs, {time.monotonic() - began:.0f} s")
    result = {**summary(done), "seconds": round(time.monotonic() - began, 1)}
    met = not any(result[name] for name in TARGETS)
    if given.seed is not None:
        harness.progress(f"{draw(given.seed)}\n{done[0]}")
        return 0 if met else 1
    return harness.finish("faults", given, result, met=met)


if __name__ == "__main__":
    sys.exit(main())
