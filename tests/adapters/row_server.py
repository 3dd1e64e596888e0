"""A server of rows on the loopback interface: the rows API, and files, with scripted faults."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit


class Response(NamedTuple):
    """What to answer with. `cut`: bytes of the body to leave out, though its length promises them."""

    body: bytes
    status: int = 200
    retry_after: str | None = None
    cut: int = 0


Answer = Callable[[str], Response | None]
"""From the path and query of a request to a response; None drops the connection."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        response = self.server.answer(self.path)
        if response is None:
            return
        self.send_response(response.status)
        self.send_header("Content-Length", str(len(response.body)))
        if response.retry_after is not None:
            self.send_header("Retry-After", response.retry_after)
        self.end_headers()
        self.wfile.write(response.body[: len(response.body) - response.cut])

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on standard error."""


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    with Server(answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def rows_api(rows: list[dict[str, object]], names: list[str] | None = None) -> Answer:
    """The rows API over one split of `rows`, whose label is a class when there are `names`."""

    def answer(path: str) -> Response:
        query = parse_qs(urlsplit(path).query)
        offset, length = int(query["offset"][0]), int(query["length"][0])
        kind = {"_type": "ClassLabel", "names": names} if names else {"_type": "Value", "dtype": "string"}
        page = {
            "features": [{"feature_idx": 0, "name": "label", "type": kind}],
            "rows": [
                {"row_idx": offset + n, "row": row, "truncated_cells": []}
                for n, row in enumerate(rows[offset : offset + length])
            ],
            "num_rows_total": len(rows),
            "num_rows_per_page": 100,
            "partial": False,
        }
        return Response(json.dumps(page).encode())

    return answer


def scripted(*responses: Response | None) -> Answer:
    """These, one after the other; the last for ever."""
    left = list(responses)
    return lambda path: left.pop(0) if len(left) > 1 else left[0]
