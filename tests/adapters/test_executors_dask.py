"""A Dask cluster whose workers and scheduler die: nothing charged is performed twice, and a loss is told at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentdescent import MemoryLog, Task, UsageError, evolve
from agentdescent.engine.event import Decided, Failed, Outcome, RolledOut, Stopped
from agentdescent.errors import ExecutorLost
from agentdescent_adapters.executors import Dask
from agentdescent_adapters.executors.remote import Claimed, perform_once
from agentdescent_adapters.executors.sending import pack_callable, pack_item
from bench.cluster import commanded_cluster
from tests.adapters.clusters import client_of, cluster
from tests.adapters.distant import Mortal, Solver, Told, item, performer, right


@pytest.fixture(scope="module")
def here() -> Iterator[Any]:
    """A client of a cluster in this process."""
    with cluster() as made, client_of(made) as client:
        yield client


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Any]:
    """A client of a cluster of two worker processes."""
    with cluster(processes=True, workers=2, threads=2) as made, client_of(made) as client:
        yield client


# --- workers that die -------------------------------------------------------------------------------------------------


def test_free_effects_of_a_worker_that_died_are_performed_again(elsewhere: Any, tmp_path: Path) -> None:
    agent, told, executor = Mortal(tmp_path / "calls", "free"), Told(), Dask(elsewhere)
    executor.open(performer(agent, "live", "die once").remote(), "free")
    for number in range(20):
        executor.submit(item(number, number == 7), told.done(number))
    results = told.wait(*range(20))
    executor.close()
    assert [type(result[0]) for result in results] == [RolledOut] * 20
    assert agent.calls().count("die once") == 2


def test_charged_effects_of_a_worker_that_died_are_not(elsewhere: Any, tmp_path: Path) -> None:
    agent, told, executor = Mortal(tmp_path / "calls", "charged"), Told(), Dask(elsewhere)
    executor.open(performer(agent, "live", "die").remote(), "charged")
    for number in range(20):
        executor.submit(item(number, number == 7), told.done(number))
    results = [result[0] for result in told.wait(*range(20), seconds=60)]
    executor.submit(item(20), told.done(20))
    assert isinstance(told.wait(20)[0][0], RolledOut)
    executor.close()
    failed = [result for result in results if isinstance(result, Failed)]
    assert results[7] == Failed(7, "provider", "the worker that performed it died")
    assert {(one.kind, one.message, one.usage) for one in failed} == {("provider", results[7].message, None)}
    assert agent.calls().count("die") == 1
    assert len(agent.calls()) <= 21


def test_an_effect_that_kills_every_worker_is_given_up(elsewhere: Any, tmp_path: Path) -> None:
    agent, told, executor = Mortal(tmp_path / "calls", "free"), Told(), Dask(elsewhere)
    scheduler = elsewhere.cluster.scheduler
    allowed, scheduler.allowed_failures = scheduler.allowed_failures, 0
    try:
        executor.open(performer(agent, "die").remote(), "free")
        executor.submit(item(0), told.done(0))
        assert told.wait(0) == [(Failed(0, "provider", "every worker that performed it died"), "")]
    finally:
        scheduler.allowed_failures = allowed
        executor.close()


def test_a_cluster_whose_workers_all_died_goes_on_with_new_ones(elsewhere: Any) -> None:
    told, executor = Told(), Dask(elsewhere)
    elsewhere.wait_for_workers(2, timeout=20)
    executor.open(performer(Solver(), "x").remote(), "free")
    executor.submit(item(0), told.done(0))
    told.wait(0)
    for pid in elsewhere.run(os.getpid).values():
        os.kill(pid, signal.SIGKILL)
    executor.submit(item(1), told.done(1))
    assert isinstance(told.wait(1)[0][0], RolledOut)
    executor.close()


# --- claims -----------------------------------------------------------------------------------------------------------


def test_of_two_attempts_one_performs(here: Any, tmp_path: Path) -> None:
    agent = Mortal(tmp_path / "calls", "charged")
    payload = pack_callable(performer(agent, "live").remote())
    tries = [here.submit(perform_once, payload, pack_item(item(0)), "claim", key=f"try-{n}") for n in range(16)]
    found = here.gather(tries)
    assert found.count(Claimed("", None)) == 15
    assert agent.calls() == ["live"]


def test_claims_are_forgotten_when_the_run_ends(here: Any, tmp_path: Path) -> None:
    agent, told, executor = Mortal(tmp_path / "calls", "charged"), Told(), Dask(here)
    locks = here.cluster.scheduler.extensions["multi_locks"]
    before = dict(locks.requests)
    executor.open(performer(agent, "live").remote(), "charged")
    for number in range(70):
        executor.submit(item(number), told.done(number))
    told.wait(*range(70))
    assert len(locks.requests) == len(before) + 70
    executor.submit(item(0), (again := Told()).done(0))  # another attempt at the same command, decided anew
    assert isinstance(again.wait(0)[0][0], RolledOut)
    executor.close()
    assert locks.requests == before


# --- a scheduler that is lost -----------------------------------------------------------------------------------------


def test_a_scheduler_that_hangs_is_lost_after_patience() -> None:
    told = Told()
    with cluster() as made:
        executor = Dask(made.scheduler_address, patience=0.5)
        executor.open(performer(Solver(), "x").remote(), "free")
        made.loop.add_callback(time.sleep, 2.5)
        executor.submit(item(0), told.done(0))
        executor.submit(item(1), told.done(1))
        assert all(isinstance(result, ExecutorLost) for result in told.wait(0, 1, seconds=2.4))
        executor.submit(item(2), told.done(2))
        assert isinstance(told.results[2], ExecutorLost)
        began = time.monotonic()
        executor.close()
        assert time.monotonic() - began < 2


def test_a_run_whose_scheduler_is_killed_ends_and_goes_on_from_its_log(tmp_path: Path) -> None:
    tasks = [Task(f"t{n}", f"task {n}") for n in range(24)]
    whole, log, killed = MemoryLog(), MemoryLog(), 0.0
    evolve(tasks, right, agent=Solver(), log=whole, rounds=3)
    with commanded_cluster(tmp_path, 1) as (address, scheduler):

        def kill(event: Any, state: Any) -> None:
            nonlocal killed
            if isinstance(event, Decided) and event.command.id == 30:
                scheduler.kill()
                killed = time.monotonic()

        with pytest.raises(ExecutorLost):
            evolve(tasks, right, agent=Solver(), log=log, rounds=3, executor=Dask(address), observers=[kill])
        assert 0 < time.monotonic() - killed < 10
    before = list(log.events())
    assert not isinstance(before[-1], Stopped)
    assert sum(isinstance(event, Outcome) for event in before) > 5
    evolve(tasks, right, agent=Solver(), log=log, rounds=3)
    assert log.digest == whole.digest


# --- clusters that cannot be used -------------------------------------------------------------------------------------


def test_no_scheduler_and_no_workers_are_misuse() -> None:
    executor = Dask("tcp://127.0.0.1:9", patience=0.3)
    with pytest.raises(UsageError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9 .*`dask scheduler`"):
        executor.open(performer(Solver(), "x").remote(), "free")
    executor.close()
    with cluster(workers=0) as made:
        executor = Dask(made.scheduler_address, patience=0.3)
        with pytest.raises(UsageError, match="no workers: start some with `dask worker ADDRESS`"):
            executor.open(performer(Solver(), "x").remote(), "free")
        executor.close()
    with pytest.raises(UsageError, match="give Dask the address of a scheduler"):
        Dask(7).open(performer(Solver(), "x").remote(), "free")


class NotThere:
    name = "not there"

    def solve(self, rendered: str, task: Task) -> str:
        return "x"

    def propose(self, rendered: str, task: Task, output: str, score: float) -> None:
        return None

    def __reduce__(self) -> Any:
        return _import_mine, ()


def _import_mine() -> NotThere:
    raise ModuleNotFoundError("No module named 'mine'")


def test_a_worker_that_cannot_import_the_agent_is_named(here: Any) -> None:
    executor = Dask(here)
    with pytest.raises(UsageError, match=r"the worker tcp://.* \(ModuleNotFoundError: No module named 'mine'\)"):
        executor.open(performer(NotThere(), "x").remote(), "free")
    executor.close()
    assert here.status == "running"


def test_what_cannot_be_sent_to_a_worker_is_named(here: Any) -> None:
    work = performer(Solver(), "x")
    work.tasks = [Task("odd", "x", {"lock": threading.Lock()})]
    with pytest.raises(UsageError, match="task 'odd' cannot be sent"):
        Dask(here).open(work.remote(), "free")
