"""The option that an answer to a multiple-choice question names.

It is looked for in the statement of an output: what follows its last "answer" on that line or the next ("Answer: B.",
"the answer is (b) because ..."), all of it when there is none. A letter at the beginning of a line ("B", "(b)",
"B) text") counts before the text of an option and a letter anywhere ("I choose B"). What names several options
("B or C", a list of them all) names none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_uppercase

from agentdescent.errors import UsageError
from agentdescent.ports import Task

_EDGE = 10_000
"""Characters at the beginning and at the end of a long output that are looked at."""

_MARKUP = re.compile(r"\\(?:boxed|text|mathrm|mathbf)\b|\\(?=[()\[\]])|[*_`$#{}]")
_MARK = re.compile(r"\banswers?\b(?:\s+(?:is|was|would\s+be|must\s+be|should\s+be)\b)?[\s:=]*", re.IGNORECASE)
_BULLET = re.compile(r"[\s>•\"'“-]*(?:(?:option|choice|letter)\b[\s:]*)?", re.IGNORECASE)

_BRACKETED = r"(?<!\w)[(\[][A-Za-z][)\]]"
_LEADING = re.compile(rf"{_BRACKETED}|[A-Za-z](?=[).:\]](?:\s|$)|\W*$)")
_BARE = re.compile(r"[A-Z](?![\w'’-])")
# "A" and "I" are words: as letters they count with something behind them.
_ANYWHERE = re.compile(rf"{_BRACKETED}|(?<![\w'’-])(?:[B-HJ-Z](?![\w'’-])|[AI](?=[.,;:!?)\]]|\s*$))", re.MULTILINE)
_ONE = r"[(\[]?[A-Z][)\]]?"
_SEVERAL = re.compile(rf"(?<![\w'’-]){_ONE}(?:\s*(?:[,/&]|\bor\b|\band\b)\s*(?:(?:or|and)\s+)?{_ONE}(?![\w'’-]))+")
_JOINED = re.compile(r"\b(?:or|and)\s+(?:[(\[][A-Za-z][)\]]|[A-Z][).](?=\s|$))")
_LISTED = re.compile(r"^[ \t]*(?:\(([A-Z])\)|([A-Z])[).:])[ \t]+(\S.*)$", re.MULTILINE)


def options_of(task: Task) -> Mapping[str, str]:
    """The options of a task by letter: meta["choices"], a list of texts for A, B, ..., or else the lines of its prompt
    that begin with "A)", "(A)", "A." or "A:"; empty when there are neither. UsageError for choices that are none."""
    choices = task.meta.get("choices")
    if choices is None:
        listed = {one or other: text.strip() for one, other, text in _LISTED.findall(task.prompt)}
        return listed if len(listed) > 1 and "".join(listed) == ascii_uppercase[: len(listed)] else {}
    if isinstance(choices, str) or not isinstance(choices, Sequence) or not 1 < len(choices) <= 26:
        raise UsageError(f"task {task.id!r}: meta['choices'] is no list of 2 to 26 texts: make it one")
    return dict(zip(ascii_uppercase, map(str, choices), strict=False))


def right_option(task: Task, label: str, options: Mapping[str, str]) -> str | None:
    """The letter that a label means; None for a text when no options are known. UsageError for what is no option."""
    same = [letter for letter, text in options.items() if plain(text) == plain(label)]
    if len(same) == 1:
        return same[0]
    letter = label.strip().strip("()[].: ").upper()
    if len(letter) == 1 and letter in (options or ascii_uppercase):
        return letter
    if options or not plain(label):
        raise UsageError(
            f"the label {label!r} of task {task.id!r} names none of its options {', '.join(options) or '(none)'}: "
            "make it the letter or the text of one"
        )
    return None


def names_option(output: str, letter: str | None, label: str, options: Mapping[str, str]) -> bool:
    """Whether an output names the option with that letter, or that text when no options are known, and no other."""
    if len(output) > 2 * _EDGE:
        output = f"{output[:_EDGE]}\n{output[-_EDGE:]}"
    text = _MARKUP.sub("", output).strip()
    statement = _statement(text)
    if letter is None:
        text = _BULLET.sub("", statement or text, count=1)
        return plain(label) in (plain(text), plain(re.sub(rf"^(?:{_BRACKETED}|[A-Z][).:])\s", "", text)))
    named = _named(statement, options, marked=True) or _named(text, options, marked=False)
    return named == {letter}


def plain(text: str) -> str:
    """Without case, markup, surrounding punctuation and runs of white space."""
    return " ".join(_MARKUP.sub("", text).casefold().split()).strip(" .,;:!?\"'()[]")


def _statement(text: str) -> str:
    """What follows the last "answer" of a text, on that line or the next; empty without one."""
    end = len(text)
    for mark in _MARK.finditer(text):
        end = mark.end()
    return text[end:].strip().partition("\n")[0]


def _named(statement: str, options: Mapping[str, str], *, marked: bool) -> set[str]:
    exactly = {letter for letter, text in options.items() if plain(text) == plain(statement)}
    if exactly:
        return exactly
    known = options or ascii_uppercase
    leading: set[str] = set()
    for line in statement.splitlines():
        leading |= _at_start(_BULLET.sub("", line, count=1), marked)
    if leading & set(known):
        return leading & set(known)
    anywhere = _letters([*_SEVERAL.finditer(statement), *_ANYWHERE.finditer(statement)])
    return anywhere & set(known) | _by_text(statement, options)


def _at_start(line: str, marked: bool) -> set[str]:
    found = _SEVERAL.match(line) or _LEADING.match(line) or (_BARE.match(line) if marked else None)
    return _letters([found, *_JOINED.finditer(line)]) if found else set()


def _letters(found: Iterable[re.Match[str]]) -> set[str]:
    """The letters in those places, but for the words that join them."""
    return {letter.upper() for match in found for letter in re.findall(r"(?<![a-zA-Z])[a-zA-Z](?![a-zA-Z])", match[0])}


def _by_text(statement: str, options: Mapping[str, str]) -> set[str]:
    """The options whose text occurs, but for those that are part of another that does."""
    spoken = plain(statement)
    texts = {letter: plain(text) for letter, text in options.items()}
    found = {
        letter: text for letter, text in texts.items() if text and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", spoken)
    }
    return {
        letter for letter, text in found.items() if not any(text != other and text in other for other in found.values())
    }
