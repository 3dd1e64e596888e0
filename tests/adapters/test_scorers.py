"""Scorers: what counts as right, and how a user names his own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.errors import UsageError
from agentdescent.ports import Task
from agentdescent_adapters.tasks.scorers import Scorer, choice, contains, exact, number, regex, scorer


def task(label: object) -> Task:
    return Task("t1", "prompt", {"label": label})


@pytest.mark.parametrize(
    ("label", "output", "score"),
    [
        ("pin", "pin", 1.0),
        ("pin", " pin\r\n", 1.0),
        (" pin", "pin", 1.0),
        ("pin", "Pin", 0.0),
        ("pin", "pin.", 0.0),
        ("pin", "", 0.0),
        ("北京 😀", "北京 😀", 1.0),
        (42, "42", 1.0),
    ],
)
def test_exact(label: object, output: str, score: float) -> None:
    assert exact(task(label), output) == score


@pytest.mark.parametrize(
    ("label", "output", "score"),
    [("pin", "It is PIN.", 1.0), ("Straße", "die STRASSE", 1.0), ("pin", "p in", 0.0), ("pin ", "pin", 1.0)],
)
def test_contains(label: str, output: str, score: float) -> None:
    assert contains(task(label), output) == score


@pytest.mark.parametrize(
    ("label", "output", "score"),
    [
        ("42", "the answer is 42", 1.0),
        ("so 3 and 4 make\n#### 7", "7", 1.0),
        ("1,000", "$1000.00", 1.0),
        ("-5", "x = -5.", 1.0),
        ("5", "10-5", 1.0),
        ("0.5", "it is .5", 1.0),
        ("1234567", "1,234,567 in all", 1.0),
        ("42", "42, or rather 43", 0.0),
        ("42", "none", 0.0),
        ("42", "", 0.0),
        ("2", "v2", 0.0),
        ("5", "-5", 0.0),
        ("5", "5e0 is odd", 1.0),
        ("-5", "x = \u22125", 1.0),
        ("5", "x = \u22125", 0.0),
        ("42", "**42**", 1.0),
        ("1,250", "\\boxed{1250}", 1.0),
    ],
)
def test_number(label: str, output: str, score: float) -> None:
    assert number(task(label), output) == score


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9))
def test_a_number_is_the_same_however_it_is_written(value: object) -> None:
    assert number(task(str(value)), f"so it is {value:,}!") == 1.0


@pytest.mark.parametrize("score", [contains, regex])
def test_an_empty_label_would_be_found_anywhere(score: Callable[[Task, str], float]) -> None:
    with pytest.raises(UsageError, match="the label of task 't1' is empty: fill it in"):
        score(task(" "), "output")


@pytest.mark.parametrize(
    ("name", "label"), [("exact", None), ("contains", ""), ("number", "many"), ("regex", "(a"), ("choice", "?")]
)
def test_labels_are_checked_before_anything_is_spent(name: str, label: str | None) -> None:
    named = scorer(name)
    assert isinstance(named, Scorer)
    named.check([Task("t0", "", {"label": "b"})] if name != "number" else [Task("t0", "", {"label": "7"})])
    with pytest.raises(UsageError, match="task 't1'"):
        named.check([Task("t1", "", {"label": label})])


def test_a_label_without_a_number() -> None:
    with pytest.raises(UsageError, match="label of task 't1' has no number"):
        number(task("many"), "42")


@pytest.mark.parametrize("score", [exact, contains, number, regex, choice])
@pytest.mark.parametrize("meta", [{}, {"label": None}])
def test_a_task_without_a_label(score: object, meta: dict[str, object]) -> None:
    assert callable(score)
    with pytest.raises(UsageError, match=r"task 't1' has no meta\['label'\]"):
        score(Task("t1", "prompt", meta), "output")


@given(st.text(max_size=50).filter(str.strip), st.text(max_size=50))
def test_any_output_can_be_scored(label: str, output: str) -> None:
    assert exact(task(label), output) in (0.0, 1.0)
    assert contains(task(label), output) in (0.0, 1.0)
    assert number(task("7"), output) in (0.0, 1.0)


@pytest.mark.parametrize(
    ("name", "found"),
    [("exact", exact), ("contains", contains), ("number", number), ("regex", regex), ("choice", choice)],
)
def test_scorers_have_names(name: str, found: Callable[[Task, str], float]) -> None:
    named = scorer(name)
    assert isinstance(named, Scorer)
    assert (named.name, named.blocking, named.bills) == (name, name == "regex", False)
    for output in ("7", "7.0", "so 7", ""):
        assert named(task("7"), output) == found(task("7"), output)


def test_a_scorer_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_rewards_of_test.py").write_text(
        "def half(task, output): return 0.5\nclass Better:\n    @staticmethod\n    def full(task, output): return 1.0\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_rewards_of_test", raising=False)
    assert scorer("my_rewards_of_test:half")(task("x"), "y") == 0.5
    assert scorer("my_rewards_of_test:Better.full")(task("x"), "y") == 1.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "exacct",
            "no scorer 'exacct': name one of exact, contains, number, regex, choice or a function as module:function",
        ),
        ("", "no scorer '': name one of exact, contains, number, regex, choice or a function as module:function"),
        (":f", "scorer ':f': name it as module:attribute"),
        ("math:", "scorer 'math:': name it as module:attribute"),
        ("math:nope", "scorer 'math:nope': module 'math' has no attribute 'nope'"),
        ("math:pi", "scorer 'math:pi' cannot be called: name a function of (task, output)"),
        (
            "no_such_module_here:f",
            "scorer 'no_such_module_here:f': importing no_such_module_here failed: "
            "ModuleNotFoundError: No module named 'no_such_module_here'",
        ),
    ],
)
def test_names_of_no_scorer(name: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        scorer(name)
    assert str(caught.value) == message
