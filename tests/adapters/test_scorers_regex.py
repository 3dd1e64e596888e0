"""The scorer `regex`: what a pattern may be, and that no pattern holds a run up."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.errors import UsageError
from agentdescent.ports import CallFailed, Task
from agentdescent_adapters.tasks import matching
from agentdescent_adapters.tasks.scorers import regex

LONG = "x" * (matching.LONGEST + 1)


def task(label: object) -> Task:
    return Task("t1", "prompt", {"label": label})


@pytest.mark.parametrize(
    ("pattern", "output", "score"),
    [
        ("pin", "my pin is", 1.0),
        ("^pin$", "my pin", 0.0),
        ("^pin$", "pin\n", 1.0),
        ("pin", "PIN", 0.0),
        ("(?i)pin", "PIN", 1.0),
        (r"^(?:yes|no)\.?$", "no.", 1.0),
        (r"^(?:yes|no)\.?$", "no way", 0.0),
        (r"\b4[0-9]\b.*北京", "it is 42 in 北京 😀", 1.0),
        (r"a.*b", "a\nb", 0.0),
        (r"(?s)a.*b+", "a\nb", 1.0),
        ("a|b|\x00", "\x00", 1.0),
        ("^" + LONG[1:] + "x$", LONG, 1.0),
        ("^y", LONG + "y", 0.0),
        (7, "so 7", 1.0),
    ],
)
def test_regex(pattern: object, output: str, score: float) -> None:
    assert regex(task(pattern), output) == score


@given(
    st.lists(st.sampled_from(["a", "b", "(?:ab)", "[ab]", ".", "a+", "b*", "(?:a|b)", "\\+", "^", "$"]), max_size=4),
    st.text("ab+", max_size=6),
)
def test_it_is_what_re_finds_here_or_in_another_process(parts: list[str], output: str) -> None:
    pattern = "".join(parts) or "a"
    assert regex(task(pattern), output) == float(re.search(pattern, output) is not None)


@pytest.mark.parametrize("pattern", ["(a", "[", "a**", "(?P<n>a)(?P<n>b)", "\\", "a{99999999999999999999}"])
def test_a_pattern_that_is_none_names_its_task(pattern: str) -> None:
    with pytest.raises(UsageError, match=r"^the label .* of task 't1' is no regular expression: \S"):
        regex(task(pattern), "a")


@pytest.mark.parametrize(
    ("pattern", "output"),
    [("(a+)+b", "a" * 64), ("(a|a)*b", "a" * 64), (".*.*.*.*b", "a" * 20_000), ("(a|aa)+$", "a" * 64 + "b")],
)
def test_a_search_without_end_is_ended(pattern: str, output: str) -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"not found out in 0\.5 s"):
        matching.found(pattern, output, seconds=0.5)
    assert time.monotonic() - began < 30


def test_the_failure_is_the_scorers(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(pattern: str, text: str) -> bool:
        raise TimeoutError("not found out in 5 s")

    monkeypatch.setattr(matching, "found", endless)
    with pytest.raises(CallFailed, match=r"the pattern '\(a\+\)\+b' of task 't1': not found out in 5 s") as caught:
        regex(task("(a+)+b"), "a")
    assert (caught.value.kind, caught.value.usage, caught.value.retry_after) == ("scorer", None, None)


@pytest.mark.parametrize("pattern", ["a*b", ".*b", "a+$", "(?i)[a-z]*0", "a?b"])
def test_what_is_searched_here_is_quick(pattern: str) -> None:
    """At most quadratic in the 5,000 characters that are searched without a process: tenths of a second."""
    began = time.process_time()
    assert not matching.found(pattern, "a" * (matching.LONGEST - 1) + "!")
    assert time.process_time() - began < 5
