"""An agent of a language model: it solves with the artifact as instructions, and proposes by what went wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from agentdescent.artifact.diff import digest
from agentdescent.artifact.strategy import AppendRules, Strategy, grammar
from agentdescent.budget.tariff import Rate, Tariff
from agentdescent.errors import UsageError
from agentdescent.ports import Repeat, Task
from agentdescent.wiring import name_of
from agentdescent_adapters.llm import proposing as asking
from agentdescent_adapters.llm import solving
from agentdescent_adapters.llm.proposing import Proposing
from agentdescent_adapters.llm.rates import NO_CALL, ceiling_of, rate_of, size, takes
from agentdescent_adapters.llm.schemas import choice_schema, encoded
from agentdescent_adapters.llm.shells import BlockingProposer, BlockingSolver, Function, Proposer, Solver
from agentdescent_adapters.llm.solving import Solving
from agentdescent_adapters.llm.templates import (
    CLASSIFY,
    PLACEHOLDERS,
    SOLVE,
    Template,
    mentions,
    pieces,
    propose_template,
    template_of,
)
from agentdescent_adapters.providers.calling import BlockingModel, as_model
from agentdescent_adapters.providers.model import Model

VERSION = 1
"""Of how requests are made and replies are read: an increment refuses the resume of older runs."""


class Changes(msgspec.Struct, frozen=True):
    """Who proposes, however it does: the port, and what is declared of it. `meaning`: all that changes a reply."""

    propose: Callable[..., Any]
    rate: Rate
    output_limit: int
    repeat: Repeat
    blocking: bool
    name: str
    meaning: tuple[object, ...]


class LLMAgent:
    """`complete`: a Model, or any callable (see `as_model`); synchronous ones are called in threads of the run.

    `proposer`: who proposes instead: another Model, an object with a `propose` method (such as Operators) or a function
    `(rendered, task, output, score[, sample])`; the last two are taken to cost nothing unless they have a `tariff`.
    `strategy`: that of the run, which is refused with another; it says in which grammar replies are asked for
    [AppendRules(), or that of the proposer]. `solve`, `propose`: templates [the
    defaults of `templates`]. `choices`: the only answers, asked for by a JSON schema and read back. `answer_schema`,
    `proposal_schema`: JSON schemas of replies (see schemas.proposal_schema for the fields of a proposal). `partial`:
    whether a solution that was cut off is scored [True], or has failed. `solve_ceiling`, `propose_ceiling`: completion
    tokens at most [those of the model]. `output_limit`, `answer_limit`: bytes of the output, and of the expected
    answer, that a proposal is shown. `name`: in the place of "llm" in its name.

    Its name holds those of its models and a digest of everything else that changes an answer, so that a resume with
    another is refused. Raises UsageError for what cannot be.
    """

    def __init__(
        self,
        complete: Model | Callable[..., Any],
        *,
        proposer: object | None = None,
        strategy: Strategy | None = None,
        solve: Template | str | None = None,
        propose: Template | str | None = None,
        choices: Sequence[str] | None = None,
        answer_schema: Mapping[str, Any] | None = None,
        proposal_schema: Mapping[str, Any] | None = None,
        partial: bool = True,
        solve_ceiling: int | None = None,
        propose_ceiling: int | None = None,
        output_limit: int = 4096,
        answer_limit: int = 256,
        name: str | None = None,
    ) -> None:
        model = as_model(complete)
        _check_limits(output_limit, answer_limit)
        part = _solving(model, solve, choices, answer_schema, solve_ceiling, partial=partial)
        if proposer is None or isinstance(proposer, Model):
            writer = model if proposer is None else proposer
            plan = _proposing(
                writer, strategy or AppendRules(), propose, proposal_schema, propose_ceiling, output_limit, answer_limit
            )
            change = _by_model(writer, plan)
        else:
            _check_unused(propose, proposal_schema, propose_ceiling)
            plan, change = None, _without_model(proposer, output_limit)
        self.strategy: Strategy | None = _strategy(proposer, strategy) if plan is None else plan.strategy
        self.solving: Solving = part
        self.proposing: Proposing | None = plan
        self.solve = (
            BlockingSolver(model, part).solve if isinstance(model, BlockingModel) else Solver(model, part).solve
        )
        self.propose: Callable[..., Any] = change.propose
        self.tariff = Tariff(part.rate, change.rate, change.output_limit)
        self.repeat: Repeat = "charged" if "charged" in (model.repeat, change.repeat) else "free"
        self.blocking = isinstance(model, BlockingModel) or change.blocking
        told = digest(msgspec.json.encode((VERSION, solving.meaning(part), change.meaning)))[:12]
        self.name = f"{name or 'llm'} {model.name}{'' if change.name == model.name else f' / {change.name}'} {told}"
        self._proposer = proposer

    def begin(self, train: Sequence[Task]) -> None:
        """Shows the train tasks to a proposer that wants to see them."""
        begin = getattr(self._proposer, "begin", None)
        if callable(begin):
            begin(train)


def _solving(
    model: Model,
    template: Template | str | None,
    choices: Sequence[str] | None,
    schema: Mapping[str, Any] | None,
    ceiling: int | None,
    *,
    partial: bool,
) -> Solving:
    if choices is not None and schema is not None:
        raise UsageError("choices and answer_schema are both given: choices make a schema of their own")
    labels = _choices(choices)
    wanted = template_of(
        (CLASSIFY if labels else SOLVE) if template is None else template,
        "solve",
        needs=("artifact", "task"),
        knows=("artifact", "task"),
    )
    sent = encoded(choice_schema(labels), "choices") if labels else _schema(schema, "answer_schema")
    rate = rate_of(model, ceiling_of(model, ceiling, "solve_ceiling"), pieces(wanted), 0, _sent(model, sent))
    return Solving(wanted, model.terms, rate, sent, labels, partial)


def _proposing(
    model: Model,
    strategy: Strategy,
    template: Template | str | None,
    schema: Mapping[str, Any] | None,
    ceiling: int | None,
    output_limit: int,
    answer_limit: int,
) -> Proposing:
    given = propose_template(strategy, structured=schema is not None) if template is None else template
    wanted = template_of(given, "propose", needs=("artifact",), knows=PLACEHOLDERS)
    answer = max(answer_limit, size(asking.UNKNOWN)) * mentions(wanted, "answer")
    numbers = asking.NUMBERS_BYTES if isinstance(strategy, AppendRules) else 0
    more = answer + asking.SCORE_BYTES * mentions(wanted, "score") + numbers
    sent = _schema(schema, "proposal_schema")
    most = ceiling_of(model, ceiling, "propose_ceiling")
    rate = rate_of(model, most, pieces(wanted), more, _sent(model, sent))
    return Proposing(wanted, strategy, model.terms, rate, output_limit, answer_limit, sent)


def _by_model(model: Model, plan: Proposing) -> Changes:
    """It is told a ceiling, where the model can be."""
    blocking = isinstance(model, BlockingModel)
    one = BlockingProposer(model, plan) if isinstance(model, BlockingModel) else Proposer(model, plan)
    propose = one.propose if "ceiling" in takes(model) else one.unbounded
    return Changes(propose, plan.rate, plan.output_limit, model.repeat, blocking, model.name, asking.meaning(plan))


def _without_model(proposer: object, output_limit: int) -> Changes:
    declared = getattr(proposer, "tariff", None)
    own = declared if isinstance(declared, Tariff) else Tariff(propose=NO_CALL, output_limit=output_limit)
    repeat: Repeat = getattr(proposer, "repeat", "free")
    blocking = bool(getattr(proposer, "blocking", True))
    propose, limit = _propose_without(proposer), own.output_limit
    return Changes(propose, own.propose, limit, repeat, blocking, name_of(proposer), (limit,))


def _strategy(proposer: object, given: Strategy | None) -> Strategy | None:
    """In whose grammar somebody else proposes; None where nobody says so."""
    own = getattr(proposer, "strategy", None)
    if not isinstance(own, Strategy):
        return given
    if given is not None and grammar(given) != grammar(own):
        raise UsageError(f"strategy is {given}, and {name_of(proposer)} proposes for {own}: give both the same")
    return own


def _propose_without(proposer: object) -> Callable[..., Any]:
    """`propose` of an object, or a function; what has no tariff costs nothing."""
    method: Any = getattr(proposer, "propose", None)
    if callable(method) and isinstance(getattr(proposer, "tariff", None), Tariff):
        return cast(Callable[..., Any], method)
    function = method if callable(method) else proposer
    if not callable(function):
        raise UsageError(f"proposer is {proposer!r}: give a Model, an object with `propose`, or a function")
    samples = _accepts(function, 5)
    if not samples and not _accepts(function, 4):
        raise UsageError(
            f"{name_of(function)} must accept (rendered, task, output, score) or those and sample; one that completes "
            "a prompt is given as as_model(...)"
        )
    whole = Function(function, samples)
    return whole.propose_later if inspect.iscoroutinefunction(function) else whole.propose


def _accepts(function: Callable[..., Any], arguments: int) -> bool:
    try:
        inspect.signature(function).bind(*range(arguments))
    except (TypeError, ValueError):
        return False
    return True


def _choices(choices: Sequence[str] | None) -> tuple[str, ...]:
    if choices is None:
        return ()
    labels: tuple[object, ...] = tuple(choices)
    if isinstance(choices, str) or not labels or len(set(labels)) < len(labels):
        raise UsageError(f"choices are {choices!r}: give the distinct texts that may be answered")
    for label in labels:
        if not isinstance(label, str) or not label.strip():
            raise UsageError(f"{label!r} is among the choices: each must be a text that is not blank")
    return tuple(map(str, labels))


def _schema(schema: Mapping[str, Any] | None, role: str) -> bytes | None:
    return None if schema is None else encoded(schema, role)


def _sent(model: Model, schema: bytes | None) -> bytes | None:
    """The schema, if the model can be told it."""
    return schema if "schema" in takes(model) else None


def _check_limits(output_limit: int, answer_limit: int) -> None:
    for role, limit in (("output_limit", output_limit), ("answer_limit", answer_limit)):
        if type(limit) is not int or limit < 0:
            raise UsageError(f"{role} is {limit!r}: it must be a whole number of bytes")


def _check_unused(template: object, schema: object, ceiling: object) -> None:
    for role, given in (("propose", template), ("proposal_schema", schema), ("propose_ceiling", ceiling)):
        if given is not None:
            raise UsageError(f"{role} is given, but the proposer calls no model: leave it out")
