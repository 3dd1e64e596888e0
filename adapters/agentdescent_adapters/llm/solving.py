"""From a task to the request that solves it, and from the reply to the output. Pure."""

from __future__ import annotations

import msgspec

from agentdescent.budget.tariff import Rate
from agentdescent.ports import Answer, CallFailed, Task
from agentdescent_adapters.llm.rates import prompt_limit, size
from agentdescent_adapters.llm.replies import text_of
from agentdescent_adapters.llm.schemas import ANSWER, decoded
from agentdescent_adapters.llm.templates import Template, fill
from agentdescent_adapters.providers.model import Reply, Request, Terms


class Solving(msgspec.Struct, frozen=True):
    """How tasks are solved. `schema` as it is sent, None for free text; with `choices` the one that it makes.
    `partial`: a text that was cut off is an output too."""

    template: Template
    terms: Terms
    rate: Rate
    schema: bytes | None = None
    choices: tuple[str, ...] = ()
    partial: bool = True


def meaning(solving: Solving) -> tuple[object, ...]:
    """All of it that changes an answer: neither prices nor what is reserved."""
    return solving.template, solving.schema, solving.choices, solving.partial, solving.rate.ceiling


def solve_request(solving: Solving, rendered: str, task: Task) -> Request:
    system, user = fill(solving.template, {"artifact": rendered, "task": task.prompt})
    return Request(
        user,
        system,
        ceiling=solving.rate.ceiling or None,
        schema=solving.schema,
        prompt_limit=prompt_limit(solving.terms, solving.rate, size(rendered) + size(task.prompt)),
    )


def read_solution(solving: Solving, reply: Reply) -> Answer:
    """The output and its usage. Raises CallFailed.

    With `choices` the output is the choice, in JSON or as it is; a text that is neither is an output like another, and
    a wrong one: a model that no schema constrains may write what it likes.
    """
    text = text_of(reply, partial=solving.partial and solving.schema is None)
    alike = [one for one in solving.choices if _plain(one) == _plain(text)]
    chosen = next((one for one in alike if one == text.strip()), next(iter(alike), None))
    if chosen is not None:
        return Answer(chosen, reply.usage)
    if solving.schema is None or (solving.choices and not text.lstrip().startswith("{")):
        return Answer(text, reply.usage)
    try:
        value = decoded(text, solving.schema)
    except ValueError as error:
        raise CallFailed("malformed", f"the reply is not of the schema: {error}", reply.usage) from error
    return Answer(value[ANSWER] if solving.choices else text, reply.usage)


def _plain(text: str) -> str:
    return text.strip().strip("\"'`*").rstrip(".").casefold()
