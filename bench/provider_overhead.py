"""CPU of one call of a model through the adapter, beside that of the same bytes through a bare socket.

This file, run as a script, is the server: it answers anything at once, and its CPU is not in the figures.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentdescent.record import Record
from agentdescent_adapters.providers import Request, openai_compatible

CALLS, BATCHES = 100, 20
BODY = (
    b'{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":'
    b'"The label is card_arrival."},"finish_reason":"stop"}],"usage":{"prompt_tokens":120,"completion_tokens":7,'
    b'"total_tokens":127,"prompt_tokens_details":{"cached_tokens":64}}}'
)
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY


async def answer_anything(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
            writer.write(ANSWER)
    writer.close()


async def _server() -> None:
    server = await asyncio.start_server(answer_anything, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Overhead(Record, frozen=True):
    """Milliseconds of CPU a call, in the fastest of the batches, since whoever else uses the machine makes them slower
    only: of the adapter, and of a bare socket."""

    ms: float
    bare_ms: float

    def shown(self) -> dict[str, object]:
        return {"overhead_ms": round(self.ms, 3), "bare_ms": round(self.bare_ms, 3)}


@contextmanager
def _running() -> Iterator[int]:
    """The port of a server in another process."""
    process = subprocess.Popen([sys.executable, "-m", "bench.provider_overhead"], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate()


async def _adapter(port: int) -> list[float]:
    model = openai_compatible("m", base_url=f"http://127.0.0.1:{port}/v1", seed=1)
    request = Request("My card has not arrived yet. What is wrong? " * 8, "Answer with a label.\n- Be brief.")
    batches = list[float]()
    for _ in range(BATCHES + 1):
        began = time.process_time()
        for _ in range(CALLS):
            await model.complete(request)
        batches.append((time.process_time() - began) / CALLS * 1_000)
    return batches[1:]


async def _bare(port: int) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = b"POST / HTTP/1.1\r\ncontent-length: 700\r\n\r\n" + b"x" * 700
    batches = list[float]()
    for _ in range(BATCHES + 1):
        began = time.process_time()
        for _ in range(CALLS):
            writer.write(sent)
            await reader.readexactly(len(ANSWER))
        batches.append((time.process_time() - began) / CALLS * 1_000)
    writer.close()
    await writer.wait_closed()
    return batches[1:]


def measured() -> Overhead:
    with _running() as port:
        bare = asyncio.run(_bare(port))
        return Overhead(min(asyncio.run(_adapter(port))), min(bare))


if __name__ == "__main__":
    asyncio.run(_server())
