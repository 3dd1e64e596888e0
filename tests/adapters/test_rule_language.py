"""The rule language: what is a rule, when it holds, and which of several answers."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentdescent.artifact.diff import Add
from agentdescent.artifact.strategy import AppendRules, render, rule_key
from agentdescent.artifact.strategy import parse as parse_reply
from agentdescent.record import replace
from agentdescent_adapters.rules.language import Rule, answer, fold, parse, read, size, words, write

WORDS = ("pin", "card", "change", "new", "北京", "straße", "don't", "2")
phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(lambda found: fold(" ".join(found)))
conditions = st.lists(phrases, max_size=3, unique=True).map(tuple)
labels = st.sampled_from(("change_pin", "new card", "größe", "otherwise", 'a "quoted" label'))
messages = st.lists(st.sampled_from((*WORDS, "pins", "the")), max_size=8).map(" ".join)
lines = st.builds(write, labels, conditions, conditions)


def answered(rules: str, message: str) -> str | None:
    found = answer(parse(rules), fold(message))
    return None if found is None else found.label


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ('if "pin" then change_pin', Rule("change_pin", (" pin ",))),
        ('If Contains "PIN" AND "Change" Then change_pin', Rule("change_pin", (" pin ", " change "))),
        ('if "new  card" and not "old, card" then new card', Rule("new card", (" new card ",), (" old card ",))),
        ('if not "pin" then other', Rule("other", (), (" pin ",))),
        ('if "pin" and "Pin" then twice', Rule("twice", (" pin ",))),
        ('if "a" then if "b" then c', Rule('if "b" then c', (" a ",))),
        ("otherwise 其他 😀", Rule("其他 😀")),
        ("otherwise " + "x" * 128, Rule("x" * 128)),
    ],
)
def test_lines_that_are_rules(line: str, rule: Rule) -> None:
    assert read(line) == Rule(rule.label, rule.has, rule.lacks, line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Be polite.",
        'if "pin" then',
        'if "pin" then ',
        "if pin then change_pin",
        'if "pin" or "code" then change_pin',
        'if "pin" "code" then change_pin',
        'if "?!" then change_pin',
        'if "" then change_pin',
        'if "pin then change_pin',
        'when "pin" then change_pin',
        "otherwise",
        "otherwise " + "x" * 129,
        "otherwise " + "ß" * 65,
    ],
)
def test_lines_that_are_none(line: str) -> None:
    assert read(line) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("My PIN, please!", ["my", "pin", "please"]),
        ("STRASSE Straße", ["strasse", "strasse"]),
        ("I don't, don’t", ["i", "don't", "don't"]),
        ("'quoted' o'clock'", ["quoted", "o'clock"]),
        ("in北京today", ["in", "北", "京", "today"]),
        ("card💳💳lost", ["card", "💳", "💳", "lost"]),
        (unicodedata.normalize("NFD", "Zürich café"), ["zürich", "café"]),
        ("a\x00b\r\nc\u2028d", ["a", "b", "c", "d"]),
        ("order_7 4.95", ["order_7", "4", "95"]),
        (" \t?!", []),
    ],
)
def test_words(text: str, found: list[str]) -> None:
    assert words(text) == found


@pytest.mark.parametrize(
    ("phrase", "message", "holds"),
    [
        ("pin", "my pin", True),
        ("pin", "pinned pins, spin", False),
        ("change my pin", "please CHANGE  my\npin.", True),
        ("change my pin", "change pin my", False),
        ("北京", "我在北京", True),
        ("京北", "我在北京", False),
        ("💳", "lost my 💳!", True),
        ("GRÖSSE", "die größe passt nicht", True),
    ],
)
def test_a_phrase_holds_on_whole_words(phrase: str, message: str, holds: bool) -> None:
    assert answered(f'# Title\n- if "{phrase}" then yes\n- otherwise no', message) == ("yes" if holds else "no")


@pytest.mark.parametrize(
    ("message", "label"),
    [
        ("nothing of it", "rest"),
        ("a card", "card"),
        ("a new card", "new card"),
        ("a card that is new", "both"),
        ("a card, new pin", "later"),
        ("pin", "late"),
        ("pin of mine", "early"),
        ("", "rest"),
    ],
)
def test_the_most_specific_answers_and_of_equals_the_later(message: str, label: str) -> None:
    rules = """# Rules, of which these two lines are none
otherwise nobody
- otherwise replaced
- if "card" then card
- if "card" and "that" then both
- if "new card" then new card
- if "pin" then early
- if "pin" and not "mine" then late
- if "new" and "pin" then earlier
- if "card" and "new pin" then later
- Be polite.
- otherwise rest"""
    assert answered(rules, message) == label


def test_without_rules_there_is_no_answer() -> None:
    assert answered("# Playbook", "anything") is None
    assert answered("", "") is None


def test_only_the_given_labels_answer() -> None:
    rules = '- if "pin" and "new" then unknown label\n- if "pin" then change_pin\n- otherwise nothing'
    alone = parse('- if "pin" then change_pin')
    assert parse(rules, ["change_pin"]) == replace(alone, size=size(rules))


@given(labels, conditions, conditions)
@example("otherwise", (), ())
def test_what_is_written_is_read(label: str, has: tuple[str, ...], lacks: tuple[str, ...]) -> None:
    line = write(label, has, lacks)
    assert read(line) == Rule(label, has, lacks, line)


@given(lines)
def test_a_rule_survives_the_artifact(line: str) -> None:
    strategy = AppendRules()
    ops = parse_reply(strategy, (), f"add: {line}")
    assert ops == (Add(rule_key(line), line),)
    rendered = render(strategy, ((rule_key(line), line),))
    rules = parse(rendered)
    assert (*rules.rules, rules.default) in ((read(line), None), (read(line),))
    assert rules.size == len(rendered.encode())


@given(st.lists(lines, max_size=6), messages)
def test_the_answer_is_that_of_the_largest_rank(bullets: list[str], message: str) -> None:
    said = fold(message)
    holding = [
        (rule.rank, bool(rule.has or rule.lacks), at, rule.label)
        for at, rule in enumerate(filter(None, map(read, bullets)))
        if all(phrase in said for phrase in rule.has) and not any(phrase in said for phrase in rule.lacks)
    ]
    expected = max(holding, key=lambda one: (one[1], one[0], one[2]))[3] if holding else None
    assert answered("\n".join(f"- {bullet}" for bullet in bullets), message) == expected


@given(st.lists(lines, max_size=5), labels, conditions.filter(bool), phrases, messages)
def test_an_exclusion_only_takes_messages_away(
    bullets: list[str], label: str, has: tuple[str, ...], lacks: str, message: str
) -> None:
    wide = [*bullets, write(label, has)]
    narrow = [*bullets, write(label, has, (lacks,))]
    before, after = (answer(parse("\n".join(f"- {line}" for line in each)), fold(message)) for each in (wide, narrow))
    if after is not None and after.text == narrow[-1]:
        assert before is not None
        assert before.text == wide[-1]


@given(st.text())
def test_any_text_is_a_list_of_rules(text: str) -> None:
    rules = parse(text)
    assert rules.size == size(text) == len(text.encode("utf-8", "surrogatepass"))
    assert answer(rules, fold(text)) in (None, rules.default, *rules.rules)
