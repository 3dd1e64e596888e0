"""Making a model: what is checked before anything is sent, and what is imported for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from openai import OpenAI

from agentdescent.errors import UsageError
from agentdescent.ports import CallFailed
from agentdescent_adapters.providers import Price, Reply, Request, claude, from_openai, openai_compatible, settings
from agentdescent_adapters.providers.pools import proxy_for
from bench.scripted_server import ScriptedServer, anthropic_answer, openai_answer, whole


def ask(url: str, **options: Any) -> Reply:
    async def complete() -> Reply:
        return await openai_compatible("m", base_url=url, **options).complete(Request("a"))

    return asyncio.run(complete())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"base_url": "api.example.org"}, "base_url"),
        ({"ceiling": 0}, "ceiling"),
        ({"temperature": float("nan")}, "temperature"),
        ({"seed": 1.5}, "seed"),
        ({"timeout": 0}, "timeout"),
        ({"stall_timeout": float("inf")}, "stall_timeout"),
        ({"bytes_per_token": 4}, "counter="),
        ({"bytes_per_token": 0}, "bytes_per_token"),
        ({"overhead": -1}, "overhead"),
        ({"base_url": "http://host:99999/v1"}, "base_url is no address"),
        ({"base_url": "http://[::1/v1"}, "base_url is no address"),
        ({"base_url": f"https://{'a' * 100}.com/v1"}, "base_url is no address"),
        ({"base_url": "https://host/v 1"}, "base_url is"),
        ({"base_url": "https://host/v1\n"}, "base_url is"),
        ({"base_url": None}, "base_url is"),
        ({"base_url": "https://host/v1?version=1"}, "base_url holds"),
        ({"extra": {"x": object()}}, "extra"),
        ({"extra": "text"}, "extra"),
        ({"extra": {"max_tokens": 99}}, "'max_tokens'.*ceiling="),
        ({"extra": {"max_completion_tokens": 99}}, "'max_completion_tokens'.*ceiling="),
        ({"extra": {"n": 4}}, "'n'.*paid for"),
        ({"extra": {"stream": True}}, "'stream'.*stream="),
        ({"counter": 5}, "counter"),
        ({"prices": 5}, "prices"),
        ({"prices": Price(1.0, 1.0, cached=2.0)}, "price cached"),
        ({"api_key": 5}, "api_key"),
        ({"ceiling_field": "tokens"}, "max_completion_tokens"),
        ({"api_key": "k\nx"}, "key"),
        ({"api_key": "clé"}, "key"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_sent(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        openai_compatible("m", **{"api_key": "k", **options})


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        openai_compatible("m")
    openai_compatible("m", base_url="http://127.0.0.1:1/v1")  # a local server needs none
    monkeypatch.setenv("OTHER_KEY", " secret\n")
    with ScriptedServer(whole(openai_answer())) as server:
        ask(server.url, api_key_env="OTHER_KEY")
        assert server.received[0].headers["authorization"] == "Bearer secret"


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, agentdescent_adapters, agentdescent_adapters.providers as p\n"
        "p.openai_compatible('m', base_url='http://127.0.0.1:1/v1'); p.claude('m', api_key='k')\n"
        "print(sorted({'httpx2', 'httpcore2', 'openai', 'anthropic', 'bpe_openai', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", ["", "/v1", "/v1/", "/v1/chat/completions"])
def test_a_base_url_may_be_the_whole_address(path: str) -> None:
    with ScriptedServer(whole(openai_answer())) as server:
        ask(server.url + path)
        assert server.received[0].path == ("/v1" if path else "") + "/chat/completions"


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/messages"])
def test_that_of_anthropic_may_have_its_version_or_not(path: str) -> None:
    async def complete(url: str) -> Reply:
        return await claude("m", base_url=url).complete(Request("a"))

    with ScriptedServer(whole(anthropic_answer())) as server:
        asyncio.run(complete(server.url + path))
        assert server.received[0].path == "/v1/messages"


def test_proxies_of_the_environment_are_used_but_not_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY", "http_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    assert proxy_for("https://api.example/v1") == "http://proxy.example:3128"
    assert proxy_for("https://localhost:8000/v1") is None
    assert proxy_for("http://api.example/v1") is None
    monkeypatch.setenv("no_proxy", "api.example")
    assert proxy_for("https://api.example/v1") is None


@pytest.mark.parametrize(("proxy", "said"), [("socks5://127.0.0.1:9", "socksio"), ("ftp://127.0.0.1:9", "ftp")])
def test_a_proxy_that_cannot_be_used_is_said_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, proxy: str, said: str
) -> None:
    for name in ("no_proxy", "NO_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(UsageError, match=f"{said}.*no_proxy"):
        openai_compatible("m", api_key="k")
    monkeypatch.setenv("ALL_PROXY", "proxy.example:3128")
    assert proxy_for("https://api.example/v1") == "http://proxy.example:3128"
    openai_compatible("m", api_key="k")


def test_no_message_holds_a_password() -> None:
    for url in ("https://me:secret-1@host/v1", "https://me:secret-1@[::1/v1", "https://me:secret-1@host:99999"):
        with pytest.raises(UsageError, match="leave them out") as caught:
            openai_compatible("m", base_url=url, api_key="k")
        assert "secret" not in str(caught.value)


def test_a_key_that_a_server_repeats_is_in_no_message() -> None:
    key = "sk-very-secret"
    with ScriptedServer(whole({"error": {"message": f"{key} is wrong"}}, 401)) as server:
        url = server.url.replace("//", f"//me:{key}@") + "/v1"
        with OpenAI(base_url=url, api_key=key) as client:
            for one in (openai_compatible("m", base_url=server.url, api_key=key), from_openai(client, "m")):
                with pytest.raises(CallFailed, match=r"\.\.\. is wrong") as caught:
                    asyncio.run(one.complete(Request("a")))
                assert key not in str(caught.value)


@pytest.mark.parametrize("url", ["https://api.openai.com/v1", "https://api.openai.com/v1/", "https://api.openai.com"])
def test_the_ceiling_is_sent_to_openai_in_the_field_that_it_wants(url: str) -> None:
    with ScriptedServer(whole(openai_answer())) as server:
        ask(server.url)
        assert server.received[0].fields["max_tokens"] == 1024
    assert settings.ceiling_field_at(url) == "max_completion_tokens"
    assert settings.ceiling_field_at("https://api.openai.com.example/v1") == "max_tokens"


def test_further_fields_and_a_schema_go_together() -> None:
    extra = {"output_config": {"effort": "low"}, "service_tier": "auto"}
    schema = b'{"type":"object"}'
    with ScriptedServer(whole(anthropic_answer("{}"))) as server:
        asyncio.run(claude("m", base_url=server.url, extra=extra).complete(Request("a", schema=schema)))
        sent = server.received[0].fields
    assert sent["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}}
    assert (sent["service_tier"], server.received[0].body.count(b"output_config")) == ("auto", 1)


def test_a_call_goes_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with ScriptedServer(whole(openai_answer())) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert ask("http://api.example/v1", api_key="k").text == "Paris"
        assert proxy.received[0].path == "http://api.example/v1/chat/completions"
