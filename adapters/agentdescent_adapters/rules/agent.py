"""An agent without a model: it solves by executing the rules, and proposes by counting words in train rows.

It bills as a model would, so that a budget means what it means there: a token for every 4 UTF-8 bytes begun, of the
rendered artifact, the message and, for a proposal, the output as prompt, and of the reply as completion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentdescent.artifact.diff import digest
from agentdescent.budget.tariff import Rate, Tariff
from agentdescent.budget.usage import Usage
from agentdescent.errors import UsageError
from agentdescent.ports import Answer, Repeat, Task
from agentdescent_adapters.rules.candidates import Case
from agentdescent_adapters.rules.chance import chance
from agentdescent_adapters.rules.evidence import Evidence, answerable, gather, glance, label_of
from agentdescent_adapters.rules.language import LABEL_LIMIT, RuleList, answer, fold, parse, size
from agentdescent_adapters.rules.proposer import REPLY_LIMIT, propose

UNKNOWN = "unknown"
"""The answer when no rule holds and there is no default: a model is never silent either."""

NOTHING = "NONE"
"""The reply that proposes nothing."""

SAMPLE_ROWS = 300
"""By how many train rows a proposal is judged, on average, and at most two in three of them: few enough to be wrong
at times, and in another way for another proposal."""

BYTES_PER_TOKEN = 4
OUTPUT_LIMIT = 4096

_VERSION = 1
_PARSED_LIMIT = 256


class RuleAgent:
    """Deterministic: an answer is a function of its arguments, a proposal of those, the seed and the train rows.

    `labels`: what it may answer, and rules with another label are ignored; with none, anything of at most
    LABEL_LIMIT bytes. UsageError for a label that no rule can have. The rows of one run at a time.
    """

    blocking = False
    repeat: Repeat = "free"

    def __init__(self, labels: Iterable[str] = (), *, seed: int = 0) -> None:
        self._labels = tuple(sorted({answerable(label) for label in labels}))
        self._seed = seed
        self._evidence: Evidence | None = None
        self._parsed: dict[str, RuleList] = {}
        known = digest("\n".join(self._labels).encode("utf-8", "surrogatepass"))[:8] if self._labels else "any"
        self.name = f"rules-{_VERSION} seed={seed} labels={known}"
        longest = max(map(size, (*self._labels, UNKNOWN))) if self._labels else LABEL_LIMIT
        self.tariff = Tariff(_rate(longest), _rate(REPLY_LIMIT), OUTPUT_LIMIT)

    def begin(self, train: Sequence[Task]) -> None:
        """Read the train rows; UsageError for one whose meta["label"] is missing or cannot be an answer."""
        self._evidence = gather(train)

    def solve(self, rendered: str, task: Task) -> Answer:
        """The label of the rule that answers, else UNKNOWN."""
        rules = self._rules(rendered)
        rule = answer(rules, fold(task.prompt))
        return _bill(rule.label if rule is not None else UNKNOWN, rules.size + size(task.prompt))

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        """A reply in the grammar of rule lists, or NOTHING; UsageError before `begin`."""
        if self._evidence is None:
            raise UsageError("the rule agent was asked for a proposal before begin(train): call it first")
        evidence = self._evidence
        rules = self._rules(rendered)
        label = label_of(task)
        reply: str | None = None
        if not self._labels or label in self._labels:
            count = len(evidence.messages)
            wanted = min(SAMPLE_ROWS, count * 2 // 3)
            drawn = chance(repr((self._seed, sample, rendered, task.id)), count, wanted)
            case = Case(glance(task.prompt), label, drawn.sample & ~evidence.tasks.get(task.id, 0))
            reply = propose(evidence, rules, case, drawn.uniform)
        return _bill(reply or NOTHING, rules.size + size(task.prompt) + min(size(output), OUTPUT_LIMIT))

    def _rules(self, rendered: str) -> RuleList:
        found = self._parsed.get(rendered)
        if found is None:
            found = parse(rendered, self._labels)
            if len(self._parsed) >= _PARSED_LIMIT:
                self._parsed.clear()  # not one at a time: threads may share the agent, and this cannot fail
            self._parsed[rendered] = found
        return found


def _tokens(number: int) -> int:
    return -(-number // BYTES_PER_TOKEN)


def _rate(reply_bytes: int) -> Rate:
    """A prompt is rounded up as a whole, as the core does, so that the bound needs no overhead."""
    return Rate(strict=True, overhead=0, bytes_per_token=BYTES_PER_TOKEN, ceiling=_tokens(reply_bytes), calls=1)


def _bill(reply: str, prompt_bytes: int) -> Answer:
    return Answer(reply, Usage(prompt=_tokens(prompt_bytes), completion=_tokens(size(reply))))
