"""Models over HTTP against a server that does as it is told: every failure by its kind, with what it may have cost."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import time
from collections.abc import Callable
from email.utils import formatdate

import pytest

from agentdescent.budget.usage import Usage
from agentdescent.ports import CallFailed
from agentdescent_adapters.providers import Model, Reply, Request, claude, openai_compatible
from agentdescent_adapters.providers.asked import AskedModel
from bench.scripted_server import (
    Answer,
    Received,
    ScriptedServer,
    anthropic_answer,
    anthropic_events,
    event,
    openai_answer,
    openai_events,
    stream,
    whole,
)

ANSWERS = {"openai": openai_answer(), "anthropic": anthropic_answer()}
STREAMS = {"openai": openai_events("Pa", "ris"), "anthropic": anthropic_events("Pa", "ris")}
NOTHING, UNKNOWN = Usage(), None
FORMATS = pytest.mark.parametrize("wire", ["openai", "anthropic"])


def model(wire: str, url: str, *, streamed: bool = False, timeout: float = 5.0, stall: float = 5.0) -> AskedModel:
    if wire == "openai":
        return openai_compatible(
            "m", base_url=f"{url}/v1", api_key="k", stream=streamed, timeout=timeout, stall_timeout=stall
        )
    return claude("m", base_url=url, api_key="k", stream=streamed, timeout=timeout, stall_timeout=stall)


def ask(one: Model) -> Reply:
    async def complete() -> Reply:
        return await one.complete(Request("Capital of France?"))

    return asyncio.run(complete())


def failure(
    wire: str, answer: Answer, *, streamed: bool = False, timeout: float = 5.0, stall: float = 5.0
) -> CallFailed:
    """What a call comes to that is answered so."""
    with ScriptedServer(answer) as server, pytest.raises(CallFailed) as caught:
        ask(model(wire, server.url, streamed=streamed, timeout=timeout, stall=stall))
    return caught.value


@FORMATS
@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_is_a_reply(wire: str, streamed: bool) -> None:
    answer = stream(STREAMS[wire]) if streamed else whole(ANSWERS[wire])
    with ScriptedServer(answer) as server:
        one = model(wire, server.url, streamed=streamed)
        assert isinstance(one, Model)
        assert ask(one) == Reply("Paris", "stop", Usage(prompt=10, completion=5))
        assert server.received[0].path == ("/v1/chat/completions" if wire == "openai" else "/v1/messages")


def test_keys_are_sent_as_each_format_has_them() -> None:
    with ScriptedServer(whole(ANSWERS["openai"])) as server:
        ask(model("openai", server.url))
        assert server.received[0].headers["authorization"] == "Bearer k"
    with ScriptedServer(whole(ANSWERS["anthropic"])) as server:
        ask(model("anthropic", server.url))
        headers = server.received[0].headers
        assert (headers["x-api-key"], headers["anthropic-version"]) == ("k", "2023-06-01")


OPENAI_LONG = {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}
LLAMA_LONG = {"error": {"code": 400, "message": "it does not fit", "type": "exceed_context_size_error"}}
CLAUDE_LONG = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}}
UNPAID = {"error": {"message": "You exceeded your quota", "type": "insufficient_quota", "code": "insufficient_quota"}}
FILTERED = {"error": {"message": "filtered", "code": "content_filter"}}


@FORMATS
@pytest.mark.parametrize(
    ("status", "body", "kind", "usage"),
    [
        (429, {"error": {"message": "slow down"}}, "rate-limit", NOTHING),
        (503, {"error": {"message": "loading"}}, "rate-limit", NOTHING),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "rate-limit", NOTHING),
        (429, UNPAID, "contract", NOTHING),
        (400, OPENAI_LONG, "overflow", NOTHING),
        (400, LLAMA_LONG, "overflow", NOTHING),
        (400, CLAUDE_LONG, "overflow", NOTHING),
        (413, {"message": "large"}, "overflow", NOTHING),
        (400, {"error": {"message": "no such parameter"}}, "contract", NOTHING),
        (400, FILTERED, "provider", NOTHING),
        (401, {"error": "wrong key"}, "contract", NOTHING),
        (402, {"error": {"message": "no credit"}}, "contract", NOTHING),
        (403, {}, "contract", NOTHING),
        (404, {"detail": "nothing here"}, "contract", NOTHING),
        (307, {}, "contract", NOTHING),
        (408, {}, "timeout", UNKNOWN),
        (409, {}, "provider", UNKNOWN),
        (500, {"error": {"message": "oops"}}, "provider", UNKNOWN),
        (502, {}, "provider", UNKNOWN),
        (504, {}, "provider", UNKNOWN),
    ],
)
def test_statuses(wire: str, status: int, body: dict[str, object], kind: str, usage: Usage | None) -> None:
    found = failure(wire, whole(body, status))
    assert (found.kind, found.usage) == (kind, usage)
    assert (found.retry_after is not None) == (kind == "rate-limit")


def test_what_the_user_must_mend_is_named() -> None:
    with ScriptedServer(whole({"error": {"message": "wrong key"}}, 401)) as server, pytest.raises(CallFailed) as caught:
        ask(model("openai", server.url))
    said = str(caught.value)
    for part in (server.url, "401", "wrong key", "OPENAI_API_KEY", "'m'", "api_key="):
        assert part in said
    assert "Bearer" not in said


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([("Retry-After", "7")], 7.0),
        ([("retry-after", "0.5")], 0.5),
        ([("Retry-After-Ms", "250"), ("Retry-After", "9")], 0.25),
        ([("retry-after", "soon")], 1.0),
        ([("retry-after", "-3")], 1.0),
        ([("retry-after", "nan")], 1.0),
        ([], 1.0),
    ],
)
def test_it_waits_as_told(headers: list[tuple[str, str]], seconds: float) -> None:
    assert failure("openai", whole({}, 429, headers=headers)).retry_after == seconds


def test_retry_after_may_be_a_date() -> None:
    date = formatdate(time.time() + 20, usegmt=True)
    after = failure("openai", whole({}, 429, headers=[("retry-after", date)])).retry_after
    assert after is not None
    assert 15 < after <= 21
    past = formatdate(time.time() - 20, usegmt=True)
    assert failure("openai", whole({}, 429, headers=[("retry-after", past)])).retry_after == 0


async def _waits(one: Model, request: Request, times: int) -> list[float | None]:
    found = list[float | None]()
    for _ in range(times):
        try:
            await one.complete(request)
            found.append(None)
        except CallFailed as failed:
            found.append(failed.retry_after)
    return found


def test_it_waits_longer_each_time_and_forgets_with_the_answer() -> None:
    again = [whole({}, 429)] * 7
    with ScriptedServer(*again, whole(ANSWERS["openai"]), whole({}, 429)) as server:
        one = model("openai", server.url)
        assert asyncio.run(_waits(one, Request("a"), 9)) == [1, 2, 4, 8, 16, 30, 30, None, 1]
        assert asyncio.run(_waits(one, Request("b"), 1)) == [1]


def test_who_is_told_to_come_back_at_once_for_ever_comes_later() -> None:
    with ScriptedServer(whole({}, 429, headers=[("retry-after", "0")])) as server:
        waits = asyncio.run(_waits(model("openai", server.url), Request("a"), 6))
    assert waits == [0, 0, 0, 1, 2, 4]


@FORMATS
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda body: whole(body, cut=20, then="close"), "provider"),
        (lambda body: whole(body, cut=20, then="reset"), "provider"),
        (lambda body: Answer((), "close"), "provider"),
        (lambda body: Answer((b"HTTP/1.1 200 OK\r\n",), "reset"), "provider"),
        (lambda body: Answer((b"no HTTP at all\r\n\r\n",), "close"), "provider"),
        (lambda body: whole(body[:40]), "malformed"),
        (lambda body: whole("<html>hello</html>", kind="text/html"), "malformed"),
        (lambda body: whole("[]"), "malformed"),
        (lambda body: whole(b""), "malformed"),
    ],
)
def test_broken_answers_have_an_unknown_cost(wire: str, answer: Callable[[bytes], Answer], kind: str) -> None:
    found = failure(wire, answer(ANSWERS[wire]))
    assert (found.kind, found.usage, found.retry_after) == (kind, UNKNOWN, None)


@FORMATS
def test_no_answer_in_time(wire: str) -> None:
    began = time.monotonic()
    found = failure(wire, Answer((), "hang"), timeout=0.2)
    assert (found.kind, found.usage) == ("timeout", UNKNOWN)
    assert time.monotonic() - began < 3


@FORMATS
@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda events: stream(events[:2]), "truncated"),
        (lambda events: stream([]), "truncated"),
        (lambda events: stream([*events[:2], b"data: {half\n\n"]), "malformed"),
        (lambda events: stream(events[:2], then="hang"), "timeout"),
        (lambda events: stream([*events[:2], event({"type": "error", "error": {"message": "busy"}})]), "provider"),
    ],
)
def test_streams_that_do_not_end_well(wire: str, change: Callable[[list[bytes]], Answer], kind: str) -> None:
    found = failure(wire, change(STREAMS[wire]), streamed=True, stall=0.2)
    assert (found.kind, found.usage) == (kind, UNKNOWN)


@FORMATS
def test_a_stream_that_is_torn(wire: str) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    piece = STREAMS[wire][0]
    found = failure(wire, Answer((head, b"%x\r\n%s\r\n" % (len(piece), piece)), "close"), streamed=True)
    assert (found.kind, found.usage) == ("provider", UNKNOWN)


@FORMATS
def test_events_may_be_cut_anywhere_and_end_lines_with_crlf(wire: str) -> None:
    data = b"".join(STREAMS[wire]).replace(b"\n", b"\r\n").removesuffix(b"\r\n")
    with ScriptedServer(stream(data[n : n + 3] for n in range(0, len(data), 3))) as server:
        assert ask(model(wire, server.url, streamed=True)).text == "Paris"


@FORMATS
def test_a_server_that_does_not_stream_is_understood(wire: str) -> None:
    with ScriptedServer(whole(ANSWERS[wire])) as server:
        assert ask(model(wire, server.url, streamed=True)).text == "Paris"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def test_a_server_that_never_was_there_ends_the_run_by_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    one = model("openai", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(CallFailed) as caught:
        ask(one)
    assert (caught.value.kind, caught.value.usage, caught.value.retry_after) == ("provider", NOTHING, 1.0)
    monkeypatch.setattr("agentdescent_adapters.providers.waiting.GRACE", 0.0)
    with pytest.raises(CallFailed, match=r"cannot reach .*start the server, or check base_url") as caught:
        ask(one)
    assert (caught.value.kind, caught.value.usage, caught.value.retry_after) == ("contract", NOTHING, None)


def test_a_server_that_went_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentdescent_adapters.providers.waiting.GRACE", 0.0)
    with ScriptedServer(whole(ANSWERS["openai"])) as server:
        one = model("openai", server.url)
        ask(one)
    with pytest.raises(CallFailed) as caught:
        ask(one)
    assert (caught.value.kind, caught.value.retry_after) == ("provider", 1.0)


def test_connections_are_kept_within_a_loop_and_closed_with_it() -> None:
    async def three(one: Model) -> None:
        for _ in range(3):
            await one.complete(Request("a"))

    with ScriptedServer(whole(ANSWERS["openai"])) as server:
        one = model("openai", server.url)
        for _ in range(2):
            asyncio.run(three(one))
        assert len(server.received) == 6
        assert server.connections == 2


def test_many_calls_at_once() -> None:
    async def many(one: Model) -> list[Reply]:
        return await asyncio.gather(*(one.complete(Request(str(n))) for n in range(40)))

    def echo(request: Received) -> Answer:
        return whole(openai_answer(json.loads(request.body)["messages"][0]["content"]))

    with ScriptedServer(echo) as server:
        replies = asyncio.run(many(model("openai", server.url)))
    assert [reply.text for reply in replies] == [str(n) for n in range(40)]


def test_connections_of_a_model_that_is_forgotten_are_closed() -> None:
    """While its loop goes on, and whichever thread collects it."""

    async def forget(url: str) -> None:
        one = model("openai", url)
        await asyncio.gather(*(one.complete(Request(str(n))) for n in range(5)))
        del one
        await asyncio.to_thread(gc.collect)
        await asyncio.sleep(0.05)
        assert server.open == 0

    with ScriptedServer(whole(ANSWERS["openai"])) as server:
        asyncio.run(forget(server.url), debug=True)
