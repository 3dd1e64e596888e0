"""What an adapter may do wrong: a failed call, never a score; or the end of the run, with a message that says what."""

from __future__ import annotations

from typing import Any

import pytest
from gepa.adapters.default_adapter.default_adapter import DefaultAdapter

from agentdescent import AppendRules, Components, RunError, UsageError
from agentdescent.engine.event import Failed
from agentdescent_adapters.gepa import from_gepa
from tests.adapters.gepa_jobs import KINDS, SEED, Model, Reflector, bridge, colours, kind_of


class Faulty(DefaultAdapter):
    """Raises, or returns something else, every so many calls."""

    def __init__(self, every: int, **returned: Any) -> None:
        super().__init__(Model())
        self.calls, self._every, self._returned = 0, every, returned

    def evaluate(self, batch: Any, candidate: Any, capture_traces: bool = False) -> Any:
        self.calls += 1
        found = super().evaluate(batch, candidate, capture_traces)
        if self.calls % self._every:
            return found
        if not self._returned:
            raise RuntimeError("the index is gone")
        for name, value in self._returned.items():
            setattr(found, name, value)
        return found


def faulty(adapter: Any, **options: Any) -> Any:
    given: dict[str, Any] = {"seed_candidate": SEED, "reflection_lm": Reflector(), "cluster": kind_of} | options
    return from_gepa(adapter, colours(), **given)


def test_an_exception_is_a_failed_call_that_is_asked_again_and_never_a_score() -> None:
    adapter = Faulty(4)
    _, result = faulty(adapter).evolve()
    assert (result.base, result.final) == (0.0, 1.0)
    failed = [event for event in result.log.events() if isinstance(event, Failed)]
    assert len(failed) == adapter.calls // 4
    assert {event.kind for event in failed} == {"provider"}
    assert {event.usage for event in failed} == {None}
    assert "RuntimeError: the index is gone" in failed[0].message


def test_a_system_that_is_broken_ends_the_run_with_its_message() -> None:
    with pytest.raises(RunError, match=r"evaluate failed on task 'train-.*: RuntimeError: the index is gone"):
        faulty(Faulty(1)).evolve()


@pytest.mark.parametrize("score", [float("nan"), float("inf"), None, True, "0.5", 1.2, -0.1])
def test_what_is_no_score_ends_the_run_and_names_the_task(score: Any) -> None:
    with pytest.raises(
        RunError, match=r"evaluate scored task 'train-\d+' .*: (it must be a|say from_gepa\(\.\.\., scale)"
    ):
        faulty(Faulty(1, scores=[score])).evolve()


def test_scores_of_another_scale() -> None:
    class Percent(DefaultAdapter):
        def evaluate(self, batch: Any, candidate: Any, capture_traces: bool = False) -> Any:
            found = super().evaluate(batch, candidate, capture_traces)
            found.scores = [200 * score - 100 for score in found.scores]
            return found

    best, result = faulty(Percent(Model()), scale=(-100, 100)).evolve()
    assert (result.base, result.final) == (0.0, 1.0)
    assert best["system"].count(":") == len(KINDS)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"scores": []}, "returned 1 outputs, 0 scores for the one example of task 'train-"),
        ({"outputs": [1, 2]}, "returned 2 outputs, 1 scores"),
        ({"scores": 0.5}, "return an EvaluationBatch"),
        ({"outputs": None}, "return an EvaluationBatch"),
    ],
)
def test_an_evaluation_that_is_none(returned: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=message):
        faulty(Faulty(1, **returned)).evolve()


def test_missing_trajectories_are_a_failure_of_the_rollout() -> None:
    with pytest.raises(RunError, match=r"returned 1 outputs, 1 scores, 0 trajectories"):
        faulty(Faulty(1, trajectories=None)).evolve()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed_candidate": {}}, "seed_candidate"),
        ({"seed_candidate": {"system": 1}}, "seed_candidate"),
        ({"scale": (1, 1)}, "scale"),
        ({"scale": (0, float("inf"))}, "scale"),
        ({"module_selector": "random"}, "module_selector"),
        ({"repeat": "once"}, "repeat"),
        ({"reflection_lm": None}, "give reflection_lm="),
        ({"reflection_lm": "openai/gpt"}, r"gepa\.lm\.LM"),
        ({"reflection_prompt_template": "no places"}, "Missing placeholder"),
        ({"valset": []}, "valset="),
        ({"testset": colours()}, "valset="),
        ({"id": lambda example: 7}, "id= returned 7 for example train-0"),
        ({"cluster": lambda example: example["kind"]}, "cluster= failed for example train-0: KeyError"),
    ],
)
def test_what_is_wrong_is_said_at_once(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        bridge(Model(), **change)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agent": object()}, "agent is given"),
        ({"repeat": "free"}, "repeat is given"),
        ({"strategy": AppendRules()}, "Components"),
    ],
)
def test_what_the_bridge_says_already_is_not_said_again(options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        bridge(Model()).evolve(**options)


def test_what_is_no_adapter() -> None:
    with pytest.raises(UsageError, match="has no evaluate"):
        faulty(object())


def test_limits_of_the_strategy_are_the_callers() -> None:
    best, _ = bridge(Model()).evolve(strategy=Components(max_chars=40))
    assert len(best["system"]) <= 40
