"""Replies are read for what they are (field case 24), whatever they are."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Answer, CallFailed, Usage
from agentdescent.artifact.diff import Add, Drop, Replace
from agentdescent.artifact.strategy import AppendRules, KeyedRules, SingleSlot, parse, rule_key
from agentdescent.budget.tariff import Rate
from agentdescent_adapters.llm import schemas
from agentdescent_adapters.llm.proposing import Proposing, keyed, numbered, read_proposal
from agentdescent_adapters.llm.replies import declines
from agentdescent_adapters.llm.schemas import choice_schema, encoded, proposal_schema
from agentdescent_adapters.llm.solving import Solving, read_solution
from agentdescent_adapters.llm.templates import PROPOSE, SOLVE
from agentdescent_adapters.providers.model import Finish, Reply, Terms
from agentdescent_adapters.providers.wrapping import unfenced, without_reasoning

USED = Usage(prompt=11, completion=7)
TERMS = Terms(64)
LABELS = ("card_arrival", "top_up", "No")
FREE_TEXT = Solving(SOLVE, TERMS, Rate())
STRICT_TEXT = Solving(SOLVE, TERMS, Rate(), partial=False)
CHOICES = Solving(SOLVE, TERMS, Rate(), encoded(choice_schema(LABELS), "choices"), LABELS)
NUMBER = Solving(SOLVE, TERMS, Rate(), encoded({"type": "object", "required": ["n"]}, "answer_schema"))
RULES = "# Playbook\n- be brief\n- say please"


def proposing(strategy: AppendRules | SingleSlot | KeyedRules, *, structured: bool = False) -> Proposing:
    schema = encoded(proposal_schema(strategy), "proposal_schema") if structured else None
    return Proposing(PROPOSE, strategy, TERMS, Rate(), 4096, 256, schema)


LIST = proposing(AppendRules())

MARKS = ("<think>", "</think>", "<THINKING>", "</reasoning>", "```", "~~~", "`", "\n", " ", '"', "*", "{", "}")
WORDS = ("NONE", "none.", "add: x", "replace 1: y", "drop 2", '{"answer": "top_up"}', "top_up", "\ud800", "北", "\0")
pieces = st.sampled_from((*MARKS, *WORDS))
texts = st.one_of(st.lists(pieces, max_size=8).map("".join), st.text(max_size=40))
finishes = st.sampled_from(("stop", "length", "filter", "unknown"))


def kind(solving: Solving, text: str, finish: Finish = "stop") -> str:
    """How a reply fails; "" when it does not."""
    _, failed = outcome(read_solution, solving, Reply(text, finish, USED))
    return "" if failed is None else failed.kind


def outcome(read: Callable[..., Answer], *arguments: object) -> tuple[Answer | None, CallFailed | None]:
    """What comes of a reply, charged whatever it is."""
    failed: CallFailed | None = None
    answer: Answer | None = None
    try:
        answer = read(*arguments)
    except CallFailed as error:
        failed = error
    assert (USED if failed is None else failed.usage) == USED
    assert failed is None or failed.kind in ("empty", "truncated", "malformed", "provider")
    assert answer is None or answer.usage == USED
    return answer, failed


def proposed(text: str, finish: Finish = "stop", how: Proposing = LIST) -> str | None:
    answer = read_proposal(how, RULES, Reply(text, finish, USED))
    assert answer.usage == USED
    assert answer.value is None or isinstance(answer.value, str)
    return answer.value


def refused(text: str, finish: Finish = "stop", how: Proposing = LIST) -> str:
    with pytest.raises(CallFailed) as caught:
        proposed(text, finish, how)
    assert caught.value.usage == USED
    return caught.value.kind


@pytest.mark.parametrize("text", ["", " \n\t", "```\n\n```", "<think>so be it</think>\n", "\u2003"])
def test_a_reply_without_text_is_empty_and_charged(text: str) -> None:
    assert kind(FREE_TEXT, text) == kind(CHOICES, text) == refused(text) == "empty"


@pytest.mark.parametrize("text", ["<think>", "\n<think>one\ntwo", "<think>a</think><THINK>b", "<reasoning> so"])
def test_an_unfinished_reasoning_block_is_truncated_and_charged(text: str) -> None:
    assert kind(FREE_TEXT, text) == kind(STRICT_TEXT, text) == refused(text) == "truncated"
    assert kind(FREE_TEXT, text, "length") == refused(text, "length") == "truncated"


def test_a_reply_that_was_cut_off_is_a_solution_unless_told_not_to_and_never_a_proposal() -> None:
    assert read_solution(FREE_TEXT, Reply("half an ans", "length", USED)) == Answer("half an ans", USED)
    assert kind(STRICT_TEXT, "half an ans", "length") == "truncated"
    assert kind(CHOICES, '{"answer": "card_a', "length") == "truncated"
    assert refused("add: half a ru", "length") == refused("NONE", "length") == "truncated"
    assert kind(FREE_TEXT, "", "length") == refused("", "length") == "truncated"


def test_what_a_content_filter_withheld_has_failed() -> None:
    assert kind(FREE_TEXT, "I must not", "filter") == refused("add: x", "filter") == "provider"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>a</think>b", "b"),
        (" <Think>a\n\n</think>\n b", "\n b"),
        ("<think>a</think><reasoning>b</reasoning>c", "c"),
        ("the prompt opened it</think>b", "b"),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("Write <think>, then </think>.", "Write <think>, then </think>."),
        ("<think>x</think>Reason in <think> blocks", "Reason in <think> blocks"),
        ("<thinks>a", "<thinks>a"),
    ],
)
def test_reasoning_is_what_a_reply_begins_with(text: str, rest: str) -> None:
    assert without_reasoning(text) == rest


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("```\nadd: x\n```", "add: x"),
        ("```json\n{}\n```  ", "{}"),
        ("~~~\na\nb\n~~~", "a\nb"),
        ("````\n```\nx\n```\n````", "x"),
        ("`add: x`", "add: x"),
        ("```\na\n```\nand\n```\nb\n```", "```\na\n```\nand\n```\nb\n```"),
        ("before\n```\nx\n```", "before\n```\nx\n```"),
        ("```\nunclosed", "```\nunclosed"),
        ("a `b` c", "a `b` c"),
    ],
)
def test_a_reply_that_is_one_fence_is_what_is_in_it(text: str, inside: str) -> None:
    assert unfenced(text) == inside


@pytest.mark.parametrize("text", ["NONE", " none.\n", '"NONE"', "'None.'", "`NONE`", "**NONE**", "```\nNONE\n```"])
def test_none_declines_a_proposal_and_is_a_solution(text: str) -> None:
    assert proposed(text) is None
    assert proposed(f"<think>hm</think>{text}") is None
    assert "none" in str(read_solution(FREE_TEXT, Reply(text, "stop", USED)).value).casefold()


@pytest.mark.parametrize("text", ["NONE of these", "none, really", "nonesuch", "no"])
def test_other_words_are_no_refusal(text: str) -> None:
    assert not declines(text)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ('{"answer": "top_up"}', "top_up"),
        ('```json\n{"answer": "card_arrival"}\n```', "card_arrival"),
        ("top_up", "top_up"),
        ('"Top_Up."', "top_up"),
        ("no", "No"),
        ("I would say top_up", "I would say top_up"),
    ],
)
def test_a_choice_is_read_from_json_or_as_it_is(text: str, output: str) -> None:
    assert read_solution(CHOICES, Reply(text, "stop", USED)) == Answer(output, USED)


@pytest.mark.parametrize("text", ['{"answer": "refund"}', '{"answer": 3}', "{}", '{"answer": "top_up"', '{"a": 1}'])
def test_json_that_is_not_of_the_schema_is_malformed_and_charged(text: str) -> None:
    assert kind(CHOICES, text) == "malformed"


def test_a_schema_of_ones_own_leaves_the_json_as_it_is() -> None:
    assert read_solution(NUMBER, Reply('{"n": 1}', "stop", USED)).value == '{"n": 1}'
    assert kind(NUMBER, "[1]") == kind(NUMBER, "one") == kind(NUMBER, "{}") == kind(NUMBER, "[" * 5000) == "malformed"


def test_numbers_of_rules_become_their_keys() -> None:
    text, rules = numbered(RULES)
    keys = [rule_key(rule) for rule in rules]
    assert text == "# Playbook\n1. be brief\n2. say please"
    assert rules == ("be brief", "say please")
    entries = (("k", "be brief"), (keys[1], "say please"))
    for reply, ops in (
        ("replace 1: be long", (Replace("k", "be long"),)),
        ("- drop 2", (Drop(keys[1]),)),
        ("Drop rule #2", (Drop(keys[1]),)),
        ("* add: a: b", (Add(rule_key("a: b"), "a: b"),)),
        ("drop 3", ()),
        ("drop 0", ()),
        (f"replace {keys[1]}: x", (Replace(keys[1], "x"),)),
        ("drop 1\ndrop 2", (Drop("k"), Drop(keys[1]))),
        ("Always drop 2 hints.", (Add(rule_key("Always drop 2 hints."), "Always drop 2 hints."),)),
    ):
        assert parse(AppendRules(), entries, proposed(reply)) == ops, reply


def test_only_as_many_rules_are_numbered_as_are_paid_for() -> None:
    text, keys = numbered("\n".join(f"- rule {i}" for i in range(120)))
    assert len(keys) == 99
    assert text.split("\n")[98:100] == ["99. rule 98", "- rule 99"]


@pytest.mark.parametrize(
    ("strategy", "text", "reply"),
    [
        (AppendRules(), '{"op": "add", "number": 0, "text": "a\\nb"}', "add: a b"),
        (AppendRules(), '{"op": "replace", "number": 2, "text": "a"}', f"replace {rule_key('say please')}: a"),
        (AppendRules(), '{"op": "drop", "number": 1, "text": ""}', f"drop {rule_key('be brief')}"),
        (AppendRules(), '{"op": "none", "number": 0, "text": "a"}', None),
        (AppendRules(), '{"op": "add", "number": 0, "text": " "}', None),
        (SingleSlot(), '{"text": "a\\nb"}', "a\nb"),
        (SingleSlot(), '{"text": ""}', None),
        (KeyedRules(("tone",)), '{"key": "tone", "text": "a\\nb"}', "tone: a b"),
    ],
)
def test_a_structured_proposal(strategy: AppendRules | SingleSlot | KeyedRules, text: str, reply: str | None) -> None:
    how = proposing(strategy, structured=True)
    assert proposed(text, how=how) == reply
    assert refused('{"text": 3}', how=how) == refused("add: x", how=how) == "malformed"
    assert proposed("NONE", how=how) is None


@given(texts, finishes)
def test_whatever_a_reply_is_it_is_a_value_or_a_failure(text: str, finish: Finish) -> None:
    reply = Reply(text, finish, USED)
    for solving in (FREE_TEXT, STRICT_TEXT, CHOICES, NUMBER):
        answer, _ = outcome(read_solution, solving, reply)
        assert answer is None or answer.value.strip()
    for strategy in (AppendRules(), SingleSlot(), KeyedRules(("tone",))):
        for structured in (False, True):
            answer, failed = outcome(read_proposal, proposing(strategy, structured=structured), RULES, reply)
            assert failed is not None or finish in ("stop", "unknown")
            assert answer is None or answer.value is None or isinstance(parse(strategy, (), answer.value), tuple)


@given(texts)
def test_reading_twice_is_reading_once(text: str) -> None:
    inside = unfenced(text)
    assert unfenced(inside) == inside
    rest = without_reasoning(text)
    assert rest is None or without_reasoning(rest) == rest
    answer, _ = outcome(read_solution, FREE_TEXT, Reply(text, "stop", USED))
    if answer is not None and "<" not in answer.value:  # what is fenced may begin with reasoning of its own
        assert read_solution(FREE_TEXT, Reply(answer.value, "stop", USED)) == answer


@given(st.lists(st.sampled_from(("- a", "- b", "c", "", "- - d", "-e")), max_size=120).map("\n".join), texts)
def test_numbers_cost_what_is_reserved_for_them(rendered: str, reply: str) -> None:
    text, keys = numbered(rendered)
    assert len(text) <= len(rendered) + 9 + 2 * 90
    assert text.count("\n") == rendered.count("\n")
    assert isinstance(keyed(reply, keys), str)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=5))
def test_a_value_is_of_the_schema_that_allows_it_alone(value: object) -> None:
    schema = encoded({"const": value}, "answer_schema")
    assert schemas.decoded(msgspec.json.encode(value).decode(), schema) == value
    with pytest.raises(ValueError, match="not the value"):
        schemas.decoded('{"other": 1}', schema)


@pytest.mark.parametrize(
    "text", ["```\n" + " " * 400_000 + "a", "```\n" + "``` " * 100_000, "~~~\n" + "\t\n" * 200_000]
)
def test_a_long_text_that_is_no_fence_is_read_at_once(text: str) -> None:
    began = time.process_time()
    assert unfenced(text) == text
    assert without_reasoning("<think></think>" * 100_000 + "a") == "a"
    assert time.process_time() - began < 2.0


def test_a_fence_may_end_in_more_than_it_began_with() -> None:
    assert unfenced("```json\n{}\n`````") == "{}"


def test_choices_that_differ_in_case_alone_are_told_apart() -> None:
    labels = ("US", "us", "them")
    asked = Solving(SOLVE, TERMS, Rate(), encoded(choice_schema(labels), "choices"), labels)
    for said in ("us", " US\n", '{"answer": "us"}'):
        assert read_solution(asked, Reply(said, "stop", None)).value == said.strip().removeprefix('{"answer": "').strip(
            '"}'
        )
