"""Templates: what is filled in is never read, and what they take is what is reserved."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Task, UsageError
from agentdescent.artifact.strategy import AppendRules, KeyedRules, SingleSlot, Strategy
from agentdescent.budget.tariff import worst
from agentdescent_adapters.llm import LLMAgent, Template
from agentdescent_adapters.llm.proposing import Proposing, propose_request
from agentdescent_adapters.llm.schemas import proposal_schema
from agentdescent_adapters.llm.solving import solve_request
from agentdescent_adapters.llm.templates import fill, mentions, pieces, propose_template
from agentdescent_adapters.providers.model import Request
from tests.adapters.scripted import Scripted

braces = st.sampled_from(
    ("{artifact}", "{task}", "{output}", "{score}", "{answer}", "{0}", "{{", "}", "%s", "\\1", "北")
)
texts = st.one_of(st.lists(braces, max_size=6).map("".join), st.text(st.characters(codec="utf-8"), max_size=60))
rules = st.lists(st.text(st.characters(codec="utf-8"), max_size=9), max_size=130).map(lambda r: "\n- ".join(("#", *r)))
STRATEGIES: tuple[Strategy, ...] = (AppendRules(), SingleSlot(), KeyedRules(("tone", "length")))


def sent(request: Request) -> int:
    return len((request.system + request.user).encode()) + len(request.schema or b"")


@given(texts, texts, texts)
def test_what_is_filled_in_is_not_read(artifact: str, task: str, output: str) -> None:
    template = Template("a{task}b{output}c{nothing}{", "d{artifact}e")
    values = {"artifact": artifact, "task": task, "output": output}
    assert fill(template, values) == (f"d{artifact}e", f"a{task}b{output}c{{nothing}}{{")
    assert pieces(template) == ("d", "e", "a", "b", "c{nothing}{")


def request_of(proposing: Proposing, rendered: str, task: Task, output: str) -> Request:
    return propose_request(proposing, rendered, task, output, 1 / 3, 5, None)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("structured", [False, True])
@given(rendered=texts | rules, prompt=texts, output=texts, label=texts | st.text(min_size=200, max_size=300))
def test_a_prompt_is_within_what_its_tariff_reserves(
    strategy: Strategy, structured: bool, rendered: str, prompt: str, output: str, label: str
) -> None:
    model = Scripted(overhead=0)
    schema = proposal_schema(strategy) if structured else None
    agent = LLMAgent(
        model, strategy=strategy, proposal_schema=schema, choices=["a", "é"], answer_limit=40, output_limit=9
    )
    solving, proposing = agent.solving, agent.proposing
    assert proposing is not None
    task = Task("t", prompt, {"label": label.encode("utf-8", "ignore").decode()})
    data = len(rendered.encode()) + len(prompt.encode())
    request = solve_request(solving, rendered, task)
    assert sent(request) + 50 <= worst(agent.tariff.solve, data, 1).tokens
    assert request.prompt_limit == worst(agent.tariff.solve, data, 1, 0).tokens
    read = len(output.encode()[:9].decode("utf-8", "ignore").encode())
    request = request_of(proposing, rendered, task, output)
    assert sent(request) + 50 <= worst(agent.tariff.propose, data + read, 0).tokens
    assert request.prompt_limit == worst(agent.tariff.propose, data + read, 0, 0).tokens
    assert (request.sample, request.ceiling, request.schema is not None) == (5, 50, structured)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("structured", [False, True])
def test_the_default_of_a_strategy_shows_everything_once(strategy: Strategy, structured: bool) -> None:
    template = propose_template(strategy, structured=structured)
    assert [mentions(template, name) for name in ("artifact", "task", "output", "score", "answer")] == [1] * 5
    assert ("JSON" in template.system) is structured
    assert ("replace NUMBER" in template.system) is (isinstance(strategy, AppendRules) and not structured)
    assert ("tone, length" in template.system) is isinstance(strategy, KeyedRules)
    assert sum(map(len, pieces(template))) < 700


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solve": "{task}"}, r"the solve template has no \{artifact\}"),
        ({"solve": "{artifact}"}, r"the solve template has no \{task\}"),
        ({"solve": "{artifact} {task} {answer}"}, r"the solve template has \{answer\}, which only a proposal is told"),
        ({"propose": "{artifact} {task} {task}"}, r"the propose template has \{task\} 2 times"),
        ({"propose": Template("{artifact}", "{artifact}")}, r"the propose template has \{artifact\} 2 times"),
        ({"propose": "{task}"}, r"the propose template has no \{artifact\}"),
        ({"propose": 3}, "the propose template is 3: give a text"),
        ({"solve": "{artifact}{task}\ud800"}, "the solve template is not valid Unicode"),
    ],
)
def test_a_template_that_cannot_be_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LLMAgent(Scripted(), **options)


def test_the_texts_of_a_request() -> None:
    agent = LLMAgent(Scripted(), output_limit=7, answer_limit=5)
    task = Task("t", "What {x}?", {"label": "北京市"})
    assert agent.proposing is not None
    request = request_of(agent.proposing, "# P\n- one\n- two", task, "äöüß")
    assert request.user == (
        "Instructions:\n# P\n1. one\n2. two\n\nTask:\nWhat {x}?\n\n"
        "Answer (score 0.33 of 1):\näöü\n\nExpected answer:\n北"
    )
    bare = request_of(agent.proposing, "", Task("t", ""), "")
    assert bare.user.endswith("Expected answer:\n(not given)")
    solved = solve_request(agent.solving, "# P\n- one", task)
    assert solved.system.endswith("\n\n# P\n- one")
    assert solved.user == "What {x}?"
