"""GEPA 0.1.4: `gepa.optimize` with its defaults, the rules one component, the world behind an adapter.

It has no cap in tokens. What a user has is `max_metric_calls`: the cap over the mean price of a rollout. Its calls for
proposals are not metric calls. It reflects on a minibatch of three train tasks at a time, and the proposer is asked
about the first that failed, for the price of one proposal. "tuned": a minibatch of one, since a proposal reads one task
only, and a stop callback that looks at the tokens spent, which the adapter's state carries through a restart.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from bench.peers.driving import Plan, drive
from bench.peers.world import MEAN_SOLVE, TITLE, Case, World

RULES = "rules"
Candidate = Mapping[str, str]


class Adapter:
    """The world as GEPA calls it."""

    def __init__(self, world: World, batch: Any) -> None:
        self._world, self._batch = world, batch
        self._before = 0

    @property
    def tokens(self) -> int:
        return self._before + self._world.tokens

    def evaluate(self, batch: Sequence[Case], candidate: Candidate, capture_traces: bool = False) -> Any:
        outputs = [self._world.solve(candidate[RULES], case.id).text for case in batch]
        scores = [float(output == "right") for output in outputs]
        traces = list(zip(batch, scores, strict=True)) if capture_traces else None
        return self._batch(outputs=outputs, scores=scores, trajectories=traces)

    def make_reflective_dataset(
        self, candidate: Candidate, eval_batch: Any, components_to_update: Sequence[str]
    ) -> dict[str, list[dict[str, str]]]:
        failed = [case for case, score in eval_batch.trajectories if score < 1]
        return {name: [{"task": case.id, "Feedback": "wrong"} for case in failed] for name in components_to_update}

    def propose_new_texts(
        self,
        candidate: Candidate,
        reflective_dataset: Mapping[str, Sequence[Mapping[str, str]]],
        components_to_update: Sequence[str],
    ) -> dict[str, str]:
        text = candidate[RULES]
        reply = self._world.propose(text, reflective_dataset[RULES][0]["task"])
        return {RULES: f"{text}\n- {reply.text}"}

    def get_adapter_state(self) -> dict[str, int]:
        return {"tokens": self.tokens}

    def set_adapter_state(self, state: Mapping[str, int]) -> None:
        self._before = state.get("tokens", 0)


class Watch:
    """A callback: shows the best program whenever there is another."""

    def __init__(self, world: World) -> None:
        self._world = world

    def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
        if event["is_best_program"]:
            self._world.show(event["candidate"][RULES])


class Silent:
    def log(self, message: str) -> None: ...


def search(plan: Plan, world: World) -> str:
    gepa: Any = importlib.import_module("gepa")
    adapter = Adapter(world, gepa.EvaluationBatch)
    limit: dict[str, Any] = {"max_metric_calls": plan.cap // MEAN_SOLVE}
    if plan.variant == "tuned":
        limit = {"stop_callbacks": lambda state: adapter.tokens >= plan.cap, "reflection_minibatch_size": 1}
    result = gepa.optimize(
        seed_candidate={RULES: TITLE},
        trainset=list(world.train),
        valset=list(world.heldout),
        adapter=adapter,
        logger=Silent(),
        callbacks=[Watch(world)],
        run_dir=plan.directory,
        seed=plan.seed,
        **limit,
    )
    return str(result.best_candidate[RULES])


if __name__ == "__main__":
    drive(search, "gepa")
