"""Every adapter keeps its contract, and the checks find one that does not."""

from __future__ import annotations

import pytest

from agentdescent import Answer, Rate, Tariff, Task, Usage
from agentdescent.testing import check_agent, check_scorer
from agentdescent_adapters.demo import demo_tasks
from agentdescent_adapters.rules import RuleAgent
from agentdescent_adapters.tasks.scorers import scorer

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
