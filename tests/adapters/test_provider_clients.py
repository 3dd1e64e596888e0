"""The real clients of OpenAI and Anthropic, sync and async, against a server that does as it is told."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI

from agentdescent.budget.usage import Usage
from agentdescent.errors import UsageError
from agentdescent.ports import CallFailed
from agentdescent_adapters.providers import Reply, Request, claude, from_anthropic, from_openai, openai_compatible
from bench.scripted_server import (
    Answer,
    ScriptedServer,
    anthropic_answer,
    anthropic_events,
    openai_answer,
    openai_events,
    stream,
    whole,
)

HERE = "http://127.0.0.1:1/v1"
SCHEMA = b'{"type":"object"}'
REQUEST = Request("Capital of France?", "Be brief.", sample=2)
ANSWERS = {"openai": openai_answer(), "anthropic": anthropic_answer()}
STREAMS = {"openai": openai_events("Pa", "ris"), "anthropic": anthropic_events("Pa", "ris")}


async def asked(wire: str, url: str, request: Request, *, sync: bool, **options: Any) -> Reply:
    """With retries on in the client given: they must be off in the one used."""
    if wire == "openai":
        if sync:
            with OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=5) as client:
                return await from_openai(client, "m", **options).complete(request)
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=5) as aclient:
            return await from_openai(aclient, "m", **options).complete(request)
    if sync:
        with Anthropic(base_url=url, api_key="k", max_retries=5) as other:
            return await from_anthropic(other, "m", **options).complete(request)
    async with AsyncAnthropic(base_url=url, api_key="k", max_retries=5) as aother:
        return await from_anthropic(aother, "m", **options).complete(request)


@pytest.fixture(params=["openai", "openai sync", "anthropic", "anthropic sync"])
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ask(wire: str, url: str, request: Request = REQUEST, **options: Any) -> Reply:
    return asyncio.run(asked(wire.split()[0], url, request, sync=wire.endswith("sync"), **options))


def failure(wire: str, answer: Answer, **options: Any) -> CallFailed:
    """What the one call comes to that is answered so."""
    with ScriptedServer(answer) as server, pytest.raises(CallFailed) as caught:
        ask(wire, server.url, **options)
    assert len(server.received) == 1
    return caught.value


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_is_a_reply(wire: str, streamed: bool) -> None:
    name = wire.split()[0]
    with ScriptedServer(stream(STREAMS[name]) if streamed else whole(ANSWERS[name])) as server:
        assert ask(wire, server.url, stream=streamed) == Reply("Paris", "stop", Usage(prompt=10, completion=5))


def test_the_server_gets_what_our_own_adapter_sends(wire: str) -> None:
    request = Request("Capital?", "Be brief.", ceiling=9, sample=2, schema=SCHEMA)
    openai = wire.startswith("openai")
    options: dict[str, Any] = {"temperature": 0.5, "ceiling": 50, "extra": {"top_p": 0.5}}

    async def own(url: str) -> Reply:
        if openai:
            one = openai_compatible("m", base_url=url, ceiling_field="max_completion_tokens", seed=4, **options)
            return await one.complete(request)
        return await claude("m", base_url=url, api_key="k", **options).complete(request)

    with ScriptedServer(whole(openai_answer("{}") if openai else anthropic_answer("{}"))) as server:
        ask(wire, server.url, request, **options, **({"seed": 4} if openai else {}))
        asyncio.run(own(server.url))
        assert server.received[0].fields == server.received[1].fields


@pytest.mark.parametrize(
    ("status", "kind", "usage", "after"),
    [
        (429, "rate-limit", Usage(), 7.0),
        (503, "rate-limit", Usage(), 7.0),
        (529, "rate-limit", Usage(), 7.0),
        (500, "provider", None, None),
        (401, "contract", Usage(), None),
        (404, "contract", Usage(), None),
        (413, "overflow", Usage(), None),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_statuses(wire: str, status: int, kind: str, usage: Usage | None, after: float | None, streamed: bool) -> None:
    answer = whole({"error": {"message": "no", "type": "x"}}, status, headers=[("Retry-After", "7")])
    found = failure(wire, answer, stream=streamed)
    assert (found.kind, found.usage, found.retry_after) == (kind, usage, after)


def test_a_prompt_that_is_too_long(wire: str) -> None:
    long = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}}
    assert failure(wire, whole(long, 400)).kind == "overflow"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda body: whole(body, cut=20, then="close"), "provider"),
        (lambda body: Answer((), "close"), "provider"),
        (lambda body: whole(body[:40]), "malformed"),
        (lambda body: whole("<html>", kind="text/html"), "malformed"),
        (lambda body: Answer((), "hang"), "timeout"),
    ],
)
def test_broken_answers_have_an_unknown_cost(wire: str, answer: Callable[[bytes], Answer], kind: str) -> None:
    found = failure(wire, answer(ANSWERS[wire.split()[0]]), timeout=0.5)
    assert (found.kind, found.usage) == (kind, None)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda events: stream(events[:2]), "truncated"),
        (lambda events: stream([*events[:2], b"data: {half\n\n"]), "malformed"),
        (lambda events: stream(events[:2], then="hang"), "timeout"),
        (lambda events: stream([*events[:2], b'event: error\ndata: {"type": "error", "error": {}}\n\n']), "provider"),
    ],
)
def test_streams_that_do_not_end_well(wire: str, change: Callable[[list[bytes]], Answer], kind: str) -> None:
    found = failure(wire, change(STREAMS[wire.split()[0]]), stream=True, timeout=0.5)
    assert (found.kind, found.usage) == (kind, None)


def test_a_stream_that_is_torn(wire: str) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    piece = STREAMS[wire.split()[0]][0]
    found = failure(wire, Answer((head, b"%x\r\n%s\r\n" % (len(piece), piece)), "close"), stream=True)
    assert (found.kind, found.usage) == ("provider", None)


def test_nobody_there(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{one.getsockname()[1]}"
    with pytest.raises(CallFailed) as caught:
        ask(wire, url)
    assert (caught.value.kind, caught.value.usage, caught.value.retry_after) == ("provider", Usage(), 1.0)
    monkeypatch.setattr("agentdescent_adapters.providers.waiting.GRACE", 0.0)
    with pytest.raises(CallFailed, match="cannot reach") as caught:
        ask(wire, url)
    assert caught.value.kind == "contract"


def test_the_client_given_keeps_its_retries() -> None:
    with OpenAI(base_url="http://127.0.0.1:1/v1", api_key="k", max_retries=5) as client:
        from_openai(client, "m")
        assert client.max_retries == 5


def test_the_name_is_that_of_the_same_model_asked_without_a_client() -> None:
    with OpenAI(base_url="http://127.0.0.1:1/v1", api_key="k") as client:
        assert from_openai(client, "m", seed=1).name == openai_compatible("m", base_url=HERE, seed=1).name


def test_no_client_is_said() -> None:
    nothing: Any = object()
    for make in (from_openai, from_anthropic):
        with pytest.raises(UsageError, match="object is no client"):
            make(nothing, "m")


def test_a_client_of_another_loop_is_said() -> None:
    with ScriptedServer(whole(ANSWERS["openai"])) as server:
        code = (
            "import asyncio, openai\n"
            "from agentdescent.ports import CallFailed\n"
            "from agentdescent_adapters.providers import Request, from_openai\n"
            f"one = from_openai(openai.AsyncOpenAI(base_url='{server.url}', api_key='k'), 'm')\n"
            "async def go(): return await one.complete(Request('a'))\n"
            "asyncio.run(go())\n"
            "try: asyncio.run(go())\n"
            "except CallFailed as failed: print(failed.kind, failed)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("contract RuntimeError: Event loop is closed (an asynchronous client belongs to one")


@pytest.mark.parametrize(("make", "package"), [("from_openai", "openai"), ("from_anthropic", "anthropic")])
def test_no_package_is_imported_for_a_client(make: str, package: str) -> None:
    code = (
        "import sys, agentdescent_adapters.providers as p\n"
        f"try: p.{make}(object(), 'm')\n"
        "except ValueError: print({'openai', 'anthropic', 'httpx2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()", package


@contextmanager
def pinging() -> Iterator[str]:
    """A server that never ends its one answer, and never is silent."""
    ended = threading.Event()

    def serve(listening: socket.socket) -> None:
        with suppress(OSError), listening.accept()[0] as connection:
            connection.sendall(stream([]).pieces[0])
            while not ended.wait(0.2):
                connection.sendall(b": ping\n\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            ended.set()


def test_a_call_that_is_given_up_does_not_hold_up_the_end_of_the_process() -> None:
    with pinging() as url:
        code = (
            "import asyncio, openai\n"
            "from agentdescent.ports import CallFailed\n"
            "from agentdescent_adapters.providers import Request, from_openai\n"
            f"client = openai.OpenAI(base_url='{url}', api_key='k')\n"
            "try: asyncio.run(from_openai(client, 'm', stream=True, timeout=1).complete(Request('a')))\n"
            "except CallFailed as failed: print(failed.kind)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "timeout"
