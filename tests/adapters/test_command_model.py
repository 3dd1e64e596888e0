"""A whole run by a config whose agent is a model, against a server of ours on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentdescent.ports import Task
from agentdescent_adapters.command.main import main
from agentdescent_adapters.tasks import hub

CONFIG = """
[tasks]
file = "demo"
labels = 3

[agent]
kind = "openai"
model = "small"
base_url = "http://127.0.0.1:{port}/v1"
api_key_env = "MY_KEY"
choices = true
solve_ceiling = 16
propose_ceiling = 32
cache = "replies.sqlite"

[budget]
max_tokens = 200000
max_cost = 1.0
rounds = 1

[prices]
prompt = 1.0
completion = 2.0
"""


class Server(ThreadingHTTPServer):
    """Answers the first label to whoever has the key, and counts."""

    daemon_threads = True
    tokens = 0
    calls = 0
    keys: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = 20 + sum(len(message["content"]) for message in asked["messages"]) // 4
        schema = asked.get("response_format")
        text = _first(schema) if schema else "add: look at the verb"
        usage = {"prompt_tokens": prompt, "completion_tokens": 8, "total_tokens": prompt + 8}
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        body = json.dumps({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
        self.server.tokens += prompt + 8
        self.server.calls += 1
        self.server.models |= {asked["model"]}
        self.server.keys |= {self.headers["Authorization"]}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


def _first(schema: Any) -> str:
    """A JSON object with the first value of each enumeration in a schema."""
    properties = schema["json_schema"]["schema"]["properties"]
    return json.dumps({name: value["enum"][0] for name, value in properties.items()})


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_a_config_with_a_model_is_planned_run_and_replayed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", "sk-secret-1")
    Path("run.toml").write_text(CONFIG.format(port=server.server_port), encoding="utf-8")
    planned = command(capsys, "plan", "run.toml")
    assert (server.calls, sorted(path.name for path in tmp_path.iterdir())) == (0, ["run.toml"])
    made = command(capsys, "run", "run.toml", "--out", "r", "--quiet")
    assert made["spent"] == server.tokens > 0
    assert made["estimate"] == planned["run"]
    assert made["by_purpose"]["base"] <= planned["base"]["worst"]["tokens"]
    # The schema is expected to be billed as a prompt, which this server does not.
    assert 0.5 < planned["base"]["expected"]["tokens"] / made["by_purpose"]["base"] < 2.5
    assert server.keys == {"Bearer sk-secret-1"}
    assert command(capsys, "replay", "r", "--check")["identical"]
    calls = server.calls
    again = command(capsys, "run", "run.toml", "--out", "s", "--quiet")
    assert server.calls < calls + calls // 10
    assert again["spent"] < made["spent"] // 10
    assert (again["base"], again["final"]) == (made["base"], made["final"])
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert (b"MY_KEY" in written, b"secret" in written) == (True, False)


def test_a_comparison_asks_the_model_that_its_flags_and_config_name(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--provider and --model go over `agent` and `model`; the address and the variable of the key are the config's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", "sk-secret-1")
    text = CONFIG.replace('cache = "replies.sqlite"\n', "").replace('kind = "openai"\nmodel = "small"\n', "")
    Path("run.toml").write_text(text.format(port=server.server_port), encoding="utf-8")
    flags = ("ab", "run.toml", "--provider", "openai", "--arms", "off", "--jobs", "1", "--seeds", "1", "--out", "AB")
    assert main([*flags, "--yes"]) == 2
    assert "no model is named: set model" in capsys.readouterr().err
    assert main([*flags, "--model", "large"]) == 2
    said = capsys.readouterr().err
    assert "2 runs of at most 200,000 tokens, 400,000 in all, $0.80 at most: give --yes to spend them" in said
    assert (server.calls, Path("AB").exists()) == (0, False)
    assert main([*flags, "--model", "large", "--yes", "--json"]) == 5
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    assert [(row["arm"], row["error"]) for row in rows] == [("off", ""), ("on", "")]
    assert sum(row["tokens"] for row in rows) == server.tokens > 0
    assert server.models == {"large"}
    assert server.keys == {"Bearer sk-secret-1"}
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"secret" not in written


def test_a_comparison_reads_the_data_set_of_its_source(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked: list[tuple[str, object]] = []

    def load(dataset: str, **options: object) -> list[Task]:
        asked.append((dataset, options["split"]))
        return [Task(f"t{i}", f"word{i % 3} and {i}", {"label": f"label{i % 3}"}) for i in range(40)]

    monkeypatch.setattr(hub, "modelscope", load)
    flags = ("ab", "--dataset", "org/rows", "--source", "modelscope", "--max-tokens", "60000", "--arms", "off")
    assert main([*flags, "--jobs", "1", "--seeds", "1", "--out", str(tmp_path / "AB"), "--json"]) == 5
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    assert [row["error"] for row in rows] == ["", ""]
    assert set(asked) == {("org/rows", "train")}
