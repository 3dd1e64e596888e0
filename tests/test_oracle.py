"""An oracle in whole runs with the driver: who scores what, what it costs, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentdescent import (
    Answer,
    AppendRules,
    MemoryLog,
    Rate,
    RunError,
    Tariff,
    Task,
    Usage,
    UsageError,
    async_evolve,
    evolve,
    replay,
)
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Decided, GateOpened, RolledOut
from agentdescent.merge.acceptance import Unpaired
from agentdescent.merge.audit import Audit
from tests.test_evolve import Learner

TASKS = [Task(f"t{i}", f"message {i}", {"cluster": f"topic{i % 5}"}) for i in range(40)]
ALWAYS = Audit(blast_radius=0.0)
PAID = Tariff(Rate(strict=True, ceiling=11, calls=2), Rate(strict=True, ceiling=20))
"""An oracle that bills is part of the worst case of a solve."""


def right(task: Task, output: str) -> float:
    return float(output == "right")


class Oracle:
    """Agrees, or says that nothing is ever solved; bills a token a call."""

    blocking = False
    name = "oracle"

    def __init__(self, *, agrees: bool = True) -> None:
        self.agrees = agrees
        self.asked: list[str] = []

    def __call__(self, task: Task, output: str) -> Any:
        self.asked.append(task.id)
        return Answer(right(task, output) * self.agrees, Usage(completion=1))


class LaterOracle(Oracle):
    name = "later"

    async def __call__(self, task: Task, output: str) -> Any:
        await asyncio.sleep(0)
        return super().__call__(task, output)


class ThreadOracle(Oracle):
    blocking = True


@pytest.mark.parametrize("kind", [Oracle, LaterOracle, ThreadOracle])
@pytest.mark.parametrize("agrees", [True, False])
def test_the_oracle_scores_audits_and_nothing_else(kind: Callable[..., Oracle], agrees: bool) -> None:
    oracle = kind(agrees=agrees)
    fields: Any = {"oracle": oracle, "oracle_budget": 200, "audit": ALWAYS, "tariff": PAID}
    result = evolve(TASKS, right, agent=Learner(), rounds=4, test_share=0.1, **fields)
    events = list(result.log.events())
    audits = {
        one.command.id: one
        for one in events
        if isinstance(one, Decided) and isinstance(one.command, Rollout) and one.command.purpose == "audit"
    }
    assert len(oracle.asked) == len(audits) > 0
    scored = [event for event in events if isinstance(event, RolledOut)]
    assert {event.id for event in scored if event.scoring is not None} == set(audits)
    spent = {line.purpose: line.tokens for line in result.spend.by_purpose}
    assert spent["score"] == len(oracle.asked)
    assert spent["audit"] > 0
    assert result.base is not None
    assert result.final is not None
    assert (result.version > 0, result.final > result.base) == (agrees, agrees)
    assert ("oracle-rejected" in result.outcomes().values()) == (not agrees)
    assert replay(events).divergence is None


def test_from_a_coroutine() -> None:
    oracle = LaterOracle()
    fields: Any = {"oracle": oracle, "oracle_budget": 16, "audit": ALWAYS, "tariff": PAID}
    result = asyncio.run(async_evolve(TASKS, right, agent=Learner(), rounds=2, **fields))
    assert 0 < len(oracle.asked) <= 16
    assert result.state.setup.oracle == "later"


def test_an_oracle_that_raises_keeps_nobody_in() -> None:
    def broken(task: Task, output: str) -> float:
        raise ConnectionError("nobody is there")

    result = evolve(
        TASKS, right, agent=Learner(), oracle=broken, oracle_budget=60, audit=ALWAYS, cheap_size=2, rounds=2
    )
    assert result.version == 0
    assert "failed" in result.outcomes().values()
    assert sum(line.rollouts for line in result.spend.by_purpose if line.purpose == "audit") <= 60


def test_a_value_that_is_no_score_ends_the_run() -> None:
    with pytest.raises(RunError, match="the reward of task"):
        evolve(TASKS, right, agent=Learner(), oracle=lambda task, output: 2, oracle_budget=60, audit=ALWAYS, rounds=2)


def test_a_wide_strategy_and_the_other_rule() -> None:
    oracle = Oracle()
    wide = AppendRules(blast_radius=0.4)
    fields: Any = {"oracle": oracle, "oracle_budget": 60, "strategy": wide, "acceptance": Unpaired(), "tariff": PAID}
    result = evolve(TASKS, right, agent=Learner(), rounds=6, **fields)
    assert result.version > 0
    assert oracle.asked
    assert result.state.prior.up >= result.version * 2_000_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"oracle": Oracle()}, "set oracle_budget"),
        ({"oracle_budget": 5}, "give oracle="),
        ({"oracle": 3, "oracle_budget": 5}, "cannot be called"),
        ({"oracle": lambda task: 1.0, "oracle_budget": 5}, "must accept"),
        ({"oracle": Oracle(), "oracle_budget": -1}, "oracle_budget"),
        ({"oracle": Oracle(), "oracle_budget": 5, "audit": Audit(floor=0.0)}, "audit"),
        ({"acceptance": Unpaired(half_life=0.0)}, "half_life"),
        ({"acceptance": Unpaired(start=2.0)}, "start and floor"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_spent(options: Any, message: str) -> None:
    agent = Learner()
    with pytest.raises(UsageError, match=message):
        evolve(TASKS, right, agent=agent, rounds=2, **options)
    assert agent.meter.calls == 0


def test_a_cap_must_pay_for_the_audit_of_one_candidate() -> None:
    fields: Any = {"oracle": Oracle(), "oracle_budget": 60, "audit": ALWAYS, "tariff": PAID}
    with pytest.raises(UsageError, match="max_rollouts is 48"):
        evolve(TASKS, right, agent=Learner(), max_rollouts=48, **fields)
    result = evolve(TASKS, right, agent=Learner(), max_rollouts=49, **fields)
    assert any(isinstance(event, GateOpened) for event in result.log.events())


def test_a_run_goes_on_with_its_own_oracle_only() -> None:
    log = MemoryLog()
    fields: Any = {"agent": Learner(), "log": log, "oracle_budget": 60, "audit": ALWAYS, "tariff": PAID}
    evolve(TASKS, right, oracle=Oracle(), rounds=1, **fields)
    with pytest.raises(UsageError, match="the oracle differ"):
        evolve(TASKS, right, oracle=LaterOracle(), rounds=2, **fields)
    result = evolve(TASKS, right, oracle=Oracle(), rounds=3, **fields)
    assert result.rounds == 3
    assert replay(result.log.events()).divergence is None
