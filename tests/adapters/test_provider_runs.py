"""Models in a run of the engine."""

from __future__ import annotations

import time

import pytest

from agentdescent import evolve
from agentdescent.engine.event import Event, Failed
from agentdescent.engine.state import State
from agentdescent.errors import RunError
from agentdescent_adapters.providers import openai_compatible
from bench.provider_cells import TASKS, Asking
from bench.scripted_server import Answer, ScriptedServer, openai_answer, whole
from tests.adapters.test_provider_http import free_port


def reward(task: object, output: str) -> float:
    return 0.5


def run(url: str, failures: list[Failed], **options: float) -> int:
    """Tokens in the log."""

    def watch(event: Event, state: State) -> None:
        if isinstance(event, Failed):
            failures.append(event)

    model = openai_compatible("m", base_url=url, ceiling=50, timeout=options.get("timeout", 20.0))
    agent = Asking(model, model)
    result = evolve(TASKS, reward, agent=agent, rounds=1, n_workers=2, max_tokens=100_000, observers=[watch])
    return result.spend.total.tokens


def test_nobody_there_ends_the_run_quickly_with_one_clear_error() -> None:
    began, failures = time.monotonic(), list[Failed]()
    with pytest.raises(RunError, match=r"cannot reach http://127\.0\.0\.1.*Connect.*check base_url"):
        run(f"http://127.0.0.1:{free_port()}", failures)
    assert time.monotonic() - began < 20
    assert {failure.kind for failure in failures} <= {"contract", "provider"}


def test_a_wrong_key_ends_the_run_with_one_request_a_worker() -> None:
    failures = list[Failed]()
    with ScriptedServer(whole({"error": {"message": "who?"}}, 401)) as server:
        with pytest.raises(RunError, match=r"answered 401: who\?.*OPENAI_API_KEY"):
            run(server.url, failures)
        assert len(server.received) <= 2
    assert [failure.kind for failure in failures][:1] == ["contract"]


@pytest.mark.parametrize("broken", [Answer((), "reset", 15), whole(openai_answer(), cut=9, then="close", billed=15)])
def test_what_may_have_been_billed_is_charged(broken: Answer) -> None:
    failures = list[Failed]()
    with ScriptedServer(broken, whole(openai_answer(), billed=15)) as server:
        charged = run(server.url, failures)
        assert [failure.kind for failure in failures] == ["provider"]
        assert charged >= server.billed


def test_two_runs_with_one_model() -> None:
    """Each has a loop of its own; no connection goes from one to the other, and none is left."""
    model_failures = list[Failed]()
    with ScriptedServer(whole(openai_answer(), billed=15)) as server:
        first = run(server.url, model_failures)
        assert run(server.url, model_failures) == first
        assert server.billed == 2 * first
    assert model_failures == []
