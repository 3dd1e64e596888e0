"""The parts of the bridge: what a call consumed, which traces are kept, what an example says."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Answer, RunError, Usage, UsageError
from agentdescent_adapters.gepa import UsageCounter, lm_usage
from agentdescent_adapters.gepa.agent import in_turn
from agentdescent_adapters.gepa.contract import Evaluation
from agentdescent_adapters.gepa.examples import plain
from agentdescent_adapters.gepa.reflection import Reflection
from agentdescent_adapters.gepa.traces import Traces
from agentdescent_adapters.gepa.usage import Bill
from tests.adapters.gepa_jobs import Model as Solver
from tests.adapters.gepa_jobs import Reflector, bridge

# --- usage ------------------------------------------------------------------------------------------------------------


def test_a_bill_is_what_the_counter_says_and_what_answers_say() -> None:
    counted = [Usage(10, 5, calls=0)]
    bill = Bill(lambda: counted[-1])
    assert (bill.total(), bill.made) == (Usage(calls=0, hits=1), False)
    counted.append(Usage(110, 25, 7, calls=0))
    bill.counted()
    assert bill.total() == Usage(100, 20, 7, calls=1)
    bill.told(Usage(3, 4))
    assert bill.total() == Usage(103, 24, 7, calls=2)
    bill.told(None)
    assert (bill.total(), bill.made) == (None, True)


def test_without_a_counter_only_what_answers_say_is_known() -> None:
    bill = Bill(None)
    bill.told(Usage(3, 4))
    assert bill.total() == Usage(3, 4)
    bill.counted()
    assert bill.total() is None


def test_more_calls_of_the_provider_than_of_the_adapter() -> None:
    counted = [Usage(calls=0), Usage(10, 10, calls=3)]
    bill = Bill(lambda: counted.pop(0))
    bill.counted()
    assert bill.total() == Usage(10, 10, calls=3)


@pytest.mark.parametrize(
    ("counts", "message"),
    [([Usage(9, 9), Usage(8, 9)], "went down"), ([(1, 2)], "returned tuple"), ([Usage(), None], "returned NoneType")],
)
def test_a_counter_that_is_none(counts: list[Any], message: str) -> None:
    with pytest.raises(RunError, match=message):
        bridge(Solver(), usage=lambda: counts.pop(0)).evolve()


def test_a_counter_of_each_thread() -> None:
    counter, seen = UsageCounter(), list[Usage]()

    def count(tokens: int) -> None:
        for _ in range(100):
            counter.add(prompt=tokens, completion=1, cached=1)
        seen.append(counter())

    threads = [threading.Thread(target=count, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(usage.prompt for usage in seen) == [100 * n for n in range(8)]
    assert {(usage.completion, usage.cached, usage.calls) for usage in seen} == {(100, 100, 100)}
    assert counter() == pickle.loads(pickle.dumps(counter))() == Usage(calls=0)


def test_several_threads_with_a_counter_of_each() -> None:
    class Counting(Solver):
        def __call__(self, messages: Any) -> str:
            answer = super().__call__(messages)
            counter.add(prompt=len(messages[0]["content"]), completion=7)
            return answer

    counter, model = UsageCounter(), Counting()
    job = bridge(model, usage=counter, reflection_lm=lambda prompt: Answer(Reflector()(prompt), Usage(len(prompt), 9)))
    _, result = job.evolve(max_tokens=200_000, max_concurrency=4, n_workers=4, rounds=15)
    assert result.final == 1.0
    solved = sum(part.tokens for part in result.spend.by_purpose if part.purpose != "propose")
    assert solved >= 7 * model.calls
    assert result.spend.assumed == 0


def test_the_models_of_gepa_and_of_dspy() -> None:
    @dataclass
    class Totals:
        total_tokens_in: int = 5
        total_tokens_out: int = 6

    class History:
        def __init__(self) -> None:
            self.history = [{"usage": {"prompt_tokens": 10, "completion_tokens": 2}}]

    totals, lm = Totals(), History()
    read = lm_usage(totals, lm, lm)
    assert (read().prompt, read().completion, read().calls) == (15, 8, 1)
    totals.total_tokens_in += 100
    lm.history.append({"usage": {}})
    lm.history.append({"usage": {"prompt_tokens": 10, "completion_tokens": 2}})
    lm.history.pop(0)
    assert (read().prompt, read().completion) == (125, 10)
    with pytest.raises(UsageError, match="cannot read function"):
        lm_usage(lambda prompt: "")
    with pytest.raises(UsageError, match="counts nothing"):
        lm_usage()


# --- components, traces, examples -------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=5), min_size=1, max_size=6, unique=True), st.integers(0, 1_000))
def test_each_component_once_in_so_many_proposals(names: list[str], block: int) -> None:
    n = len(names)
    assert {in_turn(names, block * n + place) for place in range(n)} == set(names)


def test_no_worker_is_bound_to_a_component() -> None:
    seen = {in_turn(("a", "b"), sample) for sample in range(0, 200, 2)}
    assert seen == {"a", "b"}


class Found:
    outputs = scores = trajectories = (0.0,)


def test_traces_are_bounded_and_given_for_their_own_output_only() -> None:
    traces, found = Traces(2), [Found() for _ in range(3)]
    evaluations: list[Evaluation] = list(found)
    for number, one in enumerate(evaluations):
        traces.put("text", f"t{number}", f"output {number}", one)
    assert traces.get("text", "t0", "output 0") is None, "the oldest made room"
    assert traces.get("text", "t2", "output 2") is found[2]
    assert traces.get("text", "t2", "outp") is found[2], "a proposal may read less of it"
    assert traces.get("text", "t2", "output 1") is None
    assert traces.get("other", "t2", "output 2") is None
    assert pickle.loads(pickle.dumps(traces)).get("text", "t2", "output 2") is None


class Mapped:
    def toDict(self) -> dict[str, Any]:
        return {"question": "q", "inputs": {"b", "a"}}


class Rude:
    def toDict(self) -> Any:
        raise RuntimeError("no")

    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"b": 1, "a": [None, True]}, '{"a":[null,true],"b":1}'),
        (Mapped(), '{"inputs":["a","b"],"question":"q"}'),
        ([object()], '["<object object>"]'),
        (Rude(), '"Rude"'),
        ("\ud800", '"?"'),
        (float("nan"), "null"),
        ({(1, 2): "x"}, "\"{(1, 2): 'x'}\""),
    ],
)
def test_what_any_value_says(value: object, said: str) -> None:
    assert plain(value) == said


def test_it_says_the_same_in_every_process() -> None:
    script = "from agentdescent_adapters.gepa.examples import plain\nprint(plain([{'x', 'y', 'z'}, object(), plain]))"
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1


def test_the_bridge_needs_the_package_only_for_its_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys, agentdescent_adapters.gepa; print('gepa' in sys.modules)"
    command, environment = [sys.executable, "-c", script], {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
    monkeypatch.setitem(sys.modules, "gepa.strategies.instruction_proposal", None)
    with pytest.raises(UsageError, match=r"pip install 'agentdescent\[gepa\]'"):
        Reflection(Reflector(), None)
