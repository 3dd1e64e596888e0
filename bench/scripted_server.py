"""A server on 127.0.0.1 that answers as it is told, byte by byte: what no well-behaved server can be made to do."""

from __future__ import annotations

import json
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeAlias

Then: TypeAlias = Literal["keep", "close", "reset", "hang"]
"""What follows the last byte: the next request, an end of the connection, a torn one, or nothing at all."""


class Answer(NamedTuple):
    """`pieces` are written one by one. `billed`: tokens that are charged for it, whatever arrives."""

    pieces: tuple[bytes, ...]
    then: Then = "keep"
    billed: int = 0


class Received(NamedTuple):
    """A request, with its headers by lower-case name."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def fields(self) -> dict[str, object]:
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found


def whole(
    body: bytes | str | dict[str, object],
    status: int = 200,
    *,
    headers: Iterable[tuple[str, str]] = (),
    kind: str = "application/json",
    cut: int = 0,
    then: Then = "keep",
    billed: int = 0,
) -> Answer:
    """An HTTP answer. `cut`: so many bytes of the body are promised and never sent."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Reason", f"content-type: {kind}", f"content-length: {len(data)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    return Answer((head + data[: len(data) - cut],), then, billed)


def stream(events: Iterable[bytes], *, then: Then = "close", billed: int = 0) -> Answer:
    """Server-sent events, each written for itself; the connection ends them."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    return Answer((head, *events), then, billed)


class _Handler(socketserver.StreamRequestHandler):
    server: _Sockets

    def handle(self) -> None:
        self.server.connected()
        while (request := self._received()) is not None:
            answer = self.server.answer_to(request)
            for piece in answer.pieces:
                self.wfile.write(piece)
                self.wfile.flush()
            if answer.then == "hang":
                self.server.ended.wait()
            if answer.then == "reset":
                self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if answer.then != "keep":
                return

    def _received(self) -> Received | None:
        """None when no request follows."""
        try:
            first = self.rfile.readline()
            if not first.strip():
                return None
            headers = dict[str, str]()
            while line := self.rfile.readline().strip():
                name, _, value = line.decode().partition(":")
                headers[name.lower()] = value.strip()
            return Received(
                first.split()[1].decode(), headers, self.rfile.read(int(headers.get("content-length", "0")))
            )
        except OSError:
            return None


class _Sockets(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, answer_to: Callable[[Received], Answer], connected: Callable[[], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer_to = answer_to
        self.connected = connected
        self.ended = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no error here."""


class ScriptedServer:
    """A context manager. Gives `answers` in turn, then the last one for ever; a function answers by the request."""

    def __init__(self, *answers: Answer | Callable[[Received], Answer]) -> None:
        self._answers = answers
        self._lock = threading.Lock()
        self._sockets = _Sockets(self._answer, self._connected)
        self._thread = threading.Thread(target=self._sockets.serve_forever, args=(0.01,), daemon=True)
        self.received: list[Received] = []
        self.billed = 0
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._sockets.server_address[1]}"

    def _connected(self) -> None:
        with self._lock:
            self.connections += 1

    def _answer(self, request: Received) -> Answer:
        with self._lock:
            answer = self._answers[min(len(self.received), len(self._answers) - 1)]
            self.received.append(request)
            answer = answer if isinstance(answer, Answer) else answer(request)
            self.billed += answer.billed
            return answer

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._sockets.ended.set()
        self._sockets.shutdown()
        self._sockets.server_close()
        self._thread.join()


def openai_answer(text: str = "Paris", prompt: int = 10, completion: int = 5, finish: str | None = "stop") -> bytes:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def anthropic_answer(text: str = "Paris", prompt: int = 10, completion: int = 5, stop: str = "end_turn") -> bytes:
    usage = {"input_tokens": prompt, "output_tokens": completion}
    content = [{"type": "text", "text": text}]
    fields = {"id": "x", "type": "message", "role": "assistant", "model": "m", "content": content}
    return json.dumps({**fields, "stop_reason": stop, "usage": usage}).encode()


def event(fields: dict[str, object] | str, name: str = "") -> bytes:
    data = fields if isinstance(fields, str) else json.dumps(fields)
    return (f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode()


def openai_events(*texts: str, usage: dict[str, object] | None = None, finish: str | None = "stop") -> list[bytes]:
    """Chunks of a completion, to their very end."""
    chunks = [event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}) for text in texts]
    chunks.append(event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
    said = {"prompt_tokens": 10, "completion_tokens": 5} if usage is None else usage
    return [*chunks, event({"choices": [], "usage": said}), event("[DONE]")]


def anthropic_events(*texts: str, prompt: int = 10, completion: int = 5) -> list[bytes]:
    """Events of a message, to their very end."""
    begun = {"id": "x", "content": [], "usage": {"input_tokens": prompt, "output_tokens": 1}}
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": one}} for one in texts),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": completion}},
        {"type": "message_stop"},
    ]
    return [event(fields, str(fields["type"])) for fields in events]
