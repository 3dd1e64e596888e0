"""New texts for components: by the adapter's own `propose_new_texts`, else by a language model and GEPA's prompt."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

from agentdescent.effects import checked, clean
from agentdescent.errors import UsageError
from agentdescent.ports import Answer, CallFailed
from agentdescent.wiring import name_of
from agentdescent_adapters.gepa.contract import Candidate, Dataset, Records, guarded
from agentdescent_adapters.gepa.usage import Bill
from agentdescent_adapters.gepa.waiting import Waiting
from agentdescent_adapters.providers.model import Model, Reply, Request

MISSING = "reflection_lm= needs GEPA's prompt, of the package gepa: pip install 'agentdescent[gepa]'"

ReflectionLM: TypeAlias = Model | Callable[[str], Any]
"""A Model; or a callable from the prompt to text, or to an Answer with its usage, which may be asynchronous."""
Template: TypeAlias = str | Mapping[str, str] | None


class Proposer(Protocol):
    """`calls`: how often one proposal for so many components calls a model at most, as far as that is known."""

    name: str

    def calls(self, components: int) -> int: ...

    def propose(self, candidate: Candidate, dataset: Dataset, task: str, sample: int, bill: Bill) -> dict[str, str]:
        """New texts of the components that `dataset` is about, or some of them. Raises CallFailed."""

    def close(self) -> None: ...


class OwnProposer:
    """The adapter's own."""

    def __init__(self, propose: Callable[[Candidate, Dataset, list[str]], Mapping[str, str]]) -> None:
        self.name = "own"
        self._propose = propose

    def calls(self, components: int) -> int:
        return components

    def propose(self, candidate: Candidate, dataset: Dataset, task: str, sample: int, bill: Bill) -> dict[str, str]:
        for _ in dataset:
            bill.counted()
        asked = partial(self._propose, dict(candidate), dataset, list(dataset))
        texts: object = guarded("propose_new_texts", task, asked)
        if isinstance(texts, Mapping) and all(_is_new(candidate, name, text) for name, text in texts.items()):
            return dict(texts)
        message = f"propose_new_texts returned {texts!r}: return new texts, by the names of components"
        raise CallFailed("contract", clean(message), bill.total())

    def close(self) -> None: ...


class Reflection:
    """GEPA's InstructionProposalSignature, asked of one model once a component. A reply that is blank or NONE leaves
    its component as it is; none at all is a failed call."""

    def __init__(self, lm: ReflectionLM, template: Template) -> None:
        self.name = lm.name if isinstance(lm, Model) else name_of(lm)
        self._lm = lm
        self._template = template
        self._signature = _signature()
        self._wait = Waiting()
        for one in template.values() if isinstance(template, Mapping) else (template,):
            try:
                self._signature.validate_prompt_template(one)
            except ValueError as error:
                raise UsageError(f"reflection_prompt_template: {error}") from error

    def calls(self, components: int) -> int:
        return components

    def propose(self, candidate: Candidate, dataset: Dataset, task: str, sample: int, bill: Bill) -> dict[str, str]:
        texts = dict[str, str]()
        for name, records in dataset.items():
            prompt = guarded("the reflection prompt", task, partial(self._prompt, candidate[name], name, records))
            said = self._ask(prompt, task, sample, bill).strip()
            new = self._signature.output_extractor(said)["new_instruction"]
            if new.strip() and new.strip().upper() != "NONE":
                texts[name] = new
        return texts

    def close(self) -> None:
        self._wait.close()

    def _prompt(self, current: str, name: str, records: Records) -> Any:
        template = self._template.get(name) if isinstance(self._template, Mapping) else self._template
        given = {"current_instruction_doc": current, "dataset_with_feedback": records, "prompt_template": template}
        return self._signature.prompt_renderer(given)

    def _ask(self, prompt: Any, task: str, sample: int, bill: Bill) -> str:
        if isinstance(self._lm, Model):
            return self._ask_model(self._lm, prompt, sample, bill)
        lm = self._lm
        found = guarded("reflection_lm", task, partial(self._called, lm, prompt))
        if isinstance(found, Answer):
            bill.told(checked(found.usage))
            found = found.value
        else:
            bill.counted()
        if found is None or found == "":
            raise CallFailed("empty", "reflection_lm returned nothing", bill.total())
        if not isinstance(found, str):
            message = f"reflection_lm returned {type(found).__name__}: return text, or Answer(text, usage)"
            raise CallFailed("contract", message, bill.total())
        return found

    def _called(self, lm: Callable[[str], Any], prompt: Any) -> Any:
        found = lm(prompt)
        return self._wait(found) if inspect.isawaitable(found) else found

    def _ask_model(self, model: Model, prompt: Any, sample: int, bill: Bill) -> str:
        if not isinstance(prompt, str):
            message = "the reflective dataset holds images, and a Model takes text: give a callable as reflection_lm="
            raise CallFailed("contract", message, bill.total())
        try:
            reply: Reply = self._wait(model.complete(Request(prompt, sample=sample)))
        except CallFailed as failed:
            raise _with(failed, bill) from failed
        bill.told(reply.usage)
        if reply.finish != "stop":
            raise CallFailed("truncated", f"the reply of {model.name} ended by {reply.finish}", bill.total())
        if not reply.text.strip():
            raise CallFailed("empty", f"{model.name} returned nothing", bill.total())
        return reply.text


def _is_new(candidate: Candidate, name: object, text: object) -> bool:
    return name in candidate and isinstance(text, str)


def _with(failed: CallFailed, bill: Bill) -> CallFailed:
    """The failure, charged what was made before it. What would be made again is not repeated within the deadline."""
    if not bill.made:
        return failed
    if failed.retry_after is None:
        bill.told(failed.usage)
    return CallFailed(failed.kind, str(failed), bill.total())


def _signature() -> Any:
    """One cast at the boundary: GEPA's own records are dictionaries of anything."""
    try:
        from gepa.strategies.instruction_proposal import InstructionProposalSignature
    except ImportError as error:
        raise UsageError(MISSING) from error
    return cast(Any, InstructionProposalSignature)
