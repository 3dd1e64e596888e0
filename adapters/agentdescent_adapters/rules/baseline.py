"""What one keyword per label achieves: the least that an evolved rule list has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from agentdescent.errors import UsageError
from agentdescent.ports import Task
from agentdescent_adapters.rules.evidence import label_of
from agentdescent_adapters.rules.language import words

SMOOTHING = 5
"""Rows without the label that are added to those of each word, so that a rare word is not indicative."""


def keyword_baseline(
    train: Sequence[Task], test: Sequence[Task], choice: Literal["precise", "balanced"] = "precise"
) -> float:
    """The share of test rows, in [0, 1], that the best train word of each label answers rightly.

    With n rows of a label, w of a word and b of both, the worth of the word is b / (w + SMOOTHING), the smoothed
    probability of the label (`precise`), or 2 b / (w + n), the harmonic mean of precision and recall (`balanced`,
    the stronger baseline as a rule). Among words of a message the one of most worth answers; without one the row
    is wrong. Ties go to the first in alphabetical order. UsageError for no test rows.
    """
    if not test:
        raise UsageError("the baseline needs test rows: give it at least one")
    labels: dict[str, int] = {}
    rows: dict[str, int] = {}
    both: dict[tuple[str, str], int] = {}
    for task in train:
        label = label_of(task)
        labels[label] = labels.get(label, 0) + 1
        for word in dict.fromkeys(words(task.prompt)):
            rows[word] = rows.get(word, 0) + 1
            both[label, word] = both.get((label, word), 0) + 1

    def worth(label: str, word: str) -> float:
        hits = both[label, word]
        return hits / (rows[word] + SMOOTHING) if choice == "precise" else 2 * hits / (rows[word] + labels[label])

    best: dict[str, tuple[float, str]] = {}
    for label, word in sorted(both):
        if label not in best or worth(label, word) > best[label][0]:
            best[label] = worth(label, word), word
    keywords = sorted(((-value, label, word) for label, (value, word) in best.items()))
    right = 0
    for task in test:
        held = set(words(task.prompt))
        right += next((label for _, label, word in keywords if word in held), None) == label_of(task)
    return right / len(test)
