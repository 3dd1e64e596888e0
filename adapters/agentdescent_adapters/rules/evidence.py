"""What the train rows say: for each phrase and each label, the rows that have it.

A set of rows is an integer, bit i for row i: intersection and size are single machine-speed operations, so that a
proposal can weigh a hundred candidate rules against all rows in a fraction of a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from agentdescent.artifact.strategy import normalise
from agentdescent.errors import UsageError
from agentdescent.ports import Task
from agentdescent_adapters.rules.language import LABEL_LIMIT, Rule, fold, size

ROW_LIMIT = 4096
"""The most rows kept, evenly spaced: it bounds the memory of the sets."""

WORD_LIMIT = 64
"""How many words of a message are read."""


class Evidence(msgspec.Struct, frozen=True):
    """Rows by phrase, label and task. `messages` are folded; `phrases` has every word and every two neighbours."""

    messages: tuple[str, ...]
    phrases: dict[str, int]
    labels: dict[str, int]
    tasks: dict[str, int]

    @property
    def everything(self) -> int:
        return (1 << len(self.messages)) - 1


def label_of(task: Task) -> str:
    """The label of a task; UsageError when there is none, or none that a rule could answer."""
    label = task.meta.get("label")
    if not isinstance(label, str) or not label:
        raise UsageError(f"task {task.id!r} has no label: give it a text in meta['label']")
    return answerable(label)


def answerable(label: str) -> str:
    """The label; UsageError when no rule can have it."""
    if label != normalise(label) or size(label) > LABEL_LIMIT:
        raise UsageError(
            f"no rule can answer {label[:60]!r}: a label is one line of at most {LABEL_LIMIT} bytes with single spaces"
        )
    return label


def phrases_of(message: str) -> list[str]:
    """Each word of a folded message, then each two neighbours, folded, once, in order."""
    read = message.split()[:WORD_LIMIT]
    pairs = [f" {left} {right} " for left, right in pairwise(read)]
    return list(dict.fromkeys([*(f" {word} " for word in read), *pairs]))


def glance(text: str) -> str:
    """The beginning of a message that is read, folded."""
    message = fold(text)
    return message if message.count(" ") <= WORD_LIMIT + 1 else f" {' '.join(message.split()[:WORD_LIMIT])} "


def gather(train: Sequence[Task]) -> Evidence:
    """The evidence in train rows; UsageError for a row without a usable label."""
    rows = train[:: max(1, -(-len(train) // ROW_LIMIT))]
    phrases: dict[str, int] = {}
    labels: dict[str, int] = {}
    messages = tuple(glance(task.prompt) for task in rows)
    for row, (task, message) in enumerate(zip(rows, messages, strict=True)):
        label = label_of(task)
        labels[label] = labels.get(label, 0) | 1 << row
        for phrase in phrases_of(message):
            phrases[phrase] = phrases.get(phrase, 0) | 1 << row
    return Evidence(messages, phrases, labels, {task.id: 1 << row for row, task in enumerate(rows)})


def matching(evidence: Evidence, rule: Rule) -> int:
    """The rows in which every phrase of a rule stands and none that it excludes."""
    rows = evidence.everything
    for phrase in rule.has:
        rows &= _holding(evidence, phrase)
    for phrase in rule.lacks:
        rows &= ~_holding(evidence, phrase)
    return rows


def _holding(evidence: Evidence, phrase: str) -> int:
    if phrase.count(" ") <= 3:
        return evidence.phrases.get(phrase, 0)
    candidates = evidence.everything
    for part in phrases_of(phrase):
        candidates &= evidence.phrases.get(part, 0)
    return sum(1 << row for row in members(candidates) if phrase in evidence.messages[row])


def members(rows: int) -> Iterator[int]:
    """The rows of a set, in order."""
    while rows:
        lowest = rows & -rows
        yield lowest.bit_length() - 1
        rows ^= lowest
