"""Streams that end, or go on, in odd ways."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from httpcore2 import ReadError, ReadTimeout

from agentdescent.budget.usage import Usage
from agentdescent.ports import CallFailed
from agentdescent_adapters.providers import Reply, Request, claude, openai_compatible
from agentdescent_adapters.providers.connections import Connection
from bench.scripted_server import ScriptedServer, Then, anthropic_events, openai_events, stream, whole

STREAMS = {"openai": openai_events("Pa", "ris"), "anthropic": anthropic_events("Pa", "ris")}
FORMATS = pytest.mark.parametrize("wire", ["openai", "anthropic"])


def ask(wire: str, url: str, **options: Any) -> Reply:
    one = (openai_compatible if wire == "openai" else claude)("m", base_url=url, stream=True, **options)
    return asyncio.run(one.complete(Request("Capital of France?")))


@FORMATS
@pytest.mark.parametrize("then", ["reset", "hang"])
def test_what_follows_the_end_of_a_stream_takes_nothing_from_the_answer(wire: str, then: Then) -> None:
    with ScriptedServer(stream(STREAMS[wire], then=then)) as server:
        reply = ask(wire, server.url, stall_timeout=0.5)
    assert (reply.text, reply.usage) == ("Paris", Usage(10, 5))


@FORMATS
def test_an_event_without_data_keeps_a_stream_alive(wire: str) -> None:
    with ScriptedServer(stream([b"data:\n\n", b"\n", *STREAMS[wire]])) as server:
        assert ask(wire, server.url).text == "Paris"


def test_an_error_beside_no_choices_is_the_error() -> None:
    with (
        ScriptedServer(whole({"error": {"message": "overloaded"}, "choices": None})) as server,
        pytest.raises(CallFailed, match="an error in place of an answer: overloaded") as caught,
    ):
        ask("openai", server.url)
    assert caught.value.kind == "provider"


@pytest.mark.parametrize(
    ("error", "kind"), [(TimeoutError(), ReadTimeout), (TimeoutError(110, "timed out"), ReadError)]
)
def test_a_connection_that_the_system_gave_up_is_broken_and_not_slow(error: OSError, kind: type[Exception]) -> None:
    async def read() -> None:
        reader = asyncio.StreamReader()
        reader.set_exception(error)
        connection = Connection(reader, cast("asyncio.StreamWriter", None))
        with pytest.raises(kind):
            await connection.read(1)

    asyncio.run(read())
