"""The two wire formats, without a wire: what is sent, and what an answer says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.budget.usage import Usage
from agentdescent.ports import CallFailed
from agentdescent_adapters.providers import Reply, Request, claude, openai_compatible
from agentdescent_adapters.providers.anthropic_format import AnthropicFormat
from agentdescent_adapters.providers.events import Events
from agentdescent_adapters.providers.openai_format import OpenAIFormat
from agentdescent_adapters.providers.wire import Parameters
from bench.scripted_server import anthropic_answer, anthropic_events, event, openai_answer, openai_events

SCHEMA = b'{"type":"object","properties":{"label":{"type":"string"}}}'
PLAIN, ASKED = Request("Hello"), Request("Hello", schema=SCHEMA)


def sent(wire: OpenAIFormat | AnthropicFormat, request: Request, *, stream: bool = False, **parameters: Any) -> Any:
    return json.loads(wire.encode(request, Parameters("m", 100, **parameters), stream=stream))


def test_what_openai_is_sent() -> None:
    assert sent(OpenAIFormat(), PLAIN) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 100,
    }
    full = Request("Hello", "Be brief.", ceiling=7, sample=3, schema=SCHEMA)
    parameters = {"temperature": 0.0, "seed": 4, "ceiling_field": "max_completion_tokens", "extra": {"top_p": 0.5}}
    assert sent(OpenAIFormat(), full, stream=True, **parameters) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "temperature": 0.0,
        "seed": 7,
        "max_completion_tokens": 7,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": json.loads(SCHEMA)},
        },
        "stream": True,
        "stream_options": {"include_usage": True},
        "top_p": 0.5,
    }


def test_what_anthropic_is_sent() -> None:
    assert sent(AnthropicFormat(), PLAIN) == {
        "model": "m",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Hello"}],
    }
    full = Request("Hello", "Be brief.", ceiling=7, sample=3, schema=SCHEMA)
    assert sent(AnthropicFormat(), full, stream=True, temperature=0.5, extra={"top_k": 3}) == {
        "model": "m",
        "max_tokens": 7,
        "messages": [{"role": "user", "content": "Hello"}],
        "system": "Be brief.",
        "temperature": 0.5,
        "output_config": {"format": {"type": "json_schema", "schema": json.loads(SCHEMA)}},
        "stream": True,
        "top_k": 3,
    }


@pytest.mark.parametrize("wire", [OpenAIFormat(), AnthropicFormat()])
def test_no_call_exceeds_the_ceiling_of_its_model(wire: OpenAIFormat | AnthropicFormat) -> None:
    assert sent(wire, Request("a", ceiling=5_000))["max_tokens"] == 100


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_texts_arrive_as_they_are(user: str, system: str) -> None:
    body = sent(OpenAIFormat(), Request(user, system))
    assert body["messages"][-1]["content"] == user
    assert sent(AnthropicFormat(), Request(user, system)).get("system", "") == system


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5}, Usage(10, 5)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, Usage(10, 5)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}, Usage(10, 30)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 8}}, Usage(10, 5, 8)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 6}, Usage(10, 5, 6)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 4}, Usage(10, 5, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": None}, Usage(10, 5)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 99}, Usage(10, 5, 10)),
        ({"prompt_tokens": 10}, None),
        ({"prompt_tokens": 0, "completion_tokens": 5}, None),
        ({"prompt_tokens": -1, "completion_tokens": 5}, None),
        ({"prompt_tokens": "10", "completion_tokens": 5}, None),
        ({}, None),
        (None, None),
        ("many", None),
    ],
)
def test_what_openai_counts(usage: object, expected: Usage | None) -> None:
    body = {**json.loads(openai_answer()), "usage": usage}
    assert OpenAIFormat().decode(json.dumps(body).encode(), PLAIN) == Reply("Paris", "stop", expected)
    del body["usage"]
    assert OpenAIFormat().decode(json.dumps(body).encode(), PLAIN).usage is None


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 10, "output_tokens": 5}, Usage(10, 5)),
        ({"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 90}, Usage(100, 5, 90)),
        (
            {"input_tokens": 0, "output_tokens": 5, "cache_read_input_tokens": 9, "cache_creation_input_tokens": 4},
            Usage(13, 5, 9),
        ),
        ({"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": None}, Usage(10, 5)),
        ({"input_tokens": 0, "output_tokens": 5}, None),
        ({"input_tokens": 10}, None),
        (None, None),
    ],
)
def test_what_anthropic_counts(usage: object, expected: Usage | None) -> None:
    body = {**json.loads(anthropic_answer()), "usage": usage}
    assert AnthropicFormat().decode(json.dumps(body).encode(), PLAIN) == Reply("Paris", "stop", expected)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "filter"),
        ("tool_calls", "unknown"),
        (None, "unknown"),
    ],
)
def test_why_openai_ended(reason: str | None, finish: str) -> None:
    assert OpenAIFormat().decode(openai_answer(finish=reason), PLAIN).finish == finish


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("end_turn", "stop"), ("max_tokens", "length"), ("refusal", "filter"), ("pause_turn", "unknown")],
)
def test_why_anthropic_ended(reason: str, finish: str) -> None:
    assert AnthropicFormat().decode(anthropic_answer(stop=reason), PLAIN).finish == finish


@pytest.mark.parametrize(
    ("text", "finish", "request_", "kind"),
    [
        ("", "stop", PLAIN, "empty"),
        ("", "content_filter", PLAIN, "empty"),
        ("", "length", PLAIN, "truncated"),
        ("not JSON", "stop", ASKED, "malformed"),
        ('{"label": "a"', None, ASKED, "malformed"),
    ],
)
def test_answers_that_are_none_cost_what_they_say(text: str, finish: str | None, request_: Request, kind: str) -> None:
    with pytest.raises(CallFailed) as caught:
        OpenAIFormat().decode(openai_answer(text, finish=finish), request_)
    assert (caught.value.kind, caught.value.usage) == (kind, Usage(10, 5))


@pytest.mark.parametrize("text", ['```json\n{"label": "a"}\n```', '<think>"</think>\n{"label": "a"}'])
def test_json_may_be_wrapped_as_any_answer_may(text: str) -> None:
    assert OpenAIFormat().decode(openai_answer(text), ASKED).text == text
    with pytest.raises(CallFailed, match="JSON was asked for"):
        OpenAIFormat().decode(openai_answer(text.partition("{")[0]), ASKED)


def test_json_that_was_cut_at_its_ceiling_is_a_reply_that_says_so() -> None:
    assert OpenAIFormat().decode(openai_answer('{"la', finish="length"), ASKED) == Reply('{"la', "length", Usage(10, 5))
    assert AnthropicFormat().decode(anthropic_answer('{"a": 1}'), ASKED).text == '{"a": 1}'


@pytest.mark.parametrize(
    "body",
    [
        {"usage": {"prompt_tokens": 10, "completion_tokens": 5}},
        {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}},
        {"choices": "none", "usage": {"prompt_tokens": 10, "completion_tokens": 5}},
        {"choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": 10, "completion_tokens": 5}},
    ],
)
def test_another_shape_costs_what_it_says(body: dict[str, object]) -> None:
    with pytest.raises(CallFailed) as caught:
        OpenAIFormat().decode(json.dumps(body).encode(), PLAIN)
    assert (caught.value.kind, caught.value.usage) == ("malformed", Usage(10, 5))


def test_an_error_in_a_success_is_one_of_the_provider() -> None:
    body = {"error": {"code": 502, "message": "upstream"}}
    for wire in (OpenAIFormat(), AnthropicFormat()):
        with pytest.raises(CallFailed, match="upstream") as caught:
            wire.decode(json.dumps(body).encode(), PLAIN)
        assert (caught.value.kind, caught.value.usage) == ("provider", None)


def test_reasoning_is_no_text() -> None:
    body = json.loads(openai_answer())
    body["choices"][0]["message"]["reasoning_content"] = "Let me think"
    assert OpenAIFormat().decode(json.dumps(body).encode(), PLAIN).text == "Paris"
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}, {"type": "text", "text": "Rome"}]
    body["choices"][0]["message"]["content"] = parts
    assert OpenAIFormat().decode(json.dumps(body).encode(), PLAIN).text == "Rome"
    body = json.loads(anthropic_answer())
    body["content"].insert(0, {"type": "thinking", "thinking": "Let me think", "signature": "x"})
    assert AnthropicFormat().decode(json.dumps(body).encode(), PLAIN).text == "Paris"


def read(wire: OpenAIFormat | AnthropicFormat, chunks: list[bytes], request: Request = PLAIN) -> Reply:
    reading, events = wire.reading(), Events()
    for chunk in chunks:
        for data in events.feed(chunk):
            reading.feed(data)
    for data in events.end():
        reading.feed(data)
    return reading.reply(request)


def test_streams() -> None:
    assert read(OpenAIFormat(), openai_events("Pa", "ris")) == Reply("Paris", "stop", Usage(10, 5))
    assert read(AnthropicFormat(), anthropic_events("Pa", "ris")) == Reply("Paris", "stop", Usage(10, 5))
    cached = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 8}}
    assert read(OpenAIFormat(), openai_events("a", usage=cached)).usage == Usage(10, 5, 8)
    assert read(OpenAIFormat(), openai_events("a", usage={})).usage is None


def test_reasoning_in_a_stream_is_no_text() -> None:
    thought = event({"choices": [{"delta": {"reasoning_content": "Hm", "content": None}}]})
    assert read(OpenAIFormat(), [thought, *openai_events("Rome")]).text == "Rome"
    thinking = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}}
    events = anthropic_events("Rome")
    assert read(AnthropicFormat(), [events[0], event(thinking), event({"type": "ping"}), *events[1:]]).text == "Rome"


@pytest.mark.parametrize("kept", range(9))
def test_a_stream_is_an_answer_only_with_its_end(kept: int) -> None:
    """Cut anywhere: what was said before the end is no answer, and the count before the last is no usage."""
    for wire, events, ending in (
        (OpenAIFormat(), openai_events("Pa", "ris"), 3),
        (AnthropicFormat(), anthropic_events("Pa", "ris"), 6),
    ):
        if kept >= ending:
            assert read(wire, events[:kept]).text == "Paris"
            continue
        with pytest.raises(CallFailed) as caught:
            read(wire, events[:kept])
        assert (caught.value.kind, caught.value.usage) == ("truncated", None)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1), st.data())
def test_events_do_not_depend_on_how_they_are_cut(texts: list[str], data: st.DataObject) -> None:
    stream = b"".join(openai_events(*texts, "."))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(OpenAIFormat(), pieces).text == "".join(texts) + "."


@given(st.binary())
def test_whatever_comes_is_a_reply_or_a_failure(data: bytes) -> None:
    for wire in (OpenAIFormat(), AnthropicFormat()):
        with pytest.raises(CallFailed):
            wire.decode(data, PLAIN)
        with pytest.raises(CallFailed):
            read(wire, [data, b"\n\n"])


def test_a_name_says_all_that_changes_an_answer() -> None:
    here = "http://127.0.0.1:1/v1"
    names = [
        openai_compatible("m", base_url=here).name,
        openai_compatible("n", base_url=here).name,
        openai_compatible("m", base_url=here, temperature=None).name,
        openai_compatible("m", base_url=here, seed=0).name,
        openai_compatible("m", base_url=here, ceiling=5).name,
        openai_compatible("m", base_url=here, extra={"top_p": 0.5}).name,
        claude("m", api_key="k").name,
    ]
    assert len(set(names)) == len(names)
    assert names[0] == openai_compatible("m", base_url="http://127.0.0.1:2/v1", stream=True).name
