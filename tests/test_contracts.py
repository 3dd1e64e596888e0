"""Every adapter keeps its contract, and the checks find one that does not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from agentdescent import Answer, Rate, Tariff, Task, Usage
from agentdescent.engine.command import Rollout
from agentdescent.ports import Executor, Item, Repeat, Result, Retry
from agentdescent.testing import check_agent, check_executor, check_scorer
from agentdescent.threads import Threads
from agentdescent_adapters.demo import demo_tasks
from agentdescent_adapters.executors import Dask, Processes
from agentdescent_adapters.rules import RuleAgent
from agentdescent_adapters.tasks.scorers import scorer
from tests.adapters.clusters import client_of, cluster

TASKS = demo_tasks()[:40]
RENDERED = '# Playbook\n- if "refund" then refund_status\n- otherwise track_parcel'


@pytest.mark.parametrize("rendered", ["# Playbook", RENDERED])
def test_the_rule_agent(rendered: str) -> None:
    check_agent(RuleAgent(sorted({str(task.meta["label"]) for task in TASKS})), TASKS, rendered)


@pytest.mark.parametrize("name", ["exact", "contains"])
def test_the_scorers(name: str) -> None:
    check_scorer(scorer(name), TASKS, ["", "refund_status", "北京"])


class Dear:
    tariff = Tariff(Rate(strict=True, ceiling=3))

    def solve(self, rendered: str, task: Task) -> Answer:
        return Answer("x", Usage(prompt=len(task.prompt), completion=4))

    async def propose(self, rendered: str, task: Task, output: str, score: float) -> str | None:
        return None


def test_an_agent_that_breaks_its_tariff_is_found() -> None:
    with pytest.raises(AssertionError, match="its strict tariff allows"):
        check_agent(Dear(), [Task("t", "abc")])


def test_a_scorer_out_of_range_is_found() -> None:
    with pytest.raises(AssertionError, match="the score of task 't' is 2"):
        check_scorer(lambda task, output: 2, [Task("t", "abc")], ["x"])


def test_threads() -> None:
    check_executor(Threads[Result | Retry])


def test_processes() -> None:
    check_executor(lambda: Processes(2))


def test_a_dask_cluster_in_this_process() -> None:
    with cluster(threads=4) as made, client_of(made) as client:
        check_executor(lambda: Dask(client))
        assert client.status == "running"


def test_a_dask_cluster_of_processes() -> None:
    with cluster(processes=True, threads=4) as made:
        check_executor(lambda: Dask(made.scheduler_address))


Done = Callable[[Any], None]


class Twice(Threads[Result | Retry]):
    def submit(self, item: Item, done: Done) -> None:
        def tell(result: Any) -> None:
            done(result)
            done(result)

        super().submit(item, tell)


class Changed(Threads[Result | Retry]):
    def submit(self, item: Item, done: Done) -> None:
        super().submit(item._replace(text=item.text.strip("# ")), done)


class Forgetful(Threads[Result | Retry]):
    """Never answers a proposal."""

    def submit(self, item: Item, done: Done) -> None:
        if isinstance(item.command, Rollout):
            super().submit(item, done)


class Late(Threads[Result | Retry]):
    """Tells what comes after it was closed."""

    def open(self, perform: Callable[[Item], Result | Retry], repeat: Repeat) -> None:
        self.port = perform

    def submit(self, item: Item, done: Done) -> None:
        def work() -> None:
            try:
                done(self.port(item))
            except BaseException as error:
                done(error)

        threading.Thread(target=work, daemon=True).start()


class Joining(Late):
    """Waits for what hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []

    def submit(self, item: Item, done: Done) -> None:
        before = set(threading.enumerate())
        super().submit(item, done)
        self.threads.extend(set(threading.enumerate()) - before)

    def close(self) -> None:
        for thread in self.threads:
            thread.join()


@pytest.mark.parametrize(
    ("broken", "contract"),
    [
        (Twice, "every effect is answered once"),
        (Changed, "comes back as performed"),
        (Forgetful, "every effect is answered: "),
        (Late, "nobody is told after close"),
        (Joining, "close does not wait for what hangs"),
    ],
)
def test_an_executor_that_breaks_its_contract_is_found(
    broken: Callable[[], Executor], contract: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentdescent.testing.executors._SECONDS", 1.5)
    with pytest.raises(AssertionError, match=contract):
        check_executor(broken)
