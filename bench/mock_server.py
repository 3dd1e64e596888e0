"""A server nobody here wrote, `llmock serve`, in a process of its own: it breaks answers, and judges its clients."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from typing import cast

START = 60.0
"""Seconds until it has to answer."""


class MockServer:
    """A context manager. It keeps what it was asked, and by whom, until it ends."""

    def __init__(self) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self._port: int = one.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> MockServer:
        program = "import sys; from llmock.cli import app; app()"
        options = ["serve", "--host", "127.0.0.1", "--port", str(self._port), "--log-level", "critical"]
        self._process = subprocess.Popen([sys.executable, "-c", program, *options], stdout=subprocess.DEVNULL)
        until = time.monotonic() + START
        while True:
            try:
                self.call("GET", "/_llmock/scenario")
                return self
            except (OSError, HTTPException):
                if time.monotonic() > until or self._process.poll() is not None:
                    self.__exit__()
                    raise
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def call(self, method: str, path: str, body: object = None) -> dict[str, object]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=20)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"content-type": "application/json", "x-api-key": "k"})
            found = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return cast("dict[str, object]", found)

    def script(self, model: str, behaviors: Sequence[Mapping[str, object]]) -> None:
        """What happens to the next requests for this model."""
        matched = [{**one, "match": {"model": model}} for one in behaviors]
        self.call("POST", "/_llmock/scenario", {"behaviors": matched})

    def requests(self) -> list[dict[str, object]]:
        return cast("list[dict[str, object]]", self.call("GET", "/_llmock/requests")["requests"])

    def findings(self) -> list[dict[str, object]]:
        """What it says against its clients: severity, code, and the numbers of the requests."""
        return cast("list[dict[str, object]]", self.call("GET", "/_llmock/verdict")["findings"])

    def bill(self, request: Mapping[str, object]) -> int:
        """Tokens of the whole answer to this request: the same request gets the same answer, so it is asked again."""
        body = {
            name: value for name, value in cast("dict[str, object]", request["body"]).items() if "stream" not in name
        }
        usage = cast("dict[str, int]", self.call("POST", str(request["path"]), body)["usage"])
        return sum(
            usage.get(name, 0) for name in ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
        )
