"""From a scored answer to the request for a proposal, and from the reply to one in the strategy's grammar. Pure."""

from __future__ import annotations

import re

import msgspec

from agentdescent.artifact.strategy import AppendRules, Strategy, rule_key
from agentdescent.budget.tariff import Rate
from agentdescent.ports import Answer, CallFailed, Task
from agentdescent_adapters.llm.rates import cut, prompt_limit, size
from agentdescent_adapters.llm.replies import declines, text_of
from agentdescent_adapters.llm.schemas import decoded, proposal_of
from agentdescent_adapters.llm.templates import Template, fill
from agentdescent_adapters.providers.model import Reply, Request, Terms

NUMBERED = 99
"""Rules that a reply can name, the first of the list."""
NUMBERS_BYTES = 9 + 2 * (NUMBERED - 9)
"""What `1. ` to `99. ` take more than a bullet."""
UNKNOWN = "(not given)"
SCORE_BYTES = len("0.00")

_BULLET = "- "
_NAMED = re.compile(
    r"^[ \t]*(?:[-*][ \t]+)?(replace|drop)[ \t]+(?:rule[ \t]+)?#?([0-9]{1,2})\.?(?=[ \t]*(?::|$))", re.I | re.M
)
_LISTED = re.compile(r"^[ \t]*[-*][ \t]+(?=(?:add[ \t]*:|(?:replace|drop)[ \t]))", re.I | re.M)


class Proposing(msgspec.Struct, frozen=True):
    """How changes are asked for. `output_limit`, `answer_limit`: UTF-8 bytes of the output and of the expected answer
    that are shown."""

    template: Template
    strategy: Strategy
    terms: Terms
    rate: Rate
    output_limit: int
    answer_limit: int
    schema: bytes | None = None


def meaning(proposing: Proposing) -> tuple[object, ...]:
    """All of it that changes a reply: neither prices nor what is reserved."""
    limits = proposing.output_limit, proposing.answer_limit
    return proposing.template, proposing.strategy, proposing.schema, limits, proposing.rate.ceiling


def propose_request(
    proposing: Proposing, rendered: str, task: Task, output: str, score: float, sample: int, ceiling: int | None
) -> Request:
    """`ceiling`: of this call; None is that of the rate."""
    output = cut(output, proposing.output_limit)
    values = {
        "artifact": numbered(rendered)[0] if isinstance(proposing.strategy, AppendRules) else rendered,
        "task": task.prompt,
        "output": output,
        "score": f"{min(1.0, max(0.0, score)):.2f}",
        "answer": expected(task, proposing.answer_limit),
    }
    system, user = fill(proposing.template, values)
    data = size(rendered) + size(task.prompt) + size(output)
    return Request(
        user,
        system,
        ceiling=ceiling or proposing.rate.ceiling or None,
        sample=sample,
        schema=proposing.schema,
        prompt_limit=prompt_limit(proposing.terms, proposing.rate, data),
    )


def read_proposal(proposing: Proposing, rendered: str, reply: Reply) -> Answer:
    """A reply in the grammar of the strategy, or None to decline, and its usage. Raises CallFailed."""
    text = text_of(reply, partial=False)
    if declines(text):
        return Answer(None, reply.usage)
    proposal: str | None = text
    if proposing.schema is not None:
        try:
            proposal = proposal_of(decoded(text, proposing.schema), proposing.strategy)
        except ValueError as error:
            raise CallFailed("malformed", f"the reply is not of the schema: {error}", reply.usage) from error
    if proposal is not None and isinstance(proposing.strategy, AppendRules):
        proposal = keyed(proposal, numbered(rendered)[1])
    return Answer(proposal, reply.usage)


def numbered(rendered: str) -> tuple[str, tuple[str, ...]]:
    """A rule list with numbers in the place of its first bullets, and the keys of the rules they stand for.

    Numbers, since the key of a rule is a digest of its words: a model would have to copy it, token by token.
    """
    keys: list[str] = []
    lines = rendered.split("\n")
    for at, line in enumerate(lines):
        if line.startswith(_BULLET) and len(keys) < NUMBERED:
            keys.append(rule_key(line[len(_BULLET) :]))
            lines[at] = f"{len(keys)}. {line[len(_BULLET) :]}"
    return "\n".join(lines), tuple(keys)


def keyed(reply: str, keys: tuple[str, ...]) -> str:
    """A reply with keys in the place of the numbers of rules, and its directives free of list marks."""

    def put(found: re.Match[str]) -> str:
        number = int(found[2])
        return f"{found[1]} {keys[number - 1]}" if 1 <= number <= len(keys) else found[0]

    return _NAMED.sub(put, _LISTED.sub("", reply))


def expected(task: Task, limit: int) -> str:
    """The label of a task as it is shown, cut at so many bytes."""
    label = task.meta.get("label")
    return UNKNOWN if label is None else cut(str(label), limit)
