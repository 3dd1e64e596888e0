"""What a run can cost and is expected to, against what runs did cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Caps, Prices, Rate, Setup, SingleSlot, Spec, Tariff, evolve
from agentdescent.budget.usage import NOTHING, add
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Decided, GateOpened, Started
from agentdescent.engine.spec import TaskInfo
from agentdescent.history.assumptions import Assumptions
from agentdescent.history.estimate import Estimate, compare, estimate
from agentdescent.history.forecast import STEPS
from agentdescent.job import Options
from agentdescent.record import replace
from agentdescent.result import EvolutionResult
from agentdescent_adapters.demo import demo_tasks
from agentdescent_adapters.rules import RuleAgent
from agentdescent_adapters.tasks.scorers import scorer
from tests.strategies import setups, specs

TASKS = tuple(TaskInfo(f"t{i}", 100 + i, "0" * 32, f"c{i % 3}") for i in range(40))
RATE = Rate(strict=True, overhead=10, bytes_per_token=1, ceiling=20, prices=Prices(1_000_000, 2_000_000))
SETUP = Setup(TASKS, (), Tariff(RATE, replace(RATE, ceiling=100)))
SPEC = Spec(caps=Caps(tokens=200_000), test_share=0.25, shuffle=False)


@given(st.data())
def test_an_estimate_stays_under_every_cap_and_adds_up(data: st.DataObject) -> None:
    setup = data.draw(setups())
    spec = data.draw(specs(setup))
    made = estimate(spec, setup)
    assert sum((one.amount.tokens for one in made.run), 0) == made.total.tokens
    assert made.path.expected == _sum(made, "expected")
    if made.rounds > 0:
        assert made.total.tokens <= (spec.caps.tokens or made.total.tokens)
        assert made.total.calls <= (spec.caps.calls or made.total.calls)
        assert made.total.rollouts <= (spec.caps.rollouts or made.total.rollouts)
        assert made.total.cost <= (spec.caps.cost or made.total.cost) + len(made.run)
    assert made.rounds <= (spec.caps.rounds or made.rounds)
    assert made.candidates <= made.proposals + 1e-9
    strict = setup.tariff.solve.strict
    assert (made.ceiling == "strict", made.path.worst is not None, made.base.worst is not None) == (strict,) * 3
    assert bool(made.unknown) == (not strict or (spec.caps.tokens is None and spec.caps.cost is None))


def _sum(made: Estimate, which: str) -> object:
    total = NOTHING
    for stage in made.stages:
        total = add(total, getattr(stage.item, which))
    return total


def test_the_worst_case_is_what_the_engine_reserves() -> None:
    made = estimate(SPEC, SETUP)
    assert (made.train, made.heldout, made.test) == (14, 16, 10)
    start = len("# Playbook")
    heldout = sum(10 + 20 + start + 100 + i for i in range(10, 26))
    assert made.base.worst is not None
    assert made.base.worst.tokens == heldout
    assert made.path.worst == _sum(made, "worst")
    worst = {stage.purpose: stage.item.worst for stage in made.stages}
    assert list(worst) == ["rollout", "propose", "verify", "gate"]
    rollout, gate = worst["rollout"], worst["gate"]
    assert rollout is not None
    assert gate is not None
    assert rollout.tokens == 10 + 20 + start + 139
    assert gate.tokens == heldout + 16 * 400
    assert gate.cost == pytest.approx((gate.tokens + 16 * 20) * 1000, abs=16)


def test_what_is_expected_goes_by_the_assumptions() -> None:
    rules = Assumptions(bytes_per_token=5, solve_completion=0.5)
    made = estimate(SPEC, SETUP, rules)
    prompt = sum((10 + len("# Playbook") + 100 + i) / 5 for i in range(10, 26))
    assert made.base.expected.tokens == int(prompt) + 16 * 10
    assert made.assumptions == rules


def test_candidates_at_worst_are_fewer_than_expected_and_more_with_more_money() -> None:
    few, many = (estimate(replace(SPEC, caps=Caps(tokens=cap)), SETUP) for cap in (50_000, 500_000))
    assert few.candidates_worst is not None
    assert many.candidates_worst is not None
    assert 0 < few.candidates_worst < many.candidates_worst <= many.candidates
    assert few.candidates_worst <= few.candidates


def test_a_limit_that_does_not_tell_leaves_the_rounds_unknown() -> None:
    made = estimate(replace(SPEC, caps=Caps(seconds=9.0)), SETUP)
    assert (made.rounds, made.gates, made.candidates_worst) == (0.0, 0.0, None)
    assert [one.purpose for one in made.run] == ["base", "test"]
    assert any("only max_seconds limits them" in what for what in made.unknown)
    assert any("neither max_tokens nor max_cost" in what for what in made.unknown)


def test_a_very_large_cap_takes_no_longer() -> None:
    made = estimate(replace(SPEC, caps=Caps(tokens=10**15)), SETUP)
    assert made.rounds > STEPS
    assert made.total.tokens == pytest.approx(10**15, rel=1e-6)


def test_an_observed_port_promises_nothing_and_the_estimate_says_so() -> None:
    made = estimate(SPEC, replace(SETUP, tariff=Tariff()))
    assert (made.ceiling, made.base.worst, made.candidates_worst) == ("observed", None, None)
    assert [what.partition(" ")[0] for what in made.unknown] == ["solve", "propose"]
    assert made.base.expected.tokens == int(sum((10 + 100 + i) / 4 for i in range(10, 26)))


def test_a_proposal_that_calls_nobody_costs_nothing_and_has_a_text_all_the_same() -> None:
    free = replace(SETUP.tariff, propose=Rate(strict=True, calls=0, prices=Prices(0, 0)))
    made = estimate(SPEC, replace(SETUP, tariff=free))
    items = {stage.purpose: stage.item for stage in made.stages}
    assert (items["propose"].worst, items["propose"].expected) == (NOTHING, NOTHING)
    assert [one.amount for one in made.run if one.purpose == "propose"] == [NOTHING]
    assert items["verify"].expected.tokens > items["rollout"].expected.tokens
    assert any("nothing bounds its text" in what for what in made.unknown)


def test_a_single_text_does_not_grow() -> None:
    made = estimate(replace(SPEC, strategy=SingleSlot(), caps=Caps(rounds=40)), SETUP)
    grown = estimate(replace(SPEC, caps=Caps(rounds=40)), SETUP)
    assert made.gates <= 40
    assert made.total.tokens / made.total.calls < grown.total.tokens / grown.total.calls


def _demo(max_tokens: int, rounds: int) -> EvolutionResult:
    tasks = demo_tasks()
    agent = RuleAgent(sorted({str(task.meta["label"]) for task in tasks}))
    options = Options(agent=agent, n_workers=8, test_share=0.25, max_tokens=max_tokens, rounds=rounds)
    return evolve(tasks, scorer("exact"), **options)


@pytest.mark.parametrize(("max_tokens", "rounds"), [(60_000, 60), (250_000, 60), (900_000, 10)])
def test_the_demo_costs_about_what_was_expected(max_tokens: int, rounds: int) -> None:
    """The base within a twentieth; the mean call of every purpose within a factor of two; the run within one of three:
    under a cap the estimate comes close to it, and how many proposals a round brings, only the run can tell."""
    result = _demo(max_tokens, rounds)
    started = next(iter(result.log.events()))
    assert isinstance(started, Started)
    made = estimate(started.spec, started.setup)
    found = {one.purpose: one for one in compare(made, result.state)}
    assert {"base", "test", "rollout", "propose", "verify", "gate"} <= set(found)
    assert sum(one.used.tokens for one in found.values()) == result.spend.total.tokens
    assert sum(one.expected.tokens for one in found.values()) == made.total.tokens
    base = found["base"]
    assert base.expected.tokens == pytest.approx(base.used.tokens, rel=0.05)
    assert (base.expected.calls, found["test"].expected.calls) == (base.used.calls, found["test"].used.calls)
    for one in found.values():
        assert one.expected.tokens / one.expected.calls < 2 * one.used.tokens / one.used.calls
        assert one.expected.tokens / one.expected.calls > 0.5 * one.used.tokens / one.used.calls
    assert result.spend.total.tokens < 1.2 * made.total.tokens
    assert result.spend.total.tokens > 0.33 * made.total.tokens


def test_nothing_costs_more_than_its_worst_case_at_the_start() -> None:
    result = _demo(250_000, 1)
    events = list(result.log.events())
    started = events[0]
    assert isinstance(started, Started)
    made = estimate(started.spec, started.setup)
    worst = {stage.purpose: stage.item.worst for stage in made.stages}
    commands = [event.command for event in events if isinstance(event, Decided)]
    reserved = [one.reserve.tokens for one in commands if isinstance(one, Rollout) and one.purpose == "rollout"]
    rollout, gate = worst["rollout"], worst["gate"]
    assert rollout is not None
    assert gate is not None
    assert 0 < max(reserved) <= rollout.tokens
    opened = next(event for event in events if isinstance(event, GateOpened))
    assert made.testing.worst is not None
    assert 0 < opened.held.tokens <= len(opened.contributors) * (gate.tokens + made.testing.worst.tokens)
