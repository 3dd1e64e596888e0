"""The ceiling of one proposal, from the budget to the agent, and a reply that was cut off."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from agentdescent import (
    Answer,
    BudgetGovernor,
    CallBudget,
    CallFailed,
    DiminishingReturns,
    MemoryLog,
    Rate,
    Tariff,
    Task,
    Usage,
    UsageError,
    evolve,
    replay,
)
from agentdescent.engine.command import Propose
from agentdescent.engine.event import Decided
from agentdescent.testing import check_agent
from agentdescent.wiring import ports_of
from tests.test_evolve import TASKS, Learner, learn, reward

STRICT = Tariff(Rate(strict=True, ceiling=10), Rate(strict=True, ceiling=512))
CAPPED: dict[str, Any] = {"max_tokens": 30_000, "rounds": 6, "call_budget": CallBudget(512, 64)}


def graded(task: Task, output: str) -> float:
    return 1.0 if output == "right" else 0.1 * (int(task.id[1:]) % 9)


class Thinker:
    """Uses all of its ceiling; a reply that needs more is cut off there."""

    blocking = False
    repeat = "free"
    name = "thinker"

    def __init__(self, needs: int = 0, tariff: Tariff = STRICT, careless: bool = False) -> None:
        self.needs, self.tariff, self.careless = needs, tariff, careless
        self.ceilings: list[int | None] = []
        self.billed = 0

    def solve(self, rendered: str, task: Task) -> Answer:
        self.billed += 1
        return Answer("right" if task.cluster in rendered else "wrong", Usage(completion=1))

    def propose(
        self, rendered: str, task: Task, output: str, score: float, sample: int, *, ceiling: int | None
    ) -> Answer:
        self.ceilings.append(ceiling)
        used = Usage(prompt=5, completion=600 if self.careless else ceiling or 40)
        self.billed += used.tokens
        if ceiling is not None and self.needs > ceiling:
            raise CallFailed("truncated", f"cut off at {ceiling} tokens", used)
        return Answer(f"know {task.cluster}" if sample % 2 else f"junk {sample}", used)


def asked(log: MemoryLog) -> list[int]:
    return [e.command.ceiling for e in log.events() if isinstance(e, Decided) and isinstance(e.command, Propose)]


def test_an_agent_is_told_the_ceiling_of_each_call() -> None:
    agent, log = Thinker(), MemoryLog()
    result = evolve(TASKS, graded, agent=agent, log=log, **CAPPED)
    assert agent.ceilings == asked(log)
    assert len(set(agent.ceilings)) > 2
    assert all(64 <= (ceiling or 0) <= 512 for ceiling in agent.ceilings)
    assert result.spend.total.tokens == agent.billed <= 30_000
    assert replay(log.events()).divergence is None


def test_without_a_call_budget_it_is_told_what_its_tariff_says() -> None:
    agent = Thinker()
    evolve(TASKS, reward, agent=agent, rounds=2)
    assert set(agent.ceilings) == {512}
    opaque = Thinker(tariff=Tariff())
    evolve(TASKS, reward, agent=opaque, rounds=2)
    assert set(opaque.ceilings) == {None}


def test_an_agent_of_unknown_cost_has_ceilings_too() -> None:
    agent, log = Thinker(tariff=Tariff()), MemoryLog()
    result = evolve(TASKS, graded, agent=agent, log=log, **CAPPED)
    assert agent.ceilings == asked(log)
    assert len(set(agent.ceilings)) > 2
    assert result.spend.total.tokens == agent.billed <= 30_000


def test_a_reply_that_was_cut_off_is_charged_and_not_adopted() -> None:
    agent = Thinker(needs=1_000)
    with pytest.raises(Exception, match="cut off at"):  # every proposal of two rounds failed
        evolve(TASKS, graded, agent=agent, **CAPPED)
    some = Thinker(needs=300)
    result = evolve(TASKS, graded, agent=some, **CAPPED)
    labels = result.outcomes()
    short = sum((ceiling or 0) < 300 for ceiling in some.ceilings)
    assert short > 0
    assert list(labels.values()).count("failed") == short
    assert result.spend.total.tokens == some.billed


def test_an_agent_that_takes_no_ceiling_is_named_before_anything_is_spent() -> None:
    agent = Learner()
    with pytest.raises(UsageError, match="`propose` of learner does not take `ceiling`"):
        learn(agent, call_budget=CallBudget(16))
    with pytest.raises(UsageError, match=r"call_budget\.base is 513, and tariff\.propose allows 512"):
        evolve(TASKS, reward, agent=Thinker(), call_budget=CallBudget(513))
    assert agent.meter.calls == 0


def plain(rendered: str, task: Task, output: str, score: float) -> str:
    return "plain"


def numbered(rendered: str, task: Task, output: str, score: float, sample: int) -> str:
    return "numbered"


def bounded(rendered: str, task: Task, output: str, score: float, ceiling: int | None = None) -> str:
    return "bounded"


def both(rendered: str, task: Task, output: str, score: float, ceiling: int | None, sample: int) -> str:
    return "both, in another order"


def anything(*arguments: Any, **named: Any) -> str:
    assert not named
    return "anything"


@pytest.mark.parametrize(
    ("propose", "samples", "ceilings"),
    [
        (plain, False, False),
        (numbered, True, False),
        (bounded, False, True),
        (anything, True, False),
        (partial(numbered, sample=3), False, False),
        (Thinker().propose, True, True),
    ],
)
def test_what_a_propose_is_told(propose: Callable[..., Any], samples: bool, ceilings: bool) -> None:
    ports = ports_of(reward, None, lambda rendered, task: "wrong", propose, None, None)
    assert (ports.samples, ports.ceilings) == (samples, ceilings)
    evolve(TASKS, reward, run=lambda rendered, task: "wrong", propose=propose, rounds=1)


def test_a_propose_that_can_be_given_neither_is_refused() -> None:
    with pytest.raises(UsageError, match="must accept"):
        ports_of(reward, None, lambda rendered, task: "", both, None, None)


def test_the_contract_of_an_agent_covers_a_lower_ceiling() -> None:
    check_agent(Thinker(), TASKS[:3])
    check_agent(Thinker(needs=300), TASKS[:3])
    with pytest.raises(AssertionError, match="allows"):
        check_agent(Thinker(careless=True), TASKS[:3])


# --- a governor in one value ------------------------------------------------------------------------------------------


def test_a_governor_stands_for_its_options() -> None:
    rule = DiminishingReturns(0.5, 3)
    governor = BudgetGovernor(25_000, 0.6, 0.8, "round", rule)
    one = learn(governor=governor)
    other = learn(
        max_tokens=25_000, soft_floor=0.6, hard_floor=0.8, projection="round", stop_on_diminishing_returns=rule
    )
    assert one.digest == other.digest
    assert learn(max_tokens=25_000).budget == learn(governor=BudgetGovernor(25_000)).budget
    with pytest.raises(UsageError, match="hard_floor is given, and the governor says it too"):
        learn(governor=governor, hard_floor=0.9)
    with pytest.raises(UsageError, match=r"governor is 3: give a BudgetGovernor"):
        learn(governor=3)


def test_the_economic_stop_can_be_asked_for_in_a_word() -> None:
    with pytest.raises(UsageError, match="needs a token cap"):
        learn(stop_on_diminishing_returns=True)
    stopped = learn(stop_on_diminishing_returns=True, max_tokens=10**7)
    assert stopped.state.spec.diminishing_returns == DiminishingReturns()
    plain_ = learn(max_tokens=10**7, stop_on_diminishing_returns=False)
    assert plain_.state.spec.diminishing_returns is None
