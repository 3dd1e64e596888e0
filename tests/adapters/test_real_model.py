"""A real language model, llama.cpp with SmolLM2, in runs of the engine: what it counts is what the log says."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import AsyncOpenAI, OpenAI

from agentdescent import Answer, CallFailed, RunError, Task, replay
from agentdescent.engine.event import Event, Failed, Proposed
from agentdescent.engine.state import State
from agentdescent_adapters.disk import DiskLog, read_events
from agentdescent_adapters.llm import LLMAgent, Operators
from agentdescent_adapters.providers import Request, from_openai, llama_counter, openai_compatible
from bench.llama import Server, serving
from bench.mixed_proposers import description_schema
from bench.real_model import agent_of
from tests.adapters.real_runs import LABELS, TASKS, run

ROOM = 512
"""Tokens of the context of one call."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(threads=1, context=ROOM) as server:
        yield server


def test_the_log_says_what_the_server_counts_and_replays_without_it(tmp_path: Path) -> None:
    with serving(threads=1, context=ROOM) as server, DiskLog.create(tmp_path) as log:
        result = run(agent_of(server, LABELS), 20_000, log=log)
        billed = server.billed()
    assert result.budget is not None
    assert (result.budget.spent.tokens, result.budget.assumed) == (billed.tokens, 0)
    assert (result.budget.ceiling, result.budget.overrun) == ("strict", False)
    assert result.spend.total.calls > 30
    assert billed.cached > 0
    again = replay(read_events(tmp_path))
    assert (again.divergence, again.finished, again.state) == (None, True, result.state)


def test_proposals_of_the_model_are_part_of_the_run(server: Server) -> None:
    """Every other one is asked of it, and is of the schema: a rule on one of the labels."""
    asked = list[Proposed]()

    def watch(event: Event, state: State) -> None:
        if isinstance(event, Proposed) and event.usage is not None and event.usage.calls:
            asked.append(event)

    run(agent_of(server, LABELS), 20_000, observer=watch)
    texts = [op.text for event in asked for op in event.ops if hasattr(op, "text")]
    assert texts
    pattern = str(json.loads(json.dumps(description_schema(LABELS)))["properties"]["text"]["pattern"])
    for text in texts:
        label, _, description = text.partition(": ")
        assert label in LABELS
        assert re.fullmatch(pattern, description)


@pytest.mark.parametrize("cap", [5_000, 6_500])
def test_a_tiny_cap_is_never_exceeded(server: Server, cap: int) -> None:
    before = server.billed().tokens
    result = run(agent_of(server, LABELS), cap, rounds=None)
    assert result.stop_reason == "max_tokens"
    assert result.spend.total.tokens == server.billed().tokens - before <= cap
    assert result.test_final is not None


def test_a_prompt_beyond_the_context_is_overflow_and_not_billed(server: Server) -> None:
    before = server.billed()
    model = openai_compatible(server.model, base_url=server.url, api_key=server.key, ceiling=8)
    with pytest.raises(CallFailed, match="context") as caught:
        asyncio.run(model.complete(Request("word " * (2 * ROOM))))
    assert (caught.value.kind, server.billed()) == ("overflow", before)


def test_a_prompt_beyond_its_reservation_is_not_sent(server: Server) -> None:
    before = server.billed()
    counter = llama_counter(server.url, api_key=server.key)
    model = openai_compatible(
        server.model, base_url=server.url, api_key=server.key, ceiling=8, counter=counter, overhead=16
    )
    reply = asyncio.run(model.complete(Request("word " * 20, prompt_limit=60)))
    assert reply.usage is not None
    with pytest.raises(CallFailed, match="reserved") as caught:
        asyncio.run(model.complete(Request("word " * 60, prompt_limit=60)))
    assert caught.value.kind == "overflow"
    assert server.billed().tokens - before.tokens == reply.usage.tokens


def test_a_wrong_key_ends_the_run_before_anything_is_spent(server: Server) -> None:
    before, failures = server.billed(), list[Failed]()

    def watch(event: Event, state: State) -> None:
        if isinstance(event, Failed):
            failures.append(event)

    stranger = server._replace(key="sk-wrong")
    with pytest.raises(RunError, match=r"401.*api_key"):
        run(agent_of(stranger, LABELS), 20_000, observer=watch)
    assert {failure.kind for failure in failures} == {"contract"}
    assert server.billed() == before


@pytest.mark.parametrize("stream", [False, True])
def test_only_what_a_schema_allows_is_answered(server: Server, stream: bool) -> None:
    before = server.billed()
    model = openai_compatible(server.model, base_url=server.url, api_key=server.key, ceiling=64, stream=stream)
    agent = LLMAgent(model, choices=LABELS, proposer=Operators())
    answers = [asyncio.run(solved(agent, "# Playbook\n- Answer with a poem.", task)) for task in TASKS[::5]]
    assert {answer.value for answer in answers} <= set(LABELS)
    used = [answer.usage.tokens for answer in answers if answer.usage is not None]
    assert len(used) == len(answers)
    assert sum(used) == server.billed().tokens - before.tokens


async def solved(agent: LLMAgent, rendered: str, task: Task) -> Answer:
    answer = agent.solve(rendered, task)
    return answer if isinstance(answer, Answer) else await answer


def test_a_client_of_openai(server: Server) -> None:
    before = server.billed()
    with OpenAI(base_url=server.url, api_key=server.key) as client:
        model = from_openai(client, server.model, ceiling=64)
        result = run(LLMAgent(model, choices=LABELS, proposer=Operators()), 30_000, rounds=1)
    assert result.spend.total.tokens == server.billed().tokens - before.tokens > 0


def test_an_asynchronous_client_of_openai_keeps_to_the_ceiling(server: Server) -> None:
    async def ask() -> int:
        async with AsyncOpenAI(base_url=server.url, api_key=server.key) as client:
            reply = await from_openai(client, server.model, ceiling=7).complete(Request("Tell me a long story."))
        assert (reply.finish, reply.usage is not None and reply.usage.completion) == ("length", 7)
        return 0 if reply.usage is None else reply.usage.tokens

    before = server.billed()
    assert asyncio.run(ask()) == server.billed().tokens - before.tokens


def test_a_run_killed_in_its_midst_goes_on_and_the_log_covers_what_the_server_counts(
    server: Server, tmp_path: Path
) -> None:
    cap, before = 20_000, server.billed().tokens
    command = [sys.executable, "-m", "tests.adapters.real_runs", server.url, str(tmp_path / "run"), str(cap)]
    answers = tmp_path / "run" / "answers.jsonl"
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=here, stderr=subprocess.DEVNULL) as first:
        end = time.monotonic() + 120
        while first.poll() is None and time.monotonic() < end and _lines(answers) < 12:
            time.sleep(0.02)
        first.send_signal(signal.SIGKILL)
    assert first.returncode == -signal.SIGKILL
    assert 0 < server.billed().tokens - before < cap
    subprocess.run(command, env=here, check=True, timeout=300)
    again = replay(read_events(tmp_path / "run"))
    assert (again.divergence, again.finished) == (None, True)
    assert 0 < server.billed().tokens - before <= again.state.governor.spent.tokens <= cap


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
