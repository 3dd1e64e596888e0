"""Counters, and the refusal of a prompt that would cost more than was reserved."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.budget.usage import Usage
from agentdescent.errors import UsageError
from agentdescent.ports import CallFailed
from agentdescent_adapters.providers import Request, bpe_counter, llama_counter, openai_compatible
from agentdescent_adapters.providers.model import Reply
from agentdescent_adapters.providers.tokens import SLACK, Gauge
from bench.scripted_server import Answer, Received, ScriptedServer, openai_answer, whole


def words(text: str) -> int:
    return len(text.split())


async def counted(gauge: Gauge, *requests: Request) -> list[int | None]:
    return [await gauge.count(request) for request in requests]


def test_what_does_not_fit_is_not_sent() -> None:
    with ScriptedServer(whole(openai_answer())) as server:
        one = openai_compatible("m", base_url=server.url, counter=words, overhead=10)

        async def ask(request: Request) -> Reply:
            return await one.complete(request)

        with pytest.raises(CallFailed, match=r"3 tokens and about 10 .* and 12 were reserved") as caught:
            asyncio.run(ask(Request("one two", "system", prompt_limit=12)))
        assert (caught.value.kind, caught.value.usage, caught.value.retry_after) == ("overflow", Usage(calls=0), None)
        assert server.received == []
        asyncio.run(ask(Request("one two", "system", prompt_limit=13)))
        asyncio.run(ask(Request("one two " * 99, "system")))  # nothing was reserved: nothing is counted
        assert len(server.received) == 2


def test_terms_follow_the_counter() -> None:
    here = "http://127.0.0.1:1/v1"
    assert openai_compatible("m", base_url=here).terms.bytes_per_token == 1
    assert openai_compatible("m", base_url=here, counter=words).terms.bytes_per_token == 2
    assert openai_compatible("m", base_url=here, counter=words, bytes_per_token=4).terms.bytes_per_token == 4


def test_what_the_template_adds_is_learned_for_each_shape() -> None:
    gauge = Gauge(words, 64)
    plain, system = Request("a b", prompt_limit=100), Request("a b", "c", prompt_limit=100)
    assert asyncio.run(counted(gauge, plain, system)) == [2, 3]
    gauge.learn(plain, 2, Usage(prompt=32, completion=1))
    assert (gauge.overhead(plain), gauge.overhead(system)) == (30 + SLACK, 64)
    gauge.learn(plain, 2, Usage(prompt=30, completion=1))
    gauge.learn(plain, 2, None)
    gauge.learn(plain, None, Usage(prompt=99, completion=1))
    assert gauge.overhead(plain) == 30 + SLACK  # the most that was seen
    gauge.learn(plain, 2, Usage(prompt=35, completion=1))
    assert gauge.overhead(plain) == 33 + SLACK
    gauge.learn(system, 3, Usage(prompt=1, completion=1))
    assert gauge.overhead(system) == SLACK  # never less than nothing


def test_a_schema_may_count_for_less_than_its_text() -> None:
    gauge = Gauge(words, 64)
    request = Request("a b", schema=b"x x x x x x x x", prompt_limit=100)
    assert asyncio.run(counted(gauge, request)) == [10]
    gauge.learn(request, 10, Usage(prompt=6, completion=1))
    assert gauge.overhead(request) == SLACK - 4
    assert gauge.overhead(Request("a b", prompt_limit=100)) == 64


def test_texts_are_counted_once() -> None:
    asked = list[str]()

    def count(text: str) -> int:
        asked.append(text)
        return len(text)

    gauge = Gauge(count, 1)
    requests = [Request(f"user {n % 3}", "system", prompt_limit=100) for n in range(30)]
    asyncio.run(counted(gauge, *requests))
    assert sorted(asked) == ["system", "user 0", "user 1", "user 2"]


@given(
    st.lists(st.tuples(st.text("ab ", max_size=60), st.integers(0, 25)), max_size=30),
    st.integers(0, 80),
    st.integers(1, 8),
)
def test_no_prompt_is_billed_more_than_was_reserved(
    calls: list[tuple[str, int]], guess: int, bytes_per_token: int
) -> None:
    """Of a provider whose template adds what it adds, and whose texts split by up to SLACK otherwise inside of it."""
    gauge, added = Gauge(lambda text: -(-len(text) // 3), guess), 20
    for text, extra in calls:
        limit = guess + -(-len(text.encode()) // bytes_per_token)
        request = Request(text, prompt_limit=limit)
        try:
            count = asyncio.run(counted(gauge, request))[0]
        except CallFailed:
            continue
        assert count is not None
        billed = count + added + extra % (SLACK + 1)
        if gauge.overhead(request) != guess or guess >= added + SLACK:
            assert billed <= limit
        gauge.learn(request, count, Usage(prompt=billed, completion=1))


@pytest.mark.parametrize("name", ["o200k_base", "gpt-4o", "cl100k_base"])
def test_bpe_counts_exactly(name: str) -> None:
    count = bpe_counter(name)
    assert count("hello world") == 2
    assert count("") == 0
    assert 0 < count("北京 🎉 naïve") <= len("北京 🎉 naïve".encode())


BPE = bpe_counter("o200k_base")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_a_token_has_a_byte_at_least(text: str) -> None:
    assert BPE(text) <= len(text.encode())


def test_an_unknown_encoding_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"gpt-99.*o200k_base"):
        bpe_counter("gpt-99")


def tokenized(request: Received) -> Answer:
    assert request.path == "/tokenize"
    assert request.fields["parse_special"] is True
    return whole(json.dumps({"tokens": list(range(len(str(request.fields["content"]))))}))


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_a_llama_server_counts(path: str) -> None:
    async def count(url: str) -> int:
        return await llama_counter(url)("hello")

    with ScriptedServer(tokenized) as server:
        assert asyncio.run(count(server.url + path)) == 5


@pytest.mark.parametrize(
    ("answer", "kind", "after"),
    [
        (whole({}, 503), "rate-limit", 1.0),
        (whole({}, 500), "provider", None),
        (whole({}, 401), "contract", None),
        (whole({"no": "tokens"}), "malformed", None),
        (whole("half", cut=2, then="close"), "provider", None),
    ],
)
def test_a_count_that_fails_costs_nothing(answer: Answer, kind: str, after: float | None) -> None:
    async def count(url: str) -> int:
        return await llama_counter(url)("hello")

    with ScriptedServer(answer) as server, pytest.raises(CallFailed) as caught:
        asyncio.run(count(server.url))
    assert (caught.value.kind, caught.value.retry_after) == (kind, after)
    assert caught.value.usage is not None
    assert caught.value.usage.tokens == 0


@pytest.mark.parametrize("answer", [ValueError("no"), 1.5, None, -1])
def test_a_counter_that_fails_costs_nothing(answer: object) -> None:
    def count(text: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with (
        ScriptedServer(whole(openai_answer())) as server,
        pytest.raises(CallFailed, match="the counter failed") as caught,
    ):
        asyncio.run(openai_compatible("m", base_url=server.url, counter=count).complete(Request("a", prompt_limit=99)))
    assert (caught.value.kind, caught.value.usage, server.received) == ("provider", Usage(calls=0), [])


@pytest.mark.parametrize("name", ["gpt-5-mini", "gpt-4o-2024-08-06", "o4-mini"])
def test_models_that_the_package_does_not_know_share_an_encoding(name: str) -> None:
    text = "The encoding of 北京 is that of newer models."
    assert bpe_counter(name)(text) == BPE(text)


def test_no_warning_of_the_package_is_an_error_of_ours() -> None:
    code = "from agentdescent_adapters.providers import bpe_counter; print(bpe_counter('gpt-4o')('hello world'))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2"
