"""Which change of a rule list a failed example suggests, judged by a sample of the train rows.

Candidates are rules from the words of the message, a default, and repairs of the rule that answered wrongly. Each is
weighed under the rules there are, and one of the best is drawn, so that another number gives another proposal. What
looks good on a sample need not be good on other rows: this is no oracle.
"""

from __future__ import annotations

import math
from itertools import accumulate

from agentdescent_adapters.rules.candidates import Candidate, Case, candidates
from agentdescent_adapters.rules.evidence import Evidence
from agentdescent_adapters.rules.language import RuleList, answer, size

REPLY_LIMIT = 256
"""The most UTF-8 bytes of a reply."""

DOUBT = 0.7
"""A change that alters n sampled rows must gain more than DOUBT * sqrt(n) of them."""

STRAY = 0.3
"""What answering a row wrongly costs, in rows, though it was wrong before: it is in the way of later rules."""

FREE_BYTES = 60
"""The gain is divided by FREE_BYTES + the bytes that a change adds, since every solve pays for those."""

SHORTLIST = 8
"""Of how many of the best one is drawn, with a probability proportional to the square of its worth."""


def propose(evidence: Evidence, rules: RuleList, case: Case, uniform: float) -> str | None:
    """A reply in the grammar of rule lists, None when nothing promises a gain. `uniform` in [0, 1) draws it."""
    firing = answer(rules, case.message)
    if firing is not None and firing.label == case.label:
        return None
    found = ((worth(one), one.reply) for one in candidates(evidence, rules, case) if size(one.reply) <= REPLY_LIMIT)
    best = sorted((-value, reply) for value, reply in found if value > 0)[:SHORTLIST]
    if not best:
        return None
    steps = list(accumulate(value * value for value, _ in best))
    target = uniform * steps[-1]
    return next((reply for step, (_, reply) in zip(steps, best, strict=True) if step > target), best[-1][1])


def worth(one: Candidate) -> float:
    """Sampled rows gained beyond doubt, per byte; 0 when the change should not be proposed."""
    gain = one.fixed - one.broken - STRAY * one.stray - DOUBT * math.sqrt(one.fixed + one.broken)
    return max(0.0, gain) / (FREE_BYTES + max(0, one.grown))
