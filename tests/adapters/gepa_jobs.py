"""Small jobs for the bridge: a model that knows what its instructions say, and one that learns from feedback."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from gepa.adapters.default_adapter.default_adapter import ChatMessage, DefaultAdapter, DefaultDataInst
from gepa.core.adapter import EvaluationBatch, GEPAAdapter

from agentdescent import Usage
from agentdescent_adapters.gepa import Bridge, from_gepa

KINDS = ("apple", "beet", "clay", "dusk", "elm", "fig")
COLOURS = ("red", "purple", "brown", "grey", "green", "blue")
SEED = {"system": "Say the colour of the thing."}


def colours(each: int = 5) -> list[DefaultDataInst]:
    return [
        {"input": f"{kind} number {n}", "additional_context": {}, "answer": colour}
        for n in range(each)
        for kind, colour in zip(KINDS, COLOURS, strict=True)
    ]


def kind_of(example: DefaultDataInst) -> str:
    return example["input"].split()[0]


class Model:
    """Answers a colour only when its instructions say "kind: colour". A token for every character."""

    def __init__(self, *, dies_after: int | None = None) -> None:
        self.calls = 0
        self.prompt = self.completion = 0
        self._dies_after = dies_after

    def __call__(self, messages: Sequence[ChatMessage]) -> str:
        if self.calls == self._dies_after:
            sys.stdout.flush()
            import os

            os._exit(9)
        self.calls += 1
        system, user = (message["content"] for message in messages)
        found = re.search(rf"^{user.split()[0]}: (\w+)$", system, re.M)
        answer = found.group(1) if found is not None else "I cannot say."
        self.prompt += len(system) + len(user)
        self.completion += len(answer)
        return answer

    def usage(self) -> Usage:
        return Usage(self.prompt, self.completion)


class Reflector:
    """Adds what the feedback of the first example says to the instructions, in a fence as GEPA asks."""

    def __init__(self, model: Model | None = None) -> None:
        self.prompts: list[str] = []
        self._model = model

    def __call__(self, prompt: Any) -> str:
        self.prompts.append(prompt)
        current = prompt.split("```")[1].strip()
        kind = re.search(r"## Inputs\n(\w+)", prompt)
        colour = re.search(r"correct answer is '(\w+)'", prompt)
        assert kind is not None
        assert colour is not None
        reply = f"Here it is.\n```\n{current}\n{kind.group(1)}: {colour.group(1)}\n```"
        if self._model is not None:
            self._model.prompt += len(prompt)
            self._model.completion += len(reply)
        return reply


def bridge(model: Model, **options: Any) -> Bridge[DefaultDataInst]:
    given: dict[str, Any] = {"reflection_lm": Reflector(model), "seed_candidate": SEED, "cluster": kind_of} | options
    return from_gepa(DefaultAdapter(model), colours(), **given)


class Pair(GEPAAdapter[str, dict[str, str], str]):
    """Two components that must agree: `reader` names the kinds it can read, `speaker` those it can speak of. An
    equal share of the score for each."""

    def __init__(self) -> None:
        self.seen: list[tuple[tuple[str, ...], bool]] = []

    def evaluate(
        self, batch: list[str], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[dict[str, str], str]:
        self.seen.append((tuple(batch), capture_traces))
        scores = [sum(kind in text.split() for text in candidate.values()) / len(candidate) for kind in batch]
        traces = [{"kind": kind, "scores": f"{score}"} for kind, score in zip(batch, scores, strict=True)]
        return EvaluationBatch(list(batch), scores, traces if capture_traces else None)

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],
        eval_batch: EvaluationBatch[dict[str, str], str],
        components_to_update: list[str],
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        assert eval_batch.trajectories is not None
        return {
            name: [
                {"Feedback": f"{name} must know <{trace['kind']}>"}
                for trace in eval_batch.trajectories
                if trace["kind"] not in candidate[name].split()
            ]
            for name in components_to_update
        }


def learn_kind(prompt: Any) -> str:
    """Reflects for Pair."""
    current, kind = prompt.split("```")[1].strip(), re.search(r"<(\w+)>", prompt)
    assert kind is not None
    return f"```\n{current} {kind.group(1)}\n```"
