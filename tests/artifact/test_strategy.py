"""From a reply to ops and from entries to text: exact for every strategy, total for every input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import AppendRules, KeyedRules, SingleSlot
from agentdescent.artifact.diff import (
    Add,
    Drop,
    Entries,
    Ops,
    Replace,
    change,
    contradict,
    digest,
    identity,
    union,
)
from agentdescent.artifact.strategy import Strategy, normalise, oversized, parse, render, rule_key

RULES = AppendRules()
SLOT = SingleSlot(min_chars=3)
KEYED = KeyedRules(("Style", "facts"))
HELD: Entries = (("k1", "be brief"), ("k2", "cite sources"))
TEXT = st.text(max_size=60)
KEYS = st.sampled_from(["a", "b", "c", "k1"])
OP = st.one_of(
    st.builds(Add, KEYS, st.sampled_from(["x", "y"])),
    st.builds(Replace, KEYS, st.sampled_from(["x", "y"])),
    st.builds(Drop, KEYS),
)
OPS = st.lists(OP, max_size=5).map(tuple)
ENTRIES = st.lists(st.tuples(KEYS, st.sampled_from(["x", "y", "z"])), max_size=4, unique_by=lambda entry: entry[0]).map(
    tuple
)


# --- rendering --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "entries", "text"),
    [
        (RULES, (), "# Playbook"),
        (RULES, HELD, "# Playbook\n- be brief\n- cite sources"),
        (RULES, HELD[::-1], "# Playbook\n- cite sources\n- be brief"),
        (SLOT, (), ""),
        (SLOT, (("text", " as it is\r\n"),), " as it is\r\n"),
        (KEYED, (), "# Playbook"),
        (KEYED, (("style", "calm"), ("facts", "two")), "# Playbook\n\n## style\ncalm\n\n## facts\ntwo"),
    ],
)
def test_what_an_agent_reads(strategy: Strategy, entries: Entries, text: str) -> None:
    assert render(strategy, entries) == text


# --- replies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [None, "", "  \n\t ", "NONE", "none", " None \n"])
@pytest.mark.parametrize("strategy", [RULES, SLOT, KEYED])
def test_replies_that_propose_nothing(strategy: Strategy, reply: str | None) -> None:
    assert parse(strategy, HELD, reply) == ()


@pytest.mark.parametrize(
    ("reply", "ops"),
    [
        ("Check   the\nunits.", (Add(rule_key("check the units."), "Check the units."),)),
        ("add: Check the units.", (Add(rule_key("Check the units."), "Check the units."),)),
        ("ADD :  one\nadd: two", (Add(rule_key("one"), "one"), Add(rule_key("two"), "two"))),
        ("replace k1: be  very brief", (Replace("k1", "be very brief"),)),
        ("drop k2", (Drop("k2"),)),
        ("I would say:\n  drop k2  \nand\nadd: new", (Drop("k2"), Add(rule_key("new"), "new"))),
        ("replace k1: be brief", ()),
        ("replace k9: no such key", ()),
        ("drop k9", ()),
        ("drop k1\ndrop k1", (Drop("k1"),)),
        ("drop k1\nreplace k1: other", (Replace("k1", "other"),)),
        ("drop k1 please", (Add(rule_key("drop k1 please"), "drop k1 please"),)),
        ("add:", ()),
        ("北京 🌍", (Add(rule_key("北京 🌍"), "北京 🌍"),)),
    ],
)
def test_the_grammar_of_rules(reply: str, ops: Ops) -> None:
    assert parse(RULES, HELD, reply) == ops


def test_a_rule_already_there_is_no_proposal() -> None:
    held = ((rule_key("Be brief"), "Be brief"),)
    assert parse(RULES, held, "be  BRIEF") == (Add(rule_key("Be brief"), "be BRIEF"),)
    assert parse(RULES, held, "Be brief") == ()


def test_a_rule_can_be_named_by_its_key_or_by_what_it_says_now() -> None:
    held = (("k1", "be brief"),)
    assert parse(RULES, held, f"drop {rule_key('be brief')}") == (Drop("k1"),)
    assert parse(RULES, held, f"replace {rule_key('be brief')}: be long") == (Replace("k1", "be long"),)


@pytest.mark.parametrize(
    ("reply", "ops"),
    [
        ("a new text\nof two lines", (Add("text", "a new text\nof two lines"),)),
        ("  padded  ", (Add("text", "padded"),)),
        ("ab", ()),
        ("old", ()),
    ],
)
def test_a_single_slot_is_replaced_whole(reply: str, ops: Ops) -> None:
    assert parse(SLOT, (("text", "old"),), reply) == ops


@pytest.mark.parametrize(
    ("reply", "ops"),
    [
        ("style: calm", (Add("style", "calm"),)),
        ("STYLE :  very   calm", (Add("style", "very calm"),)),
        ("style: calm\nFacts: two", (Add("style", "calm"), Add("facts", "two"))),
        ("tone: warm", (Add(rule_key("tone: warm"), "tone: warm"),)),
        ("drop style", (Drop("style"),)),
        ("style: old", ()),
    ],
)
def test_categories_are_keys(reply: str, ops: Ops) -> None:
    assert parse(KEYED, (("style", "old"),), reply) == ops


def test_keys_follow_words_not_case_or_spacing() -> None:
    assert rule_key("Check  the\nUNITS") == rule_key("check the units") == digest(b"check the units")[:8]
    assert rule_key("check the unit") != rule_key("check the units")
    assert normalise(" a \t b\n") == "a b"


# --- the trust region -------------------------------------------------------------------------------------------------


def test_what_is_too_large_stays_recognisable_and_bounded() -> None:
    many = "\n".join(f"add: rule {n}" for n in range(40))
    ops = parse(RULES, (), many)
    assert (len(ops), oversized(RULES, ops)) == (7, True)
    (one,) = parse(RULES, (), "x" * 500_000)
    assert isinstance(one, Add)
    assert (len(one.text), oversized(RULES, (one,))) == (32_001, True)
    assert not oversized(RULES, parse(RULES, (), "\n".join(f"add: rule {n}" for n in range(6))))
    assert not oversized(RULES, parse(RULES, (), "y" * 32_000))
    assert not oversized(RULES, (Drop("k" * 40_000),))


@given(TEXT, st.sampled_from([RULES, SLOT, KEYED]))
def test_any_reply_gives_ops_that_change_what_is_read(reply: str, strategy: Strategy) -> None:
    for entries in ((), HELD, (("text", "old"),)):
        ops = parse(strategy, entries, reply)
        assert len({op.key for op in ops}) == len(ops) <= 7
        for op in ops:
            assert change(entries, (op,)) != entries


# --- ops --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ops", "after"),
    [
        ((), HELD),
        ((Add("k3", "new"),), (*HELD, ("k3", "new"))),
        ((Add("k1", "new"),), (("k1", "new"), HELD[1])),
        ((Replace("k2", "new"),), (HELD[0], ("k2", "new"))),
        ((Replace("k3", "new"),), HELD),
        ((Drop("k1"),), HELD[1:]),
        ((Drop("k3"),), HELD),
        ((Drop("k1"), Add("k1", "back")), (HELD[1], ("k1", "back"))),
    ],
)
def test_change(ops: Ops, after: Entries) -> None:
    assert change(HELD, ops) == after


@pytest.mark.parametrize(
    ("a", "b", "contrary"),
    [
        ((Add("k", "x"),), (Add("k", "y"),), True),
        ((Add("k", "x"),), (Replace("k", "x"),), False),
        ((Add("k", "x"),), (Drop("k"),), True),
        ((Drop("k"),), (Drop("k"),), False),
        ((Add("k", "x"),), (Add("l", "y"),), False),
        ((), (Drop("k"),), False),
    ],
)
def test_contradictions(a: Ops, b: Ops, contrary: bool) -> None:
    assert (contradict(a, b), contradict(b, a)) == (contrary, contrary)


def test_identity_is_of_the_ops_whatever_their_order() -> None:
    one, two = Add("a", "x"), Drop("b")
    assert identity((one, two)) == identity((two, one))
    assert identity((one,)) != identity((Replace("a", "x"),))
    assert identity((one,)) != identity((one, two))


@given(ENTRIES, OPS, OPS)
def test_a_union_of_complements_does_what_both_do(entries: Entries, a: Ops, b: Ops) -> None:
    first = tuple({op.key: op for op in a}.values())
    second = tuple(op for op in {op.key: op for op in b}.values() if op.key not in {one.key for one in first})
    assert not contradict(first, second)
    assert union((first, second)) == (*first, *second)
    assert change(entries, union((first, second))) == change(change(entries, first), second)


@given(ENTRIES, OPS)
def test_ops_touch_nothing_but_their_keys(entries: Entries, ops: Ops) -> None:
    after, touched = change(entries, ops), {op.key for op in ops}
    assert [entry for entry in after if entry[0] not in touched] == [
        entry for entry in entries if entry[0] not in touched
    ]
    assert len({key for key, _ in after}) == len(after)
