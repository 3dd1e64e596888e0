"""Proposals without a model, for tasks with a label: they cost nothing, and a small solver follows them.

names     Labels: LABEL, LABEL, ...             the labels of the train rows
describe  LABEL: word, word, ...                the words that tell it best, counted on train rows
shot      Example: MESSAGE => LABEL             a train row like the one that was answered wrongly
edit      a description again, with a telling word of the message that was missed, or without those that misled
drop      a rule that speaks for the wrong answer, or any
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain

import msgspec

from agentdescent.artifact.diff import digest
from agentdescent.artifact.strategy import AppendRules, SingleSlot, Strategy, normalise, rule_key
from agentdescent.budget.tariff import Tariff
from agentdescent.errors import UsageError
from agentdescent.ports import Answer, Repeat, Task
from agentdescent_adapters.llm.rates import FREE, NO_CALL
from agentdescent_adapters.rules.candidates import LIFT
from agentdescent_adapters.rules.chance import chance
from agentdescent_adapters.rules.evidence import Evidence, gather, label_of, members
from agentdescent_adapters.rules.language import fold

WORDS = 6
"""How many words describe a label."""
SHOTS = 3
"""How many rows are offered as shots at a time, and how many of a label there may be in the text."""
SHOT_CHARACTERS = 240
"""Longer messages are no shots."""

NAMES = "Labels: "
SHOT = "Example: "
BECOMES = " => "
BULLET = "- "

_VERSION = 1
_GOLDEN = 0.6180339887498949
"""Its multiples, modulo 1, are spread as evenly as can be: numbers that follow one another draw different changes."""


class Change(msgspec.Struct, frozen=True):
    """`old`: the rule that goes, "" for none; `new`: the one that comes, "" for none. `weight`: how often
    it is drawn, relatively."""

    old: str
    new: str
    weight: float


class Operators:
    """For `LLMAgent(model, proposer=Operators())`. A proposal is a function of its arguments and the train rows, which
    `begin` is shown; the number of the sample draws it. `strategy`: that of the run."""

    blocking = False
    repeat: Repeat = "free"
    tariff = Tariff(propose=NO_CALL)

    def __init__(self, *, strategy: Strategy | None = None, words: int = WORDS) -> None:
        if type(words) is not int or words < 1:
            raise UsageError(f"words is {words!r}: a description needs at least 1")
        self.strategy: Strategy = strategy or AppendRules()
        self._words = words
        self._evidence: Evidence | None = None
        self._shown: dict[int, str] = {}
        self._telling: dict[str, list[str]] = {}
        kept = digest(msgspec.json.encode(self.strategy))[:8]
        self.name = f"operators-{_VERSION} words={words} {kept}"

    def begin(self, train: Sequence[Task]) -> None:
        """Read the train rows. UsageError for one without a label of one line in meta["label"]."""
        self._evidence = gather(train)
        self._telling = {label: telling(self._evidence, label) for label in self._evidence.labels}
        rows = {number.bit_length() - 1: task_id for task_id, number in self._evidence.tasks.items()}
        prompts = {task.id: normalise(task.prompt) for task in train}
        self._shown = {row: prompts[task_id] for row, task_id in rows.items()}

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        """A reply in the grammar of the strategy, None when there is nothing to propose; UsageError before `begin`."""
        if self._evidence is None:
            raise UsageError("operators were asked for a proposal before begin(train): call it first")
        changes = list(self._changes(self._evidence, rules_of(rendered), task, output.strip()))
        if not changes:
            return Answer(None, FREE)
        start = chance(repr((rendered, task.id)), 0, 0).uniform
        return Answer(self._reply(rendered, drawn(changes, (start + sample * _GOLDEN) % 1.0)), FREE)

    def _changes(self, evidence: Evidence, rules: Sequence[str], task: Task, output: str) -> Iterator[Change]:
        label = label_of(task)
        said = output if output in evidence.labels and output != label else None
        names = NAMES + ", ".join(sorted(evidence.labels))
        if not any(rule.startswith(NAMES) for rule in rules):
            yield Change("", names, 3)
        yield from self._descriptions(evidence, rules, task, label, said)
        yield from self._shots(evidence, rules, task, label)
        yield from _drops(rules, task, said)

    def _descriptions(
        self, evidence: Evidence, rules: Sequence[str], task: Task, label: str, said: str | None
    ) -> Iterator[Change]:
        message = fold(task.prompt)
        for one, weight in ((label, 3.0), (said, 2.0)):
            if one is None or one not in evidence.labels:
                continue
            words = self._telling[one]
            old = next((rule for rule in rules if rule.startswith(f"{one}: ")), "")
            held = old.removeprefix(f"{one}: ").split(", ") if old else []
            if not old:
                chosen = words[: self._words]
            elif one == label:
                chosen = [*held, *(word for word in words if word not in held and f" {word} " in message)][
                    : 2 * self._words
                ]
            else:
                chosen = [word for word in held if f" {word} " not in message]
            if chosen and chosen != held:
                yield Change(old, f"{one}: {', '.join(chosen)}", weight)

    def _shots(self, evidence: Evidence, rules: Sequence[str], task: Task, label: str) -> Iterator[Change]:
        """Rows of the label most like the message: what they share that tells the label."""
        ending = f"{BECOMES}{label}"
        if sum(rule.startswith(SHOT) and rule.endswith(ending) for rule in rules) >= SHOTS:
            return
        own = evidence.tasks.get(task.id, 0)
        words = self._telling.get(label, [])
        message = fold(task.prompt)
        shared = [word for word in words if f" {word} " in message] or words[: self._words]
        rows = members(evidence.labels.get(label, 0) & ~own)
        texts = ((row, self._shown[row]) for row in rows)
        fit = [(row, text) for row, text in texts if text and len(text) <= SHOT_CHARACTERS]
        fit.sort(key=lambda one: (-sum(f" {word} " in evidence.messages[one[0]] for word in shared), one[0]))
        for _, text in fit[:SHOTS]:
            rule = f"{SHOT}{text}{ending}"
            if rule not in rules:
                yield Change("", rule, 1)

    def _reply(self, rendered: str, change: Change) -> str:
        if isinstance(self.strategy, SingleSlot):
            return edited(rendered, change)
        if not change.old:
            return f"add: {change.new}"
        key = rule_key(change.old)
        return f"replace {key}: {change.new}" if change.new else f"drop {key}"


def rules_of(rendered: str) -> list[str]:
    """The bullets of a text."""
    return [line.removeprefix(BULLET) for line in rendered.split("\n") if line.startswith(BULLET)]


def telling(evidence: Evidence, label: str) -> list[str]:
    """Words of the rows of a label whose odds are more than LIFT times those in other rows, the best first: n rows of
    the label and m of all rows have a word, and n * n / (m + 1) is its worth."""
    right = evidence.labels.get(label, 0)
    share, others = right.bit_count(), (evidence.everything & ~right).bit_count()
    found: list[tuple[float, str]] = []
    words = chain.from_iterable(evidence.messages[row].split() for row in members(right))
    for word in dict.fromkeys(words):
        rows = evidence.phrases.get(f" {word} ", 0)
        hits, total = (rows & right).bit_count(), rows.bit_count()
        if hits * others > LIFT * share * (total - hits):
            found.append((-hits * hits / (total + 1), word))
    return [word for _, word in sorted(found)]


def drawn(changes: Sequence[Change], uniform: float) -> Change:
    """The change at `uniform` in [0, 1) of their summed weights."""
    steps = list(accumulate(change.weight for change in changes))
    target = uniform * steps[-1]
    return next((change for step, change in zip(steps, changes, strict=True) if step > target), changes[-1])


def edited(text: str, change: Change) -> str:
    """A whole text after a change of its bullets."""
    lines = text.split("\n") if text else []
    if not change.old:
        return "\n".join((*lines, BULLET + change.new))
    at = lines.index(BULLET + change.old)
    return "\n".join((*lines[:at], *((BULLET + change.new,) if change.new else ()), *lines[at + 1 :]))


def _drops(rules: Iterable[str], task: Task, said: str | None) -> Iterator[Change]:
    """Shots that speak for the wrong answer in words of the message weigh most."""
    message = set(fold(task.prompt).split())
    for rule in rules:
        misled = said is not None and rule.endswith(f"{BECOMES}{said}") and not message.isdisjoint(fold(rule).split())
        yield Change(rule, "", 1 if misled else 0.25)
