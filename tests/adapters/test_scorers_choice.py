"""The scorer `choice`: the forms in which models name an option, and what names none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.errors import UsageError
from agentdescent.ports import Task
from agentdescent_adapters.tasks.scorers import choice

PROMPT = "Which is the capital?\nA) Paris\nB) London\nC) New York\nD) York"
LISTED = Task("t1", PROMPT, {"label": "B"})
BARE = Task("t1", "Which is the capital?", {"label": "B"})
TEXT = Task("t1", "Which is the capital?", {"label": "London"})

BY_LETTER = (
    *("B", "b", " B\n", "(b)", "[B]", "B.", "b)", "B:", "**B**", "'B'", "- B", "\\(B\\)", "$B$", "\\boxed{B}"),
    *("B) London", "B. London", "B: London", "(b) London", "Option B", "option (b)", "Choice: B"),
    *(
        "Answer: B.",
        "answer: b",
        "ANSWER IS B",
        "The answer is **(B)**.",
        "The correct answer is option B",
        "Answer:\nB",
    ),
    *("Final answer: $\\boxed{\\text{B}}$", "The answer is B because A is wrong", "I choose B", "so (B) it is"),
    *("B\n\nA is a town. C is wrong", "Answer: A\nNo, wait. Answer: B", "B is the right answer because A is small"),
)
BY_TEXT = ("London", "london.", "**London**", "Answer: London", "The answer is: london!")
NOTHING = (
    *("", " ", "the", "a dog", "Neither", "I do not know", "Answer:", "e.g. this", "BB", "A-B test"),
    *("A", "C) New York", "I think C", "Answer: not sure", "Answer: B\nNo. Answer: D"),
)
SEVERAL = (
    *("B or C", "A or B", "B and A", "A/B", "B, C", "(b) or (c)", "both A and B", "Answer: B or C", "B & D"),
    *("A) Paris\nB) London", "B) London or A) Paris", "B) London and (C) New York", "B\nC", "I think B, then C"),
)


@pytest.mark.parametrize("output", BY_LETTER)
@pytest.mark.parametrize("task", [LISTED, BARE])
def test_an_option_named_by_its_letter(task: Task, output: str) -> None:
    assert choice(task, output) == 1.0


@pytest.mark.parametrize("output", [*BY_TEXT, "It is London.", "B) London"])
def test_an_option_named_by_its_text(output: str) -> None:
    assert choice(LISTED, output) == 1.0


@pytest.mark.parametrize("output", [*BY_TEXT, "B) London", "(b) London"])
def test_a_text_for_a_label_without_options(output: str) -> None:
    assert choice(TEXT, output) == 1.0


@pytest.mark.parametrize("output", [*NOTHING, *SEVERAL])
@pytest.mark.parametrize("task", [LISTED, BARE])
def test_no_option_or_another_or_several(task: Task, output: str) -> None:
    assert choice(task, output) == 0.0


@pytest.mark.parametrize("output", ["Paris", "Londonderry", "London and Paris", "not that", ""])
def test_another_text(output: str) -> None:
    assert choice(LISTED, output) == choice(TEXT, output) == 0.0


@pytest.mark.parametrize(
    ("output", "letter"), [("York", "D"), ("It is York.", "D"), ("New York", "C"), ("new york city", "C"), ("D", "D")]
)
@pytest.mark.parametrize("given_as", ["letter", "text"])
def test_a_text_within_another(output: str, letter: str, given_as: str) -> None:
    text = {"C": "New York", "D": "york."}[letter]
    assert choice(Task("t1", PROMPT, {"label": letter if given_as == "letter" else text}), output) == 1.0


def test_options_of_the_tasks_own() -> None:
    meta = {"label": "a dog", "choices": ["a cat", "a cow", "a dog"]}
    task = Task("t1", "What barks?", meta)
    assert [choice(task, output) for output in ("C", "A dog", "a dog barks", "A", "a cat", "A cat or a dog")] == [
        *(1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    ]
    # A letter that is no option is not one: "Vitamin D" names nothing here.
    assert choice(task, "Vitamin D (C)") == 1.0


@pytest.mark.parametrize(
    ("prompt", "meta", "message"),
    [
        (PROMPT, {"label": "E"}, r"label 'E' of task 't1' names none of its options A, B, C, D: make it the letter"),
        (PROMPT, {"label": "Rome"}, "label 'Rome' of task 't1' names none of its options A, B, C, D"),
        ("A) x\nB) x", {"label": "x"}, "label 'x' of task 't1' names none of its options A, B"),
        ("?", {"label": "!"}, r"label '!' of task 't1' names none of its options \(none\)"),
        (
            "?",
            {"label": "A", "choices": "AB"},
            r"task 't1': meta\['choices'\] is no list of 2 to 26 texts: make it one",
        ),
        ("?", {"label": "A", "choices": ["one"]}, r"meta\['choices'\] is no list of 2 to 26 texts"),
    ],
)
def test_labels_that_are_no_option(prompt: str, meta: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        choice(Task("t1", prompt, meta), "A")


FORMS = (
    *("{}", "({})", "{}.", "{})", "Answer: {}", "The answer is {}.", "the answer is ({}) because of it", "**{}**"),
    *("{}) {text}", "{}. {text}", "({}) {text}", "I pick option {}.", "Reasoning first.\nAnswer: {}", "\\boxed{{{}}}"),
)
options = st.lists(st.from_regex(r"[a-z]{2,6}( [a-z]{2,6}){0,2}", fullmatch=True), min_size=2, max_size=8, unique=True)


@given(options, st.data())
def test_every_form_names_the_option_and_no_other(texts: list[str], data: st.DataObject) -> None:
    right = data.draw(st.integers(0, len(texts) - 1))
    said = data.draw(st.integers(0, len(texts) - 1))
    task = Task("t1", "?", {"label": chr(65 + right), "choices": texts})
    output = data.draw(st.sampled_from(FORMS)).format(chr(65 + said), text=texts[said])
    assert choice(task, output) == float(right == said)


@given(options, st.data(), st.sampled_from(["{} or {}", "{}/{}", "({}) and ({})", "Answer: {}, {}", "{}) x\n{}) y"]))
def test_two_options_are_none(texts: list[str], data: st.DataObject, form: str) -> None:
    one, other = data.draw(st.lists(st.sampled_from(range(len(texts))), min_size=2, max_size=2, unique=True))
    output = form.format(chr(65 + one), chr(65 + other))
    for label in (one, other):
        assert choice(Task("t1", "?", {"label": chr(65 + label), "choices": texts}), output) == 0.0


@given(st.text(max_size=60))
def test_any_output_can_be_scored(output: str) -> None:
    for task in (LISTED, BARE, TEXT):
        assert choice(task, output) in (0.0, 1.0)


@pytest.mark.parametrize("piece", ["answer ", "A, ", "(b) ", "A or ", " ", "B\n"])
def test_the_ends_of_a_long_output_count(piece: str) -> None:
    assert choice(LISTED, piece * 200_000 + "\nAnswer: B") == 1.0
    assert choice(LISTED, "Answer: B\n" + "?" * 1_000_000) == 1.0
