"""Two proposers of one run: programmatic operators, and a language model that a JSON schema constrains.

The number of the sample says which one is asked, so that the log tells what came of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from agentdescent.artifact.strategy import AppendRules, KeyedRules, Strategy, rule_key
from agentdescent.ports import Answer, Repeat, Task
from agentdescent_adapters.llm import LLMAgent, Operators, Template
from agentdescent_adapters.llm.operators import rules_of
from agentdescent_adapters.providers.model import Model

Source: TypeAlias = Literal["operators", "model"]

WORDS = 8
"""Of a description at most, each of at most 12 letters."""

DESCRIBE = Template(
    "{artifact}\n\nLabel: {answer}\nMessage: {task}", "Say in a few words what messages with this label are about."
)


def description_schema(labels: Sequence[str]) -> dict[str, object]:
    """A label, and a few words on it."""
    text = {"type": "string", "pattern": f"^[A-Z][a-z']{{0,11}}( [a-z']{{1,12}}){{1,{WORDS - 1}}}$"}
    fields = {"key": {"type": "string", "enum": list(labels)}, "text": text}
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def source_of(sample: int) -> Source:
    """Who is asked for the proposal of this number: the model, which is paid, one time in four."""
    return "model" if sample % 4 == 3 else "operators"


class MixedProposers:
    """For `LLMAgent(model, proposer=MixedProposers(model, labels))`. `model`: who describes."""

    blocking = False
    repeat: Repeat = "charged"
    strategy: Strategy = AppendRules()

    def __init__(self, model: Model, labels: Sequence[str]) -> None:
        self._operators = Operators()
        self._writer = LLMAgent(
            model,
            strategy=KeyedRules(tuple(labels)),
            propose=DESCRIBE,
            proposal_schema=description_schema(labels),
            output_limit=0,
        )
        self.tariff = self._writer.tariff
        self.name = f"{self._operators.name} and {self._writer.name}"

    def begin(self, train: Sequence[Task]) -> None:
        self._operators.begin(train)

    async def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        """A reply in the grammar of AppendRules: one description a label."""
        if source_of(sample) == "operators":
            return self._operators.propose(rendered, task, output, score, sample)
        answer: Answer = await self._writer.propose(rendered, task, output, score, sample)
        if answer.value is None:
            return answer
        label = answer.value.partition(": ")[0]
        held = next((rule for rule in rules_of(rendered) if rule.startswith(f"{label}: ")), None)
        directive = "add" if held is None else f"replace {rule_key(held)}"
        return Answer(f"{directive}: {answer.value}", answer.usage)
