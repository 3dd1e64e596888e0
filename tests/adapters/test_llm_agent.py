"""An LLMAgent in whole runs: the budget holds, tokens count once, and nothing is asked that cannot be answered."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from agentdescent import (
    Answer,
    AppendRules,
    CallBudget,
    CallFailed,
    EvolutionResult,
    KeyedRules,
    MemoryLog,
    RunError,
    SingleSlot,
    Task,
    Usage,
    UsageError,
    evolve,
    replay,
)
from agentdescent.budget.tariff import Prices, Rate
from agentdescent.engine.event import Decided, Failed
from agentdescent.testing import check_agent
from agentdescent_adapters.llm import LLMAgent, Operators
from agentdescent_adapters.providers.model import Request
from tests.adapters.scripted import TASKS, BlockingScripted, Right, Scripted, student

KINDS: list[type[Scripted]] = [Scripted, BlockingScripted]


def run(agent: object, **options: Any) -> EvolutionResult:
    return evolve(TASKS, Right(), agent=agent, **{"rounds": 6, **options})


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_learns_and_its_log_says_what_the_provider_says(kind: type[Scripted]) -> None:
    model, log = kind(), MemoryLog()
    agent = LLMAgent(model)
    result = run(agent, log=log)
    assert (result.base, result.final) == (0.0, 1.0)
    assert result.spend.total.tokens == model.billed
    assert result.spend.total.calls == len(model.asked)
    assert agent.blocking is (kind is BlockingScripted)
    assert replay(log.events()).divergence is None
    check_agent(agent, TASKS[:3])


def test_a_blocking_model_makes_the_same_log_as_one_that_is_awaited() -> None:
    assert run(LLMAgent(Scripted())).digest == run(LLMAgent(BlockingScripted())).digest


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cap", [9_000, 20_000, 41_234])
def test_a_budget_holds_to_the_token_when_every_call_bills_its_worst_case(kind: type[Scripted], cap: int) -> None:
    model = kind(ceiling=9)
    result = run(LLMAgent(model), max_tokens=cap, rounds=None)
    assert result.spend.total.tokens == model.billed <= cap
    assert result.stop_reason in ("max_tokens", "solved")
    exact = kind(lambda request: "add: useless" if "Expected" in request.user else "dunno", ceiling=9, overhead=0)
    agent = LLMAgent(exact, solve="{artifact}{task}", propose="{artifact}{task}{output}Expected", strategy=SingleSlot())
    spent = run(agent, max_tokens=cap, rounds=None, strategy=SingleSlot()).spend
    assert spent.total.tokens == exact.billed <= cap
    assert agent.tariff.solve == Rate(strict=True, ceiling=9)


def test_a_lower_ceiling_reaches_the_model_and_only_proposals() -> None:
    model = Scripted(ceiling=512)
    run(LLMAgent(model, solve_ceiling=40), max_tokens=200_000, call_budget=CallBudget(512, 64))
    proposals = {r.ceiling for r in model.asked if "Expected" in r.user}
    assert {r.ceiling for r in model.asked if "Expected" not in r.user} == {40}
    assert len(proposals) > 0
    assert all(64 <= (ceiling or 0) <= 512 for ceiling in proposals)
    assert max(ceiling or 0 for ceiling in proposals) < 512


def test_one_model_for_two_parts_counts_once_and_two_models_each_their_own() -> None:
    """Field cases 8 and 9."""
    model = Scripted()
    first = run(LLMAgent(model, proposer=model))
    assert first.spend.total.tokens == model.billed
    assert run(LLMAgent(model, proposer=model)).spend.total.tokens == model.billed - first.spend.total.tokens
    solver, writer = Scripted(ceiling=8), BlockingScripted(ceiling=90, name="writer", repeat="free")
    agent = LLMAgent(solver, proposer=writer)
    result = run(agent, max_tokens=200_000)
    ledger = {line.purpose: line.used.tokens for line in result.state.governor.ledger}
    assert ledger["propose"] == writer.billed > 0
    assert result.spend.total.tokens == solver.billed + writer.billed
    assert (agent.tariff.solve.ceiling, agent.tariff.propose.ceiling) == (8, 90)
    assert (agent.repeat, agent.blocking) == ("charged", True)
    assert agent.name.startswith("llm scripted / writer ")


def test_money_is_counted_by_the_terms_of_each_model() -> None:
    cheap, dear = Prices(1_000_000, 2_000_000), Prices(10_000_000, 20_000_000)
    model = Scripted(prices=cheap)
    result = run(LLMAgent(model, proposer=Scripted(prices=dear, name="dear")), max_cost=1.0)
    assert 0 < result.spend.total.cost <= 1_000_000_000
    with pytest.raises(UsageError, match=r"max_cost is set, but tariff\.solve has no prices"):
        run(LLMAgent(Scripted()), max_cost=1.0)


def test_a_solution_of_two_megabytes_never_reaches_a_prompt_whole() -> None:
    class Talker(Scripted):
        def reply(self, request: Request) -> Any:
            reply = super().reply(request)
            return reply if "Expected" in request.user else type(reply)("é" * 2**20, reply.finish, reply.usage)

    model = Talker()
    result = run(LLMAgent(model, output_limit=1001), max_tokens=300_000, rounds=2)
    longest = max(len(request.user.encode()) for request in model.asked)
    assert 1000 < longest < 1001 + 400
    assert any("é" * 500 in request.user for request in model.asked)
    assert result.spend.total.tokens == model.billed


def test_a_prompt_that_overflows_is_not_sent_again() -> None:
    class Small(Scripted):
        def reply(self, request: Request) -> Any:
            if "Expected" in request.user and "topic1" in request.user:
                self.asked.append(request)
                raise CallFailed("overflow", "too long", Usage(calls=0))
            return super().reply(request)

    model, log = Small(), MemoryLog()
    with pytest.raises(RunError, match="too long"):  # in the end nothing else is left to propose
        run(LLMAgent(model), log=log)
    failed = [event for event in log.events() if isinstance(event, Failed)]
    refused = [request for request in model.asked if "Expected" in request.user and "topic1" in request.user]
    assert len(failed) == len(refused) > 0
    assert {event.kind for event in failed} == {"overflow"}
    assert all(event.attempt == 0 for event in log.events() if isinstance(event, Decided))


@pytest.mark.parametrize("text", ["", "<think>on and on"])
def test_a_reply_that_is_none_is_charged_and_ends_a_run_that_has_no_other(text: str) -> None:
    model = Scripted(lambda request: text if "Expected" in request.user else student(request))
    with pytest.raises(RunError, match="reply") as caught:
        run(LLMAgent(model))
    result = caught.value.result
    assert isinstance(result, EvolutionResult)
    assert result.spend.total.tokens == model.billed
    assert result.version == 0


def test_choices_are_asked_for_by_a_schema_and_read_back() -> None:
    labels = sorted({str(task.meta["label"]) for task in TASKS})

    def answer(request: Request) -> str:
        if request.schema is None:
            return student(request)
        said = student(request)
        return f'{{"answer": "{said if said in labels else labels[0]}"}}'

    model = Scripted(answer)
    result = run(LLMAgent(model, choices=labels), max_tokens=300_000)
    assert 0 < (result.base or 0) < 1
    assert result.final == 1.0
    assert result.spend.total.tokens == model.billed


CHANGED: list[dict[str, Any]] = [
    {"solve": "Do {task} by {artifact}"},
    {"propose": "{artifact} {output}"},
    {"choices": ["topic1", "dunno"]},
    {"answer_schema": {"type": "string"}},
    {"proposal_schema": {"type": "object"}},
    {"strategy": SingleSlot()},
    {"partial": False},
    {"solve_ceiling": 49},
    {"propose_ceiling": 49},
    {"output_limit": 99},
    {"answer_limit": 99},
    {"proposer": Operators()},
    {"proposer": Operators(words=3)},
    {"proposer": Scripted(name="other")},
    {"name": "mine"},
]


def test_the_name_changes_with_all_that_changes_an_answer() -> None:
    names = [LLMAgent(Scripted(), **options).name for options in ({}, *CHANGED)]
    assert len(set(names)) == len(names)
    assert LLMAgent(Scripted()).name == names[0] == LLMAgent(BlockingScripted(prices=Prices(1, 1))).name
    assert LLMAgent(Scripted(name="scripted-2")).name != names[0]


@pytest.mark.parametrize("options", [CHANGED[0], CHANGED[1], {"model": "another"}])
def test_a_resume_with_another_template_or_model_is_refused(options: dict[str, Any]) -> None:
    """Field case 13."""
    log = MemoryLog()
    run(LLMAgent(Scripted()), log=log, rounds=2)
    options = dict(options)
    other = Scripted(name=options.pop("model", "scripted"))
    with pytest.raises(UsageError, match="agent"):
        run(LLMAgent(other, **options), log=log, rounds=4)
    assert other.asked == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"choices": []}, "choices are"),
        ({"choices": "yes"}, "choices are 'yes'"),
        ({"choices": ["a", " "]}, "' ' is among the choices"),
        ({"choices": ["a", "a"]}, "distinct"),
        ({"choices": ["a"], "answer_schema": {}}, "choices and answer_schema"),
        ({"answer_schema": {"a": object()}}, "answer_schema is no JSON schema"),
        ({"solve_ceiling": 0}, "solve_ceiling is 0"),
        ({"propose_ceiling": 51}, "propose_ceiling is 51, and scripted gives at most 50"),
        ({"output_limit": -1}, "output_limit is -1"),
        ({"proposer": 3}, "proposer is 3"),
        ({"proposer": lambda prompt: prompt}, r"must accept .*as_model"),
        ({"proposer": Operators(), "propose": "{artifact}"}, "propose is given, but the proposer calls no model"),
    ],
)
def test_what_cannot_be_is_named_before_anything_is_spent(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LLMAgent(Scripted(), **options)


# --- a proposer without a model ---------------------------------------------------------------------------------------


def rule(rendered: str, task: Task, output: str, score: float) -> str:
    return f"know {task.meta['label']}"


async def later(rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
    return Answer(f"know {task.meta['label']}", Usage(calls=0))


class Held:
    """Proposes, and declares nothing."""

    blocking = False
    name = "held"

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> str:
        return rule(rendered, task, output, score)


@pytest.mark.parametrize("proposer", [rule, later, Held()])
@pytest.mark.parametrize("kind", KINDS)
def test_a_proposer_without_a_model_costs_nothing(kind: type[Scripted], proposer: Callable[..., Any]) -> None:
    model = kind()
    agent = LLMAgent(model, proposer=proposer)
    result = run(agent, max_tokens=60_000, max_cost=None)
    ledger = {line.purpose: line.used for line in result.state.governor.ledger}
    assert (ledger["propose"].tokens, ledger["propose"].calls) == (0, 0)
    assert result.spend.assumed == 0
    assert result.final == 1.0
    assert result.spend.total.tokens == model.billed <= 60_000
    assert agent.blocking is (kind is BlockingScripted or not isinstance(proposer, Held))


def test_an_agent_of_a_blocking_model_can_be_sent_to_another_process() -> None:
    agent = LLMAgent(BlockingScripted(), proposer=Operators())
    again = pickle.loads(pickle.dumps(agent))
    assert again.name == agent.name
    again.begin(TASKS)
    assert again.solve("know topic1", TASKS[1]).value == "topic1"
    assert isinstance(again.propose("", TASKS[1], "dunno", 0.0, 1).value, str)


def test_the_strategy_of_an_agent_is_that_of_the_run() -> None:
    model = Scripted()
    keyed = KeyedRules(("tone",))
    for agent, strategy in (
        (LLMAgent(model), SingleSlot()),
        (LLMAgent(model, strategy=SingleSlot()), AppendRules()),
        (LLMAgent(model, proposer=Operators(strategy=SingleSlot())), AppendRules()),
        (LLMAgent(model, proposer=lambda rendered, task, output, score: "x", strategy=keyed), AppendRules()),
    ):
        with pytest.raises(UsageError, match=r"strategy is .*proposes for .*give both the same"):
            run(agent, strategy=strategy)
    with pytest.raises(UsageError, match=r"strategy is SingleSlot.*operators.*proposes for AppendRules"):
        LLMAgent(model, proposer=Operators(), strategy=SingleSlot())
    assert model.asked == []
    assert LLMAgent(model, proposer=lambda rendered, task, output, score: "x").strategy is None
