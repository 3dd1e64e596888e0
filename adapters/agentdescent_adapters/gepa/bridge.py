"""From a GEPA adapter and its examples to a job of this engine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar, Unpack, get_args

import msgspec

from agentdescent.artifact.diff import Entries, digest
from agentdescent.artifact.strategy import Components
from agentdescent.errors import UsageError
from agentdescent.evolution import async_evolve, evolve
from agentdescent.job import Options
from agentdescent.ports import Repeat, Task
from agentdescent.result import EvolutionResult
from agentdescent.wiring import name_of
from agentdescent_adapters.gepa.agent import GepaAgent, GepaReward, Selector
from agentdescent_adapters.gepa.contract import Adapter, Scale
from agentdescent_adapters.gepa.examples import Loader, Naming, Split, listed, plain, split_of, tasks_of
from agentdescent_adapters.gepa.reflection import OwnProposer, Proposer, Reflection, ReflectionLM, Template
from agentdescent_adapters.gepa.usage import Counter
from agentdescent_adapters.providers.model import Model

D = TypeVar("D")
TURNS = 60
"""By default, whatever the number of workers: as many as 15 rounds of 4."""

_OURS = ("agent", "run", "propose", "repeat", "artifact")


class Bridge(msgspec.Struct, Generic[D], frozen=True):
    """What `evolve` needs: `evolve(bridge.tasks, bridge.reward, agent=bridge.agent, artifact=bridge.artifact,
    strategy=bridge.strategy, max_concurrency=1, **bridge.split)`, which `bridge.evolve` does."""

    tasks: tuple[Task, ...]
    reward: GepaReward
    agent: GepaAgent[D]
    artifact: Entries
    strategy: Components
    split: Split
    counter: Counter | None

    def evolve(self, **options: Unpack[Options]) -> tuple[dict[str, str], EvolutionResult]:
        """The best candidate and the result. Options and errors are those of `agentdescent.evolve`, with other
        defaults: `max_concurrency` 1, since GEPA calls an adapter from one thread at a time, and `n_workers` the
        number of components, at most 4, since two proposals for one component contradict each other."""
        try:
            result = evolve(self.tasks, self.reward, **self._options(options))
        finally:
            self.agent.close()
        return dict(result.entries), result

    async def async_evolve(self, **options: Unpack[Options]) -> tuple[dict[str, str], EvolutionResult]:
        """`evolve` as a coroutine."""
        try:
            result = await async_evolve(self.tasks, self.reward, **self._options(options))
        finally:
            self.agent.close()
        return dict(result.entries), result

    def _options(self, options: Options) -> Options:
        for name in (*_OURS, *self.split):
            if name in options:
                raise UsageError(f"{name} is given, and from_gepa says it already: leave it out")
        workers = options.get("n_workers", min(4, len(self.artifact)))
        chosen: Options = {
            "n_workers": workers,
            "agent": self.agent,
            "artifact": self.artifact,
            "strategy": self.strategy,
            "max_concurrency": None if options.get("executor") is not None else 1,
            **self.split,
            **options,
        }
        if "rounds" not in options and not options.get("asynchronous") and type(workers) is int and workers > 0:
            chosen["rounds"] = max(1, TURNS // workers)
        if not isinstance(chosen["strategy"], Components):
            raise UsageError("a GEPA candidate goes with strategy=Components(...): give it its limits, or leave it out")
        _check_counter(self.counter, chosen)
        return chosen


def from_gepa(
    adapter: Adapter[D],
    trainset: Iterable[D] | Loader[D],
    valset: Iterable[D] | Loader[D] | None = None,
    testset: Iterable[D] | Loader[D] | None = None,
    *,
    seed_candidate: Mapping[str, str],
    reflection_lm: ReflectionLM | None = None,
    reflection_prompt_template: Template = None,
    module_selector: Selector = "round_robin",
    usage: Counter | None = None,
    scale: Scale = (0.0, 1.0),
    repeat: Repeat = "charged",
    id: Naming[D] | None = None,
    text: Naming[D] | None = None,
    cluster: Naming[D] | None = None,
    name: str | None = None,
) -> Bridge[D]:
    """A job of an adapter. Arguments that `gepa.optimize` has too mean what they mean there.

    `valset`: the held-out tasks, and with it `testset`, which no decision reads; without, held-out tasks are drawn from
    `trainset`. `reflection_lm`: see ReflectionLM; none where the adapter has `propose_new_texts`. `usage`: a counter of
    what was consumed so far (`lm_usage(...)`, `UsageCounter()` or one of your own); token and cost limits need one.
    `scale`: the least and the greatest score. `repeat`: "free" promises that equal calls give equal answers at no cost.
    `id`, `text`, `cluster`: of an example its unique name, what it says (its size bounds what a call can cost, and
    a resumed run must have the same), and the group it belongs to. `name`: of the adapter in the log.

    Raises UsageError.
    """
    _check(adapter, seed_candidate, scale, module_selector, repeat)
    train, test = listed(trainset), [] if testset is None else listed(testset)
    heldout = None if valset is None else listed(valset)
    if (heldout is None and test) or heldout == []:
        raise UsageError("testset= goes with valset=, and valset= with an example at least; or leave both out")
    parts = (("test", test), ("val", heldout or []), ("train", train))
    examples = [example for _, part in parts for example in part]
    tasks = tuple(task for place, part in parts for task in tasks_of(place, part, id, text, cluster))
    proposer = _proposer(adapter, reflection_lm, reflection_prompt_template)
    agent = GepaAgent(
        adapter,
        {task.id: example for task, example in zip(tasks, examples, strict=True)},
        proposer,
        n_components=len(seed_candidate),
        selector=module_selector,
        scale=scale,
        counter=usage,
        repeat=repeat,
        name=_name(name or name_of(adapter), proposer, module_selector, reflection_prompt_template),
    )
    strategy = Components(max_ops=max(Components().max_ops, len(seed_candidate)))
    split = split_of(len(train), None if heldout is None else len(heldout), len(test))
    return Bridge(tasks, GepaReward(scale), agent, tuple(seed_candidate.items()), strategy, split, usage)


def _name(adapter: str, proposer: Proposer, selector: Selector, template: Template) -> str:
    """All that changes an answer and is known here: a resume must match it."""
    prompt = "" if template is None else f" prompt={digest(plain(template).encode())[:8]}"
    return f"gepa {adapter} proposer={proposer.name} components={selector}{prompt}"


def _proposer(adapter: object, lm: ReflectionLM | None, template: Template) -> Proposer:
    own = getattr(adapter, "propose_new_texts", None)
    if own is not None:
        if lm is not None or template is not None:
            raise UsageError(
                "the adapter has propose_new_texts, which answers in place of reflection_lm= and its prompt"
            )
        return OwnProposer(own)
    if lm is None:
        raise UsageError("the adapter has no propose_new_texts: give reflection_lm=, a callable from a prompt to text")
    given: object = lm
    if not callable(given) and not isinstance(given, Model):
        raise UsageError(
            f"reflection_lm is {lm!r}: give a callable from a prompt to text, such as gepa.lm.LM, or a Model"
        )
    return Reflection(lm, template)


def _check(adapter: object, seed: object, scale: Sequence[float], selector: object, repeat: object) -> None:
    for method in ("evaluate", "make_reflective_dataset"):
        if not callable(getattr(adapter, method, None)):
            raise UsageError(f"{name_of(adapter)} is no GEPA adapter: it has no {method}")
    if not (isinstance(seed, Mapping) and seed and all(isinstance(one, str) for pair in seed.items() for one in pair)):
        raise UsageError(f"seed_candidate is {seed!r}: it must map the name of each component to its text")
    if not (len(scale) == 2 and all(map(math.isfinite, scale)) and scale[0] < scale[1]):
        raise UsageError(f"scale is {scale!r}: it must be (low, high), the least and the greatest score there can be")
    if selector not in get_args(Selector):
        raise UsageError(f"module_selector is {selector!r}: it is one of {', '.join(get_args(Selector))}")
    if repeat not in get_args(Repeat):
        raise UsageError(f"repeat is {repeat!r}: it is one of {', '.join(get_args(Repeat))}")


def _check_counter(counter: Counter | None, options: Options) -> None:
    """Before anything is spent: limits that no counter could keep."""
    governor = options.get("governor")
    capped = [name for name in ("max_tokens", "max_cost") if options.get(name) is not None]
    if governor is not None and getattr(governor, "max_tokens", None) is not None:
        capped.append("max_tokens")
    if counter is None and capped:
        raise UsageError(
            f"{capped[0]} is set, and a GEPA adapter does not say what its calls consume: give from_gepa usage=, such "
            "as lm_usage(lm) or a function that returns the Usage so far, or limit max_calls or max_rollouts"
        )
    many = (options.get("max_concurrency") or 2) > 1 and options.get("executor") is None
    if counter is not None and many and not getattr(counter, "per_thread", False):
        raise UsageError(
            "usage= reads one counter, which cannot tell calls apart that are made at once: leave max_concurrency at "
            "1, or count for each thread by itself, as UsageCounter does"
        )
