"""A rule language that is executed on a message, and how rules that compete are settled.

    rule   = "if" ["contains"] phrase { "and" phrase } "then" LABEL
           | "otherwise" LABEL
    phrase = ["not"] '"' WORDS '"'

    if "charged twice" then duplicate_charge
    if "pin" and "change" and not "blocked" then change_pin
    otherwise general_question

Keywords are of any case. LABEL is the rest of the line, at most 128 UTF-8 bytes. A phrase holds when its words stand
side by side in the message, as whole words, whatever their case, punctuation and spacing; ideographs and symbols such
as emoji are words of their own. Rules are the bullets of a text, a line each; a line that is no rule is ignored.

Of the rules that hold, the most specific answers: most phrases, then most words in them, `not` uncounted; of equals
the *later*. So a list can be grown by appending: a broad rule is corrected by a narrower one anywhere, and an equal one
by the newer, instead of new rules being dead where old ones hold. An exclusion does not count, so that adding one only
ever takes messages away from a rule. `otherwise` answers when no rule holds; the last one counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

from agentdescent.record import Record

LABEL_LIMIT = 128
"""The most UTF-8 bytes a label may have; a line with a longer one is no rule."""

_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_SYMBOL = "\u2190-\u2bff\U0001f000-\U0001faff"
_LETTER = rf"[^\W{_IDEOGRAPH}{_SYMBOL}]"
_WORD = re.compile(rf"[{_IDEOGRAPH}{_SYMBOL}]|{_LETTER}+(?:'{_LETTER}+)*")
_PHRASE = re.compile(r'(not\s+)?"([^"]*)"', re.I)
_RULE = re.compile(
    r'if\s+(?:contains\s+)?((?:not\s+)?"[^"]*"(?:\s+and\s+(?:not\s+)?"[^"]*")*)\s+then\s+(\S.*)|otherwise\s+(\S.*)',
    re.I,
)


class Rule(Record, frozen=True):
    """One rule, its phrases folded; without phrases it is a default. `text` is the line as it was written."""

    label: str
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    text: str = ""

    @property
    def rank(self) -> tuple[int, int]:
        """How specific it is: phrases, then words in them. The larger answers."""
        return len(self.has), sum(phrase.count(" ") - 1 for phrase in self.has)


class RuleList(Record, frozen=True):
    """`rules` in the order in which they are asked, the one that answers first. `size`: UTF-8 bytes of the text."""

    rules: tuple[Rule, ...]
    default: Rule | None
    size: int


def size(text: str) -> int:
    """UTF-8 bytes, lone surrogates included."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def words(text: str) -> list[str]:
    """The words of a text in order, folded: words that count as equal are equal strings."""
    folded = text.casefold()
    if not folded.isascii():
        folded = unicodedata.normalize("NFC", folded).replace("’", "'")
    return _WORD.findall(folded)


def fold(text: str) -> str:
    """The words with a space before, between and behind: then a folded phrase is a substring of a folded message."""
    return f" {' '.join(words(text))} "


def write(label: str, has: tuple[str, ...] = (), lacks: tuple[str, ...] = ()) -> str:
    """The line of a rule of folded phrases."""
    if not has and not lacks:
        return f"otherwise {label}"
    phrases = [f'"{phrase.strip()}"' for phrase in has] + [f'not "{phrase.strip()}"' for phrase in lacks]
    return f"if {' and '.join(phrases)} then {label}"


def read(line: str) -> Rule | None:
    """The rule that a line is, None when it is none."""
    found = _RULE.fullmatch(line.strip())
    if found is None:
        return None
    body, then, otherwise = found.groups()
    label = (then or otherwise).rstrip()
    if size(label) > LABEL_LIMIT:
        return None
    has: list[str] = []
    lacks: list[str] = []
    for negated, quoted in _PHRASE.findall(body or ""):
        phrase = fold(quoted)
        if not phrase.strip():
            return None
        (lacks if negated else has).append(phrase)
    return Rule(label, tuple(dict.fromkeys(has)), tuple(dict.fromkeys(lacks)), line.strip())


def parse(rendered: str, labels: Collection[str] = ()) -> RuleList:
    """The rules among the bullets of a text; with `labels`, only those that answer one of them."""
    bullets = (line[2:] for line in rendered.splitlines() if line.startswith("- "))
    found = [rule for rule in map(read, bullets) if rule is not None and (not labels or rule.label in labels)]
    # The sort is stable and the list reversed: among equals the later comes first.
    asked = sorted(
        (rule for rule in reversed(found) if rule.has or rule.lacks), key=lambda rule: rule.rank, reverse=True
    )
    default = next((rule for rule in reversed(found) if not rule.has and not rule.lacks), None)
    return RuleList(tuple(asked), default, size(rendered))


def answer(rules: RuleList, message: str) -> Rule | None:
    """The rule that answers a folded message, None when there is none."""
    for rule in rules.rules:
        for phrase in rule.has:
            if phrase not in message:
                break
        else:
            for phrase in rule.lacks:
                if phrase in message:
                    break
            else:
                return rule
    return rules.default
