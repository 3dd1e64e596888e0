"""The changes of a rule list that one message suggests, each with what it would do on sampled train rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice

from agentdescent.artifact.strategy import rule_key
from agentdescent.record import Record
from agentdescent_adapters.rules.evidence import Evidence, matching, members, phrases_of
from agentdescent_adapters.rules.language import Rule, RuleList, answer, size, write
from agentdescent_adapters.rules.standing import Standing, compare, open_to, stand, without

SUPPORT = 1
"""How many sampled rows, the message itself not among them, a candidate puts right at least."""

LIFT = 2.0
"""A phrase is telling when the odds of the label are more than so many times those without it."""

PAIRED = 16
"""How many telling words are tried in twos."""

CONTEXT_ROWS = 6
"""How many rows that a rule answers rightly are read for a condition to add to it."""

_BULLET = len("- \n")


class Case(Record, frozen=True):
    """A folded message that should be answered by `label`, and the rows to judge changes by, not its own."""

    message: str
    label: str
    sample: int


class Candidate(Record, frozen=True):
    """A reply in the grammar of rule lists and, in sampled rows: put right, spoiled, and wrong as before but now
    answered by a new rule. `grown`: the bytes that it adds to the text."""

    reply: str
    fixed: int
    broken: int
    stray: int
    grown: int


def candidates(evidence: Evidence, rules: RuleList, case: Case) -> Iterator[Candidate]:
    """New rules, a default where there is none, and repairs of the rule that answered wrongly."""
    standing = stand(evidence, rules)
    firing = answer(rules, case.message)
    yield from _additions(evidence, rules, standing, firing, case)
    if rules.default is None:
        yield from _default(evidence, standing, case)
    if firing is not None and firing is not rules.default:
        yield from _repairs(evidence, rules, standing, firing, case)


def _additions(
    evidence: Evidence, rules: RuleList, standing: Standing, firing: Rule | None, case: Case
) -> Iterator[Candidate]:
    right = evidence.labels.get(case.label, 0)
    wrong = ~right & ~standing.correct
    bar = firing.rank if firing is not None else (0, 0)
    held = {rule.text.casefold() for rule in rules.rules}
    for has, rank, rows in _conditions(evidence, case):
        taken = rows & case.sample & open_to(standing, rank)
        fixed, broken = compare(standing, standing, taken, right, case.sample)
        if fixed >= SUPPORT and rank >= bar:
            text = write(case.label, has)
            if text.casefold() not in held:
                yield Candidate(f"add: {text}", fixed, broken, (taken & wrong).bit_count(), size(text) + _BULLET)


def _conditions(evidence: Evidence, case: Case) -> Iterator[tuple[tuple[str, ...], tuple[int, int], int]]:
    """Telling phrases of the message and twos of its most telling words: phrases, rank, rows that have them."""
    right = evidence.labels.get(case.label, 0) & case.sample
    share = right.bit_count()
    others = case.sample.bit_count() - share
    telling: list[tuple[float, str, int]] = []
    for phrase in phrases_of(case.message):
        rows = evidence.phrases.get(phrase, 0)
        total, hits = (rows & case.sample).bit_count(), (rows & right).bit_count()
        if hits * others > LIFT * share * (total - hits):
            length = phrase.count(" ") - 1
            yield (phrase,), (1, length), rows
            if length == 1:
                telling.append((-hits * hits / (total + 1), phrase, rows))
    for (_, one, some), (_, other, more) in combinations(sorted(telling)[:PAIRED], 2):
        yield (one, other), (2, 2), some & more


def _default(evidence: Evidence, standing: Standing, case: Case) -> Iterator[Candidate]:
    """The label as default, if it is the most frequent one without an answer: agents side by side then agree on it,
    where each on its own would leave the text with defaults that do nothing."""
    silent = evidence.everything & ~standing.above[-1]
    label = min(evidence.labels, key=lambda one: (-(evidence.labels[one] & silent).bit_count(), one))
    fixed = (evidence.labels[label] & silent & case.sample).bit_count()
    if label == case.label and fixed >= SUPPORT:
        text = write(label)
        # What it answers wrongly is in nobody's way: every rule comes before a default.
        yield Candidate(f"add: {text}", fixed, 0, 0, size(text) + _BULLET)


def _repairs(evidence: Evidence, rules: RuleList, standing: Standing, firing: Rule, case: Case) -> Iterator[Candidate]:
    """The rule that answered wrongly, dropped or kept from the message."""
    key = rule_key(firing.text)
    rest = without(evidence, rules, firing)
    right = evidence.labels.get(firing.label, 0)
    fixed, broken = compare(standing, rest, 0, right, case.sample)
    if fixed < SUPPORT:
        return  # what a narrower rule leaves to the others is a part of these rows
    yield Candidate(f"drop {key}", fixed, broken, 0, -size(firing.text) - _BULLET)
    for has, lacks, taken in _narrowings(evidence, rules, standing, rest, firing, case):
        fixed, broken = compare(standing, rest, taken, right, case.sample)
        if fixed >= SUPPORT:
            text = write(firing.label, has, lacks)
            yield Candidate(f"replace {key}: {text}", fixed, broken, 0, size(text) - size(firing.text))


def _narrowings(
    evidence: Evidence, rules: RuleList, standing: Standing, rest: Standing, firing: Rule, case: Case
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], int]]:
    """The phrases, the exclusions and the rows answered of a rule that leaves the message to the `rest`.

    With one more condition it is taken to win against its equals, though it stays where it stood and they may be later.
    """
    decided = standing.decided[rules.rules.index(firing)]
    for phrase in phrases_of(case.message):
        if phrase not in firing.has:
            yield firing.has, (*firing.lacks, phrase), decided & ~evidence.phrases.get(phrase, 0)
    matches = matching(evidence, firing)
    count, length = firing.rank
    rows = islice(members(decided & evidence.labels.get(firing.label, 0) & case.sample), CONTEXT_ROWS)
    context = dict.fromkeys(phrase for row in rows for phrase in phrases_of(evidence.messages[row]))
    for phrase in context:
        if phrase not in case.message and phrase not in firing.lacks:
            rank = count + 1, length + phrase.count(" ") - 1
            yield (*firing.has, phrase), firing.lacks, matches & evidence.phrases[phrase] & open_to(rest, rank)
