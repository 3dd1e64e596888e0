"""The texts around what evolves: prompts for solving and for proposing, to be overridden by one's own.

Placeholders:

    {artifact}  the rendered artifact; for a proposal its rules are numbered where replies name them by number
    {task}      the prompt of the task
    {output}    what was answered (proposals), its first `output_limit` bytes
    {score}     of that answer, 0.00 to 1.00 (proposals)
    {answer}    the expected one, meta["label"] of the task (proposals), its first `answer_limit` bytes

Any other brace is text, and so is every brace of what is filled in. Artifact, task and output may occur once each: what
a call reserves counts their bytes once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import assert_never

import msgspec

from agentdescent.artifact.strategy import AppendRules, Components, KeyedRules, SingleSlot, Strategy
from agentdescent.errors import UsageError

PLACEHOLDERS = ("artifact", "task", "output", "score", "answer")
_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_ONCE = ("artifact", "task", "output")


class Template(msgspec.Struct, frozen=True):
    """A system and a user text with placeholders. A plain string stands for a user text."""

    user: str
    system: str = ""


SOLVE = Template("{task}", "Solve the task. Follow these instructions where they apply:\n\n{artifact}")
"""For free text."""

CLASSIFY = Template("{task}", "Classify the message.\n\n{artifact}")
"""For `choices`. It does not name them: that is for the artifact to do where it helps."""

_CASE = """Instructions:
{artifact}

Task:
{task}

Answer (score {score} of 1):
{output}

Expected answer:
{answer}"""
_AIM = (
    "You improve the instructions that an assistant follows. You see them, one task, and how its answer scored. "
    "Propose one change that would help with this task and others like it: general, short, and true. "
)
_OR_NONE = "If nothing would help, reply NONE."
_RULES = (
    "Reply with one line and nothing else:\nadd: RULE\nreplace NUMBER: RULE\ndrop NUMBER\n"
    "where NUMBER is that of a rule you see. "
)
_WHOLE = "Reply with the whole new text of the instructions and nothing else. "
_OBJECT = "Reply with a JSON object and nothing else: "
_RULE_FIELDS = '"op" is "add", "replace", "drop" or "none"; "number", the rule to replace or drop, else 0; "text", the '
_RULE_FIELDS += "rule. "

PROPOSE = Template(_CASE, _AIM + _RULES + _OR_NONE)
"""For AppendRules."""

PROPOSE_TEXT = Template(_CASE, _AIM + _WHOLE + _OR_NONE)
"""For SingleSlot."""


def propose_template(strategy: Strategy, *, structured: bool = False) -> Template:
    """The default for a strategy; `structured`: for replies in the schema of `schemas.proposal_schema`."""
    match strategy:
        case AppendRules():
            return Template(_CASE, _AIM + _OBJECT + _RULE_FIELDS) if structured else PROPOSE
        case SingleSlot():
            field = _OBJECT + '"text", the whole new text of the instructions, or "" if nothing would help.'
            return Template(_CASE, _AIM + field) if structured else PROPOSE_TEXT
        case KeyedRules():
            return Template(_CASE, _AIM + _keyed(strategy.categories, structured=structured))
        case Components():
            if structured:
                return Template(
                    _CASE, _AIM + _OBJECT + '"key", the name of a text you see; "text", the whole new text.'
                )
            return Template(_CASE, _AIM + _OBJECT + "the names of the texts to replace, each with its whole new text.")
        case _:
            assert_never(strategy)


def _keyed(categories: tuple[str, ...], *, structured: bool) -> str:
    names = ", ".join(categories)
    if structured:
        return f'{_OBJECT}"key", one of: {names}; "text", the new text of that section, or "" if nothing would help.'
    return (
        "Reply with one line and nothing else:\nSECTION: TEXT\nwhich becomes the whole text of that section. The "
        f"sections are: {names}. {_OR_NONE}"
    )


def template_of(given: Template | str, role: str, *, needs: tuple[str, ...], knows: tuple[str, ...]) -> Template:
    """A template checked: placeholders it `needs` are there, others than it `knows` are not. Raises UsageError that
    names the template by its role."""
    template = Template(given) if isinstance(given, str) else given
    if not isinstance(template, Template):
        raise UsageError(f"the {role} template is {given!r}: give a text, or Template(user, system)")
    both = f"{template.system}\0{template.user}"
    try:
        both.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the {role} template is not valid Unicode: {error}") from error
    found = _PLACEHOLDER.findall(both)
    for name in needs:
        if name not in found:
            raise UsageError(f"the {role} template has no {{{name}}}: say where that goes")
    for name in found:
        if name not in knows:
            raise UsageError(f"the {role} template has {{{name}}}, which only a proposal is told: leave it out")
        if name in _ONCE and found.count(name) > 1:
            raise UsageError(f"the {role} template has {{{name}}} {found.count(name)} times: once is what is paid for")
    return template


def pieces(template: Template) -> tuple[str, ...]:
    """Its own text, between the placeholders."""
    parts = (*_PLACEHOLDER.split(template.system)[::2], *_PLACEHOLDER.split(template.user)[::2])
    return tuple(part for part in parts if part)


def mentions(template: Template, name: str) -> int:
    """How often it has that placeholder."""
    return _PLACEHOLDER.findall(f"{template.system}\0{template.user}").count(name)


def fill(template: Template, values: Mapping[str, str]) -> tuple[str, str]:
    """The system and the user text. What is filled in is not read again."""

    def put(text: str) -> str:
        return _PLACEHOLDER.sub(lambda found: values[found[1]], text)

    return put(template.system), put(template.user)
