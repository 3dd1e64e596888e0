"""An allocator of the user's own in a run: the record that names it in the log, and how the object itself is asked.

The object is no part of the state: it is handed to `decide` beside the draw. A *policy* is a function of what it is
asked, so a replay that can import it asks it again. An object written to the *older* protocol learns in place: its
choices are facts, and a replay takes them from the log. Either way all but the answer itself is decided anew.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias, runtime_checkable

from agentdescent.allocation.choice import Choice, Facts
from agentdescent.allocation.config import Starts, start_of
from agentdescent.allocation.features import AllocatorContext, Features, Stage, vector
from agentdescent.allocation.policies import AllocatorPolicy, choose
from agentdescent.errors import UsageError
from agentdescent.record import Record, replace

Kind: TypeAlias = Literal["policy", "older"]
_CHOSEN = ("value", "counterfactual", "skip")


class Own(Record, frozen=True, tag="own"):
    """`name`: `module:attribute` where it can be found again, without a colon where it cannot. `stages`: those it
    decides, `budget_start`: while less of the token cap than this remains; both as the object says."""

    name: str
    kind: Kind = "policy"
    stages: tuple[Stage, ...] = ("verify",)
    budget_start: float | Starts = Starts()


@runtime_checkable
class Choices(Protocol):
    """What stands for an object of the older protocol: its choice about a candidate, made once."""

    def choice(self, facts: Facts, subject: int) -> Choice: ...


Injected: TypeAlias = AllocatorPolicy | Choices


def own_choice(own: Own, policy: Injected | None, facts: Facts, subject: int, draw: float) -> Choice | None:
    """What the user's object says; None at a stage that it does not decide. Raises UsageError when there is none."""
    if facts.stage not in own.stages:
        return None
    if policy is None:
        raise UsageError(f"this run is allocated by {own.name}, which is not here: hand it to `decide` as policy=")
    if isinstance(policy, Choices):
        return policy.choice(facts, subject)
    return choose(policy, facts, draw, own.budget_start)


class Recorded(Record, frozen=True):
    """An older object as the log has it. What was forced on it, and the vector, are computed anew, so that a record
    which says otherwise differs. Where nothing was recorded it would have spent."""

    own: Own
    recorded: Choice | None = None

    def choice(self, facts: Facts, subject: int) -> Choice:
        stage, x, made = facts.stage, vector(facts.stage, facts.context), self.recorded
        if not facts.allowed:
            return Choice(stage, x, 0.0, 0.0, 0.0, False, "clock", 1.0)
        if facts.remaining >= start_of(self.own.budget_start, stage):
            return Choice(stage, x, 1.0, 0.0, 0.0, True, "not-tight", 1.0)
        if made is None or made.reason not in _CHOSEN or made.choice == (made.reason == "skip"):
            return Choice(stage, x, 1.0, 0.0, 0.0, True, "value", 1.0)
        return replace(made, stage=stage, features=x, epsilon=0.0, draw=0.0)


class Stated(Record, frozen=True):
    """A policy that cannot be asked again: its probability is the one in the log, and so is a vector of its own."""

    recorded: Choice | None = None

    def features(self, stage: Stage, context: AllocatorContext) -> Features:
        return vector(stage, context) if self.recorded is None else self.recorded.features

    def probability(self, stage: Stage, features: Features) -> float:
        return 1.0 if self.recorded is None else self.recorded.p
