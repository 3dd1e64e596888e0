"""GEPA's own adapters under this engine, with the real package and no network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gepa.adapters.default_adapter.default_adapter import DefaultAdapter
from gepa.api import optimize
from gepa.core.data_loader import ListDataLoader
from gepa.core.result import GEPAResult

from agentdescent import MemoryLog, Usage, UsageError, replay
from agentdescent.engine.event import Decided, GateOpened, Proposed
from agentdescent.testing import check_agent, check_scorer
from agentdescent_adapters.disk import DiskLog
from agentdescent_adapters.executors import Processes
from agentdescent_adapters.gepa import from_gepa
from tests.adapters.gepa_jobs import (
    COLOURS,
    KINDS,
    SEED,
    Model,
    Pair,
    Reflector,
    bridge,
    colours,
    kind_of,
    learn_kind,
)


class Silent:
    def log(self, message: str) -> None:
        pass


def test_a_better_prompt_is_found_and_scores_better() -> None:
    best, result = bridge(Model()).evolve(seed=3)
    assert (result.base, result.final) == (0.0, 1.0)
    learned = {f"{kind}: {colour}" for kind, colour in zip(KINDS, COLOURS, strict=True)}
    assert set(best["system"].splitlines()) == {SEED["system"], *learned}
    again = replay(result.log.events(), check=True)
    assert (again.finished, again.divergence) == (True, None)


def test_one_adapter_object_under_both_at_equal_metric_calls() -> None:
    limit, model = 150, Model()
    adapter, examples = DefaultAdapter(model), colours()
    train, val = examples[:18], examples[18:]
    theirs: GEPAResult[Any, Any] = optimize(
        SEED, train, val, adapter=adapter, reflection_lm=Reflector(), max_metric_calls=limit, logger=Silent()
    )
    asked = model.calls
    job = from_gepa(adapter, train, val, seed_candidate=SEED, reflection_lm=Reflector(), cluster=kind_of)
    best, result = job.evolve(max_calls=limit, rounds=100)
    assert model.calls - asked <= limit <= asked
    assert theirs.val_aggregate_scores[0] == result.base == 0.0
    assert theirs.val_aggregate_scores[theirs.best_idx] >= 0.3
    assert result.final is not None
    assert result.final >= 0.3
    check = adapter.evaluate(val, best).scores
    assert sum(check) / len(check) == pytest.approx(result.final), "what we say of it is what the adapter says"


def test_the_parts_are_those_that_were_given() -> None:
    examples = colours()
    job = from_gepa(
        DefaultAdapter(Model()),
        ListDataLoader(examples[:18]),
        examples[18:25],
        examples[25:],
        seed_candidate=SEED,
        reflection_lm=Reflector(),
        id=lambda example: example["input"],
    )
    _, result = job.evolve(rounds=1)
    tasks, split = job.tasks, result.state.split
    assert [tasks[i].id for i in split.train] == [example["input"] for example in examples[:18]]
    assert [tasks[i].id for i in split.heldout] == [example["input"] for example in examples[18:25]]
    assert [tasks[i].id for i in split.test] == [example["input"] for example in examples[25:]]
    assert (result.test_base, result.test_interval is not None) == (0.0, True)


def test_an_agent_and_a_scorer_as_the_engine_wants_them() -> None:
    job = bridge(Model())
    rendered = '{"system": "Say."}'
    check_agent(job.agent, job.tasks[:2], rendered)
    check_scorer(job.reward, job.tasks[:2], [job.agent.solve(rendered, job.tasks[0]).value])
    with pytest.raises(UsageError, match="'train-0' is none of a GEPA adapter"):
        job.reward(job.tasks[0], "red")


# --- components -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selector", ["round_robin", "all"])
def test_every_component_is_worked_on(selector: Any) -> None:
    pair = Pair()
    names = {f"{word} {n}": f"{word}:" for n in range(4) for word in ("Reader", "reader")}
    seed = {**names, " speaker\n": "speaker:"} if selector == "all" else {"reader": "a", "speaker": "b"}
    examples = [kind for kind in KINDS for _ in range(3)]
    job = from_gepa(
        pair, examples, seed_candidate=seed, reflection_lm=learn_kind, module_selector=selector, cluster=str
    )
    best, result = job.evolve(rounds=60)
    assert list(best) == list(seed)
    assert result.base == 0.0
    assert result.final is not None
    if selector == "round_robin":
        assert result.final == 1.0
        assert all(set(KINDS) < set(text.split()) for text in best.values())
    else:
        # every op of a proposal changes one component, and all nine are within its trust region
        proposals = [event.ops for event in result.log.events() if isinstance(event, Proposed)]
        assert {len(ops) for ops in proposals} == {9}


def test_changes_to_two_components_are_one_candidate() -> None:
    examples = [kind for kind in KINDS for _ in range(3)]
    job = from_gepa(Pair(), examples, seed_candidate={"reader": "a", "speaker": "b"}, reflection_lm=learn_kind)
    _, result = job.evolve(rounds=10)
    gates = [event.contributors for event in result.log.events() if isinstance(event, GateOpened)]
    assert max(map(len, gates)) > 1


# --- traces -----------------------------------------------------------------------------------------------------------


def test_traces_reach_the_reflective_dataset() -> None:
    reflector = Reflector()
    bridge(Model(), reflection_lm=reflector).evolve(rounds=2)
    assert reflector.prompts
    for prompt in reflector.prompts:
        assert "## Generated Outputs\nI cannot say." in prompt
        assert "The generated response is incorrect." in prompt
        assert prompt.startswith("I provided an assistant with the following instructions")


@pytest.mark.parametrize("repeat", ["charged", "free"])
def test_a_kept_trace_saves_an_evaluation_and_a_free_one_is_made_again(repeat: Any) -> None:
    pair = Pair()
    examples = [kind for kind in KINDS for _ in range(3)]
    job = from_gepa(
        pair, examples, seed_candidate={"reader": "a", "speaker": "b"}, reflection_lm=learn_kind, repeat=repeat
    )
    _, result = job.evolve(rounds=8)
    decided = [event.command for event in result.log.events() if isinstance(event, Decided)]
    rollouts = sum(command.reserve.rollouts for command in decided)
    proposals = sum(1 for event in result.log.events() if isinstance(event, Proposed))
    again = proposals if repeat == "free" else 0
    assert proposals > 0
    assert len(pair.seen) == rollouts + again
    assert all(len(batch) == 1 for batch, _ in pair.seen)
    traced = sum(capture for _, capture in pair.seen)
    declined = [event.usage for event in result.log.events() if isinstance(event, Proposed) and not event.ops]
    assert declined, "a component that knew the kind already has nothing to be told"
    assert set(declined) == ({None} if repeat == "free" else {Usage(calls=0, hits=1)})
    assert traced == proposals if repeat == "free" else proposals <= traced < rollouts


# --- a run that was killed --------------------------------------------------------------------------------------------

CHILD = """
import sys
from agentdescent_adapters.disk import DiskLog
from tests.adapters.gepa_jobs import Model, bridge
model = Model(dies_after=int(sys.argv[2]))
bridge(model, repeat="free", usage=model.usage).evolve(seed=5, log=DiskLog.create(sys.argv[1]))
"""


@pytest.mark.parametrize("calls", [7, 40, 63])
def test_a_killed_run_goes_on_to_the_same_log(tmp_path: Path, calls: int) -> None:
    model = Model()
    _, whole = bridge(model, repeat="free", usage=model.usage).evolve(seed=5)
    assert calls < model.calls
    script = tmp_path / "child.py"
    script.write_text(CHILD, encoding="utf-8")
    child = subprocess.run(
        [sys.executable, script, tmp_path / "run", str(calls)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
        check=False,
    )
    assert child.returncode == 9
    model = Model()
    with DiskLog.open(tmp_path / "run") as log:
        best, result = bridge(model, repeat="free", usage=model.usage).evolve(seed=5, log=log)
        assert (result.digest, best) == (whole.digest, dict(whole.entries))


def test_a_charged_run_goes_on_within_its_cap(tmp_path: Path) -> None:
    """What an uninterrupted run keeps in memory is evaluated again, and paid for."""
    script = tmp_path / "child.py"
    script.write_text(CHILD.replace('"free"', '"charged"').replace("seed=5", "seed=5, max_calls=90"), encoding="utf-8")
    command = [sys.executable, str(script), str(tmp_path / "run"), "40"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(command, env=environment, timeout=60, check=False).returncode == 9
    model = Model()
    with DiskLog.open(tmp_path / "run") as log:
        _, result = bridge(model, usage=model.usage).evolve(seed=5, max_calls=90, log=log)
        assert 40 + model.calls <= result.spend.total.calls <= 90


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed_candidate": {"system": "Another."}}, "artifact"),
        ({"scale": (0.0, 2.0)}, "scorer"),
        ({"module_selector": "all"}, "agent"),
        ({"reflection_prompt_template": "<curr_param> <side_info>"}, "agent"),
        ({"text": lambda example: example["input"]}, "task"),
    ],
)
def test_a_resume_with_something_else_is_refused(change: dict[str, Any], named: str) -> None:
    log = MemoryLog()
    bridge(Model()).evolve(rounds=1, log=log)
    with pytest.raises(UsageError, match=named):
        bridge(Model(), **change).evolve(rounds=1, log=MemoryLog(list(log.events())))


# --- money ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [4_000, 10_000, 20_000])
def test_the_ceiling_holds_by_the_models_own_count(cap: int) -> None:
    model = Model()
    best, result = bridge(model, usage=model.usage).evolve(max_tokens=cap, rounds=100)
    spent = model.prompt + model.completion
    assert spent == result.spend.total.tokens <= cap
    assert result.spend.assumed == 0
    assert result.final is not None
    assert result.final > 0 or cap < 10_000
    assert best == dict(result.entries)


def test_a_ceiling_without_a_counter_is_refused_with_the_remedy() -> None:
    model = Model()
    with pytest.raises(UsageError, match=r"max_tokens is set.*give from_gepa usage=.*lm_usage"):
        bridge(model).evolve(max_tokens=10_000)
    with pytest.raises(UsageError, match=r"leave max_concurrency at 1"):
        bridge(model, usage=model.usage).evolve(max_tokens=10_000, max_concurrency=2)
    assert model.calls == 0


def test_other_processes_come_to_the_same_log() -> None:
    """Each has an adapter of its own; where calls are free, nothing that matters is kept in one of them."""
    _, here = bridge(Model(), repeat="free").evolve(rounds=20)
    _, there = bridge(Model(), repeat="free").evolve(rounds=20, executor=Processes(2))
    assert there.digest == here.digest
    assert there.final is not None
    assert there.final > 0.3
