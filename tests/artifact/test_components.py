"""Named texts: what is rendered reads back exactly, and a reply changes what it names and nothing else."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Caps, Components, Setup, Spec, UsageError
from agentdescent.artifact.diff import Entries, Ops, Replace, change
from agentdescent.artifact.strategy import components, oversized, parse, render
from agentdescent.engine.spec import TaskInfo
from agentdescent.engine.validation import check
from tests.strategies import STRATEGIES

NAMED = Components()
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ENTRIES = st.lists(st.tuples(TEXT, TEXT), max_size=5, unique_by=lambda entry: entry[0]).map(tuple)
HELD: Entries = (("Query Writer", " Be brief.\r\n\n```x```"), ("query writer", ""), ("judge", "北京 🌍\x00"))


def reply(**texts: str) -> str:
    return msgspec.json.encode(texts).decode()


@given(ENTRIES)
def test_what_is_rendered_reads_back_to_the_character_and_in_order(entries: Entries) -> None:
    assert tuple(components(render(NAMED, entries)).items()) == entries


@given(ENTRIES, st.data())
def test_a_reply_gives_the_texts_it_names(entries: Entries, data: st.DataObject) -> None:
    wanted = tuple((name, data.draw(st.one_of(st.just(text), TEXT.filter(bool)))) for name, text in entries)
    ops = parse(NAMED, entries, render(NAMED, wanted))
    assert change(entries, ops) == wanted
    assert len(ops) == sum(new != old for (_, new), (_, old) in zip(wanted, entries, strict=True))


@given(ENTRIES, TEXT)
def test_nothing_else_comes_of_any_reply(entries: Entries, text: str) -> None:
    ops = parse(NAMED, entries, text)
    assert all(isinstance(op, Replace) for op in ops)
    assert [name for name, _ in change(entries, ops)] == [name for name, _ in entries]


def test_names_and_texts_are_as_they_are() -> None:
    assert components(render(NAMED, HELD)) == dict(HELD)
    assert render(NAMED, ()) == "{}"


@pytest.mark.parametrize(
    ("text", "ops"),
    [
        (reply(judge="Be strict.\n"), (Replace("judge", "Be strict.\n"),)),
        (
            f"  {reply(judge='a', **{'Query Writer': 'b'})}\n",
            (Replace("judge", "a"), Replace("Query Writer", "b")),
        ),
        (reply(judge="北京 🌍\x00"), ()),
        (reply(judge=""), ()),
        (reply(jury="Be strict."), ()),
        ("NONE", ()),
        ("Be strict.", ()),
        ('{"judge": "Be', ()),
        ('{"judge": 1}', ()),
        ('{"judge": "a", "Query Writer": null}', ()),
        ('["judge"]', ()),
        ('{"judge": "\ud800"}', ()),
        (r'{"judge": "\ud800"}', ()),
        ('{"judge": "a", "judge": "b"}', (Replace("judge", "b"),)),
    ],
)
def test_the_grammar_of_components(text: str, ops: Ops) -> None:
    assert parse(NAMED, HELD, text) == ops


def test_the_trust_region_is_that_of_every_strategy() -> None:
    held = tuple((f"c{n}", "old") for n in range(40))
    ops = parse(NAMED, held, render(NAMED, tuple((name, "new") for name, _ in held)))
    assert (len(ops), oversized(NAMED, ops)) == (7, True)
    (one,) = parse(NAMED, held, reply(c0="x" * 500_000))
    assert isinstance(one, Replace)
    assert (len(one.text), oversized(NAMED, (one,))) == (32_001, True)
    assert not oversized(NAMED, parse(NAMED, held, reply(c0="x" * 32_000)))


def test_it_is_written_to_the_log_and_read_back() -> None:
    spec = Spec(strategy=Components(max_ops=9))
    assert b'"strategy":{"type":"components","max_ops":9}' in msgspec.json.encode(spec)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=Spec) == spec
    assert NAMED in STRATEGIES, "runs of every kind are made with it"


def test_without_a_start_there_is_nothing_to_change() -> None:
    tasks = tuple(TaskInfo(f"t{n}", 1, "0" * 32) for n in range(4))
    spec = Spec(strategy=NAMED, caps=Caps(rounds=1))
    with pytest.raises(UsageError, match="give artifact="):
        check(spec, Setup(tasks))
    assert check(spec, Setup(tasks, (("judge", ""),))) is not None
