"""A Dask cluster that is fast, and that is killed: a worker in mid-run, then the scheduler.

A cluster of 2 worker processes with 8 threads each, on this machine, performs runs of an agent whose calls take 20 ms.

* rollouts a second: over the time of a whole run with 64 workers, the engine's own time included, the better of two
  runs, because what else the machine does is not what is measured;
* free ports, ordered: with a worker process killed by SIGKILL in mid-run, the digest of the log is that of a run that
  nobody disturbed;
* charged ports: with a worker killed, tokens that the worker processes wrote to a file, call by call, before the call
  returned <= tokens in the log <= cap; and no call was made twice;
* the scheduler, in a process of its own, is killed by SIGKILL: seconds until the run ends with ExecutorLost; its log is
  gone on with here, in threads, to the digest of the undisturbed run.

    python -m bench.cluster --json      # {"rollouts_per_s": >=200, "killed_worker_same_digest": true, ..}
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from agentdescent import EvolutionResult, State, evolve
from agentdescent.engine.event import Decided, Event, Outcome, RolledOut
from agentdescent.errors import ExecutorLost
from agentdescent.ports import Executor, Repeat
from agentdescent.record import Record
from agentdescent_adapters.disk import DiskLog
from agentdescent_adapters.executors import Dask
from agentdescent_adapters.executors.named import hush
from bench import agents, harness
from bench.agents import Script
from bench.distant import Bill, Distant

PROCESSES, THREADS = 2, 8
SECONDS = 0.02
CAP = 60_000
ROLLOUTS, RUNS = 1_500, 2
KILL_AT = 150
"""Outcomes after which something is killed: about a third of a run."""

RATE, ENDED = 200, 10.0
"""Targets: rollouts a second, at least; seconds from the death of the scheduler to the end of the run, at most."""


class Measured(Record, frozen=True):
    """By the log: `calls` decided, `spent` tokens. By the file: `bills`, one for each call, `billed` tokens."""

    digest: str
    calls: int
    spent: int
    bills: int
    billed: int


class Watch:
    """Observes a run: counts, and does something once, at the outcome KILL_AT."""

    def __init__(self, act: Callable[[], None] | None = None) -> None:
        self.rollouts = self.calls = self._outcomes = 0
        self._act = act

    def __call__(self, event: Event, state: State) -> None:
        self.rollouts += isinstance(event, RolledOut)
        self.calls += isinstance(event, Decided)
        self._outcomes += isinstance(event, Outcome)
        if self._act is not None and self._outcomes == KILL_AT:
            act, self._act = self._act, None
            act()


def run(bill: Bill, watch: Watch, repeat: Repeat = "free", tasks: int = 40, **options: Any) -> EvolutionResult:
    chosen: dict[str, Any] = {
        "agent": Distant(Script(constant=False), bill, repeat=repeat, seconds=SECONDS),
        "artifact": agents.START,
        "asynchronous": True,
        "n_workers": PROCESSES * THREADS,
        "max_concurrency": 2 * PROCESSES * THREADS,
        "max_tokens": CAP,
        "test_share": 0.2,
        "observers": (watch,),
    }
    return evolve(agents.tasks(tasks), agents.Right(), **{**chosen, **options})


def rate(client: Any, directory: Path) -> float:
    """Rollouts a second of a run whose gates are wide enough to keep every thread busy, from its beginning to its end:
    proposals and all that the engine does are in the time."""
    watch, wide, began = Watch(), 4 * PROCESSES * THREADS, time.monotonic()
    options: dict[str, Any] = {"n_workers": wide, "max_concurrency": wide, "max_tokens": None}
    run(Bill(str(directory / "rate")), watch, tasks=250, executor=Dask(client), max_rollouts=ROLLOUTS, **options)
    return watch.rollouts / (time.monotonic() - began)


def measure(
    name: str, repeat: Repeat, executor: Executor | None, act: Callable[[], None] | None, directory: Path
) -> Measured:
    """One run from its beginning to its end. `act` is called in its midst."""
    bill, watch = Bill(str(directory / name)), Watch(act)
    result = run(bill, watch, repeat, executor=executor)
    lines = bill.lines()
    return Measured(result.digest, watch.calls, result.spend.total.tokens, len(lines), sum(lines))


# --- clusters ---------------------------------------------------------------------------------------------------------


@contextmanager
def local_cluster() -> Iterator[Any]:
    """A client of a cluster of worker processes, each replaced when it dies."""
    distributed = import_module("distributed")
    with (
        distributed.LocalCluster(
            n_workers=PROCESSES,
            threads_per_worker=THREADS,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def kill_a_worker(client: Any) -> Callable[[], None]:
    """Kills the worker process that was first when the run began."""
    pids = client.run(os.getpid)

    def kill() -> None:
        os.kill(pids[min(pids)], signal.SIGKILL)

    return kill


@contextmanager
def commanded_cluster(directory: Path, processes: int = PROCESSES) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A cluster as docs/scale.md starts one: its address, and the process of its scheduler."""
    file, dask = directory / "scheduler.json", [sys.executable, "-m", "dask"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    page = ("--dashboard-address", "127.0.0.1:0")
    log = (directory / "cluster.log").open("wb")
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*dask, *arguments], env=environment, stdout=log, stderr=log, cwd=directory, start_new_session=True
        )
        started.append(process)
        return process

    try:
        scheduler = start(*("scheduler", "--host", "127.0.0.1", "--port", "0", *page, "--scheduler-file", str(file)))
        start(
            *("worker", "--scheduler-file", str(file), "--host", "127.0.0.1", *page),
            *("--nthreads", str(THREADS), "--nworkers", str(processes), "--death-timeout", "20"),
        )
        yield _address(file, processes), scheduler
    finally:
        for process in started:  # with its children: a worker whose scheduler is gone takes long to say goodbye
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()


def _address(file: Path, processes: int) -> str:
    distributed = import_module("distributed")
    until = time.monotonic() + 30
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.02)
    with distributed.Client(scheduler_file=str(file), set_as_default=False, timeout=30) as client:
        client.wait_for_workers(processes, timeout=30)
        return str(client.scheduler.address)


def lose_the_scheduler(directory: Path) -> tuple[float, str]:
    """Seconds from its death to the end of the run, infinite when that was another; the digest of the run resumed."""
    bill, path, killed = Bill(str(directory / "lost")), str(directory / "RUN"), 0.0
    with commanded_cluster(directory) as (address, scheduler):

        def kill() -> None:
            nonlocal killed
            scheduler.kill()
            killed = time.monotonic()

        ended = float("inf")
        with DiskLog.create(path, fsync="interval") as log:
            try:
                run(bill, Watch(kill), log=log, executor=Dask(address))
            except ExecutorLost:
                ended = time.monotonic() - killed
    with DiskLog.open(path, fsync="interval") as log:
        return ended, run(bill, Watch(), log=log).digest


def main() -> int:
    given = harness.options(__doc__).parse_args()
    import_module("distributed")
    hush()  # that what is killed here is gone is no news
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cluster-") as root:
        directory = Path(root)
        with local_cluster() as client:
            rollouts_per_s = max(rate(client, directory) for _ in range(RUNS))
            harness.progress(f"{rollouts_per_s:.0f} rollouts/s")
            whole = measure("whole", "free", Dask(client), None, directory)
            killed = measure("killed", "free", Dask(client), kill_a_worker(client), directory)
            client.wait_for_workers(PROCESSES, timeout=30)
            charged = measure("charged", "charged", Dask(client), kill_a_worker(client), directory)
        harness.progress(f"workers killed: {killed}, {charged}")
        ended, resumed = lose_the_scheduler(directory)
    result = {
        "rollouts_per_s": round(rollouts_per_s),
        "killed_worker_same_digest": killed.digest == whole.digest,
        "charged_over_log": max(0, charged.billed - charged.spent),
        "charged_log_over_cap": max(0, charged.spent - CAP),
        "scheduler_loss_ended_s": round(ended, 2),
        "resumed_same_digest": resumed == whole.digest,
        "repeated_charged_calls": max(0, charged.bills - charged.calls),
        "repeated_free_calls": killed.bills - whole.bills,
        "charged_lost_tokens": charged.spent - charged.billed,
        "seconds": round(time.monotonic() - began, 1),
    }
    met = (
        rollouts_per_s >= RATE
        and killed.digest == whole.digest == resumed
        and charged.billed <= charged.spent <= CAP
        and charged.bills <= charged.calls
        and ended <= ENDED
    )
    return harness.finish("cluster", given, result, met=met)


if __name__ == "__main__":
    sys.exit(main())
