"""Models over HTTPS: certificates are checked, and connections are kept as without encryption."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.provider_overhead import answer_anything

PROGRAM = """
import asyncio, sys
from agentdescent.ports import CallFailed
from agentdescent_adapters.providers import Request, openai_compatible
one = openai_compatible("m", base_url=sys.argv[1], api_key="k")
async def go():
    for _ in range(2):
        try:
            print((await one.complete(Request("a"))).usage.tokens)
        except CallFailed as failed:
            print(failed.kind, failed)
asyncio.run(go())
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that nobody vouches for, with its key in the same file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not here, and makes the certificate")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", file, "-out", f"{file}.crt", *subject],
        check=True,
        capture_output=True,
    )
    file.write_bytes(file.read_bytes() + Path(f"{file}.crt").read_bytes())
    return file


@pytest.fixture
def port(certificate: Path) -> Iterator[int]:
    """Of a server in a loop of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    loop, ports = asyncio.new_event_loop(), list[int]()
    ready = threading.Event()

    async def serve() -> None:
        server = await asyncio.start_server(answer_anything, "127.0.0.1", 0, ssl=context)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        await stop
        server.close()

    stop = loop.create_future()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait(10)
    yield ports[0]
    loop.call_soon_threadsafe(stop.set_result, None)
    thread.join()
    loop.close()


def said(port: int, trusted: Path | None) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SSL_CERT")}
    if trusted is not None:
        environment["SSL_CERT_FILE"] = f"{trusted}.crt"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, f"https://localhost:{port}/v1"],
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_server_that_is_vouched_for_is_asked(port: int, certificate: Path) -> None:
    assert said(port, certificate) == ["127", "127"]


def test_one_that_is_not_is_not(port: int) -> None:
    first, second = said(port, None)
    assert first.startswith("provider cannot connect to https://localhost")
    assert "CERTIFICATE_VERIFY_FAILED" in second
