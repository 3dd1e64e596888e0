"""Arms through `evolve`: what they use is measured, and forks really differ."""

from __future__ import annotations

import pytest

from agentdescent import Answer, Rate, Tariff, Task, Usage, UsageError
from agentdescent.arms import Workload, best_of_n_fork, merge_of_n, serial
from agentdescent.experiment import Budget, compare
from agentdescent.job import Options
from agentdescent_adapters.worlds.calls import Immediate
from agentdescent_adapters.worlds.suite import setting
from bench.arms import BEST

TASKS = [Task(f"t{i}", f"say {i}") for i in range(30)]


class Pages:
    """A function of its arguments that notes every proposal. Rule `n` solves task `n`."""

    name = "notebook"
    repeat = "free"
    blocking = False
    tariff: Tariff | None = Tariff(Rate(strict=True, ceiling=4), Rate(strict=True, ceiling=64))
    usage: Usage | None = Usage(prompt=1, completion=2)

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, str]] = []
        self.solved: set[str] = set()

    def solve(self, rendered: str, task: Task) -> Answer:
        self.solved.add(task.id)
        return Answer("right" if f"- {task.id} " in rendered else "wrong", self.usage)

    def reply(self, task: Task, sample: int) -> Answer:
        number = int(task.id[1:])
        reply = "\n".join(f"add: t{(number + i * (sample + 1)) % 30} is meant" for i in range(4))
        self.asked.append((task.id, sample, reply))
        return Answer(reply, self.usage)


class Notebook(Pages):
    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        return self.reply(task, sample)


class Waits(Pages):
    async def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        return self.reply(task, sample)


def right(task: Task, output: str) -> float:
    return float(output == "right")


def workload(agent: object, more: Options | None = None) -> Workload:
    options: Options = {"test_share": 0.2, "max_concurrency": 1, **(more or Options())}
    return Workload(TASKS, right, agent, options=options)


def test_every_arm_reports_what_it_used_within_its_budget() -> None:
    budget = Budget(rollouts=240, tokens=12_000)
    found = [
        serial(workload(Notebook()), budget, seed=3),
        merge_of_n(workload(Notebook()), budget, 3, seed=3),
        best_of_n_fork(workload(Notebook()), budget, 3, seed=3),
    ]
    for one in found:
        assert one.error == ""
        assert one.seed == 3
        assert one.quality is not None
        assert one.rollouts is not None
        assert one.calls is not None
        assert one.tokens is not None
        assert 0 < one.rollouts <= 240
        assert one.rollouts < one.calls
        assert one.tokens == 3 * one.calls <= 12_000
    assert [one.arm for one in found] == ["serial", "merge of 3", "best of 3 forks"]
    assert [arm.runs for arm in compare(found, fixed="rollouts").arms] == [1, 1, 1]
    assert serial(workload(Notebook()), budget, seed=3) == found[0]


@pytest.mark.parametrize("kind", [Notebook, Waits])
def test_forks_make_other_draws_and_other_proposals(kind: type[Pages]) -> None:
    """By sample number, by order of tasks, and by what is proposed about one and the same failure."""
    agent = kind()
    n, rounds = 3, Budget(rollouts=300)
    best_of_n_fork(workload(agent), rounds, n, seed=5)
    by_fork = [[(task, reply) for task, sample, reply in agent.asked if sample % n == fork] for fork in range(n)]
    assert all(len(asked) >= 3 for asked in by_fork)
    assert len({tuple(task for task, _ in asked[:3]) for asked in by_fork}) == n
    about = [dict(asked) for asked in by_fork]
    shared = set(about[0]) & set(about[1])
    assert shared
    assert all(about[0][task] != about[1][task] for task in shared)


def test_forks_are_judged_on_the_same_tasks() -> None:
    """What one fork trains on, no other is judged by: else the best would be the one with the easiest tasks."""
    agent = Notebook()
    best_of_n_fork(workload(agent), Budget(rollouts=300), 3, seed=5)
    trained = {task for task, _, _ in agent.asked}
    assert 3 <= len(trained) <= 12  # of 30 tasks 12 are held out and 6 test
    alone = Notebook()
    serial(workload(alone), Budget(rollouts=300), seed=5)
    assert {task for task, _, _ in alone.asked} <= {task.id for task in TASKS}
    assert len(trained | {task for task, _, _ in alone.asked}) <= 12


def test_the_best_fork_is_the_one_that_held_out_tasks_say() -> None:
    made = setting("clusters", 1)
    given: Options = {**made.options, **BEST}
    del given["n_workers"]
    found = best_of_n_fork(
        Workload(made.tasks, made.scorer, Immediate(made.agent), made.strategy, given), Budget(tokens=2_600_000), 2
    )
    assert found.error == ""
    assert found.quality is not None
    assert found.base is not None
    assert found.quality > found.base
    assert found.tokens is not None
    assert found.tokens <= 2_600_000


def test_a_share_too_small_is_said_before_any_fork_spends() -> None:
    """Of 2,500 tokens the first of three forks has 834, which is enough, and the others one less, which is not."""
    agent = Notebook()
    with pytest.raises(UsageError, match="max_tokens is 833"):
        best_of_n_fork(workload(agent), Budget(tokens=2_500), 3, seed=3)
    assert (agent.solved, agent.asked) == (set(), [])


def test_what_is_not_reported_is_not_known() -> None:
    class Silent(Notebook):
        tariff = None
        usage = None

    found = serial(workload(Silent()), Budget(rollouts=60))
    assert (found.tokens, found.error) == (None, "")
    assert found.calls


def test_a_run_that_fails_keeps_what_it_used() -> None:
    class Broken(Notebook):
        def solve(self, rendered: str, task: Task) -> Answer:
            if len(self.solved) >= 20:
                raise RuntimeError("gone")
            return super().solve(rendered, task)

    found = serial(workload(Broken()), Budget(rollouts=300))
    assert found.error
    assert not found.scored
    assert found.calls is not None
    assert found.calls > 20


def test_a_workload_does_not_say_what_the_arm_says() -> None:
    with pytest.raises(UsageError, match="max_tokens is among the options of the workload"):
        serial(workload(Notebook(), {"max_tokens": 5}), Budget(tokens=10))
