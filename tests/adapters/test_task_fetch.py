"""GET: what is tried again, how long, and what the errors say. Time is simulated; the server is real."""

from __future__ import annotations

import socket
from email.utils import formatdate

import pytest

from agentdescent.errors import RunError, UsageError
from agentdescent_adapters.tasks.fetch import fetch
from tests.adapters.row_server import Response, scripted, serving

GOOD = Response(b'{"rows": []}')


class Clock:
    """Seconds that pass only in sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.mark.parametrize(
    ("faults", "slept"),
    [
        ([], []),
        ([Response(b"", 429, "7")], [7.0]),
        ([Response(b"", 429, "0"), Response(b"", 503, "3")], [0.0, 3.0]),
        ([Response(b"", 500), None, Response(b"", 529), Response(b"", 408)], [0.5, 1.0, 2.0, 4.0]),
        ([Response(b"x" * 100, cut=1)], [0.5]),
        ([Response(b"", 429, "soon")], [0.5]),
        ([Response(b"", 429, formatdate(0, usegmt=True))], [0.0]),
    ],
)
def test_what_passes_is_waited_for(faults: list[Response | None], slept: list[float]) -> None:
    clock = Clock()
    with serving(scripted(*faults, GOOD)) as server:
        body = fetch(f"{server.url}/rows?a=1", "-", clock=clock, sleep=clock.sleep)
        assert (body, clock.slept, server.asked) == (GOOD.body, slept, ["/rows?a=1"] * (len(faults) + 1))


def test_attempts_end() -> None:
    clock = Clock()
    with serving(scripted(Response(b'{"error": "not ready\\nyet"}', 500))) as server:
        with pytest.raises(RunError) as caught:
            fetch(server.url, "-", clock=clock, sleep=clock.sleep, attempts=3)
        assert str(caught.value) == (
            f"{server.url}: HTTP 500 (not ready yet): gave up after attempt 3 of 3 and at most 60 s: "
            "check the network and try again later"
        )
        assert (clock.slept, len(server.asked)) == ([0.5, 1.0], 3)


def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    clock = Clock()
    with serving(scripted(Response(b"", 429, "3600"))) as server:
        with pytest.raises(
            RunError, match=r"HTTP 429 \(Too Many Requests\), asked to wait 3600 s: gave up after attem"
        ):
            fetch(server.url, "-", clock=clock, sleep=clock.sleep)
        assert (clock.slept, len(server.asked)) == ([], 1)


def test_a_body_that_trickles_past_the_deadline() -> None:
    """Each look at the clock is 40 seconds later."""
    clock = Clock()

    def late() -> float:
        clock.now += 40
        return clock.now

    with (
        serving(scripted(Response(b"x" * 100, cut=1))) as server,
        pytest.raises(RunError, match="deadline passed in the middle of the body"),
    ):
        fetch(server.url, "-", clock=late, sleep=clock.sleep)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": "The dataset does not exist."}', "The dataset does not exist."),
        (b"<html>", "Not Found"),
        (b'{"error": 3}', "Not Found"),
        (b"\xff", "Not Found"),
        (b"", "Not Found"),
    ],
)
def test_what_will_not_pass_is_the_callers_fault(body: bytes, said: str) -> None:
    clock = Clock()
    with serving(scripted(Response(body, 404))) as server:
        with pytest.raises(UsageError) as caught:
            fetch(server.url, "check the name", clock=clock, sleep=clock.sleep)
        assert str(caught.value) == f"{server.url}: HTTP 404 ({said}): check the name"
        assert (clock.slept, len(server.asked)) == ([], 1)


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: whoever connects is refused
        clock = Clock()
        with pytest.raises(
            RunError, match=r"connection failed .*refused.*: gave up after attempt 2 of 2 .* the network"
        ):
            fetch(f"http://127.0.0.1:{taken.getsockname()[1]}/", "-", clock=clock, sleep=clock.sleep, attempts=2)


@pytest.mark.parametrize("url", ["", "rows", "file:///etc/hosts", "ftp://x/y", "http://a b/", "http://a/\nb"])
def test_no_address(url: str) -> None:
    with pytest.raises(UsageError, match="is no address: give one that begins with http:// or https://"):
        fetch(url, "-")
