"""What a rule list does on the train rows, and what a change of it would do: sets of rows throughout."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from operator import or_

from agentdescent.record import Record
from agentdescent_adapters.rules.evidence import Evidence, matching
from agentdescent_adapters.rules.language import Rule, RuleList


class Standing(Record, frozen=True):
    """`decided[k]`: rows that rule k answers. `above[k]`: rows that a rule before it does. `correct`: rows right.

    `order[k]`: the rank of rule k, negated, so that it ascends.
    """

    order: tuple[tuple[int, int], ...]
    decided: tuple[int, ...]
    above: tuple[int, ...]
    correct: int


def stand(evidence: Evidence, rules: RuleList) -> Standing:
    """The standing of a list on all rows."""
    matches = [matching(evidence, rule) for rule in rules.rules]
    above = tuple(accumulate(matches, or_, initial=0))
    decided = tuple(rows & ~higher for rows, higher in zip(matches, above, strict=False))
    correct = 0
    for rule, rows in zip(rules.rules, decided, strict=True):
        correct |= rows & evidence.labels.get(rule.label, 0)
    if rules.default is not None:
        correct |= evidence.everything & ~above[-1] & evidence.labels.get(rules.default.label, 0)
    order = tuple((-count, -length) for count, length in (rule.rank for rule in rules.rules))
    return Standing(order, decided, above, correct)


def without(evidence: Evidence, rules: RuleList, dropped: Rule) -> Standing:
    """The standing of a list less one of its rules."""
    rest = tuple(rule for rule in rules.rules if rule is not dropped)
    return stand(evidence, RuleList(rest, rules.default, rules.size))


def open_to(standing: Standing, rank: tuple[int, int]) -> int:
    """A mask of the rows that a new rule of that rank would answer where it holds: no more specific rule does."""
    return ~standing.above[bisect_left(standing.order, (-rank[0], -rank[1]))]


def compare(before: Standing, base: Standing, taken: int, right: int, sample: int) -> tuple[int, int]:
    """How many sampled rows are put right, and spoiled, by going from one list to another.

    The other stands as `base` save for one more rule, which answers the rows `taken`, 0 for no rule, and has the label
    of the rows `right`.
    """
    correct = (base.correct & ~taken) | (taken & right)
    return (correct & ~before.correct & sample).bit_count(), (before.correct & ~correct & sample).bit_count()
