"""An agent that solves by `evaluate`, one example a call, and proposes by reflecting on what came of it.

The output of a solve is JSON, `{"score": s, "output": ...}`, the score in [0, 1] and the output as the adapter gave it:
so the reward is read from what the log holds, wherever it is read.

A proposal needs the trajectory, which the log does not hold. Where calls are free it is evaluated again, always, so
that a proposal is the same whatever process makes it. Where they are charged the trajectories of recent rollouts on
train tasks are kept, and only what is missing, after a resume or in another process, is evaluated again, and charged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from agentdescent.artifact.diff import digest
from agentdescent.artifact.strategy import components
from agentdescent.budget.tariff import Rate, Tariff
from agentdescent.effects import clean
from agentdescent.errors import UsageError
from agentdescent.ports import Answer, Repeat, Task
from agentdescent_adapters.gepa.contract import (
    Adapter,
    Candidate,
    Evaluation,
    Scale,
    check_shape,
    guarded,
    score_of,
)
from agentdescent_adapters.gepa.examples import plain
from agentdescent_adapters.gepa.reflection import Proposer
from agentdescent_adapters.gepa.traces import Traces
from agentdescent_adapters.gepa.usage import Bill, Counter

D = TypeVar("D")
Selector: TypeAlias = Literal["round_robin", "all"]


class Scored(msgspec.Struct, frozen=True):
    """The output of a solve."""

    score: float
    output: msgspec.Raw


def in_turn(names: Sequence[str], sample: int) -> str:
    """Each of n components once in n proposals, the order of every n drawn by their number: with one order for all, a
    worker whose proposals are every n-th would never propose for the others."""
    block, place = divmod(sample, len(names))
    order = sorted(names, key=lambda name: digest(f"{block}:{name}".encode("utf-8", "surrogatepass")))
    return order[place]


class GepaReward:
    """Reads the score from the output. It returns at once and never bills."""

    blocking = False
    bills = False

    def __init__(self, scale: Scale) -> None:
        self.name = f"gepa scores of {scale[0]:g} to {scale[1]:g}"

    def __call__(self, task: Task, output: str) -> float:
        try:
            return msgspec.json.decode(output, type=Scored).score
        except msgspec.DecodeError as error:
            message = f"the output of task {task.id!r} is none of a GEPA adapter: use this reward with its own agent"
            raise UsageError(message) from error


class GepaAgent(Generic[D]):
    """Satisfies `ports.Agent`. Calls are counted: one for an evaluation, one for each component reflected on; tokens by
    the counter, unknown without one."""

    def __init__(
        self,
        adapter: Adapter[D],
        examples: Mapping[str, D],
        proposer: Proposer,
        *,
        n_components: int,
        selector: Selector,
        scale: Scale,
        counter: Counter | None,
        repeat: Repeat,
        name: str,
    ) -> None:
        self.name, self.repeat = name, repeat
        asked = 1 if selector == "round_robin" else n_components
        self.tariff = Tariff(Rate(calls=1), Rate(calls=1 + proposer.calls(asked)))
        self._adapter, self._examples, self._proposer = adapter, examples, proposer
        self._selector, self._scale, self._counter = selector, scale, counter
        self._train: frozenset[str] = frozenset()
        self._traces = Traces()

    def begin(self, train: Sequence[Task]) -> None:
        """Only proposals for these are ever asked for."""
        self._train = frozenset(task.id for task in train)

    def solve(self, rendered: str, task: Task) -> Answer:
        bill = Bill(self._counter)
        keep = self.repeat == "charged" and task.id in self._train
        found = self._evaluate(components(rendered), task, bill, traces=keep)
        usage = bill.total()
        said = {"score": score_of(found, task.id, self._scale, usage), "output": msgspec.Raw(plain(found.outputs[0]))}
        output = msgspec.json.encode(said).decode()
        if keep:
            self._traces.put(rendered, task.id, output, found)
        return Answer(output, usage)

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        bill, candidate = Bill(self._counter), components(rendered)
        found = self._traces.get(rendered, task.id, output)
        if found is None:
            found = self._evaluate(candidate, task, bill, traces=True)
            if self.repeat == "charged":
                self._traces.put(rendered, task.id, output, found)
        names = list(candidate) if self._selector == "all" else [in_turn(tuple(candidate), sample)]
        dataset = self._dataset(candidate, found, names, task.id)
        texts = self._proposer.propose(candidate, dataset, task.id, sample, bill) if dataset else {}
        reply = msgspec.json.encode({name: clean(text) for name, text in texts.items()}).decode()
        return Answer(reply if texts else None, bill.total())

    def close(self) -> None:
        self._proposer.close()

    def _evaluate(self, candidate: Candidate, task: Task, bill: Bill, *, traces: bool) -> Evaluation:
        example = self._examples[task.id]
        found = guarded(
            "evaluate", task.id, lambda: self._adapter.evaluate([example], candidate, capture_traces=traces)
        )
        bill.counted()
        check_shape(found, task.id, bill.total(), traces=traces)
        return found

    def _dataset(self, candidate: Candidate, found: Evaluation, names: list[str], task: str) -> dict[str, Any]:
        """The records of each component that there are any for; GEPA passes over the others as well."""

        def build() -> dict[str, Any]:
            made = self._adapter.make_reflective_dataset(dict(candidate), found, list(names))
            return {name: made[name] for name in names if made.get(name)}

        return guarded("make_reflective_dataset", task, build)
