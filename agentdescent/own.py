"""An allocator of the user's own, on this side of the core: named for the log, checked before anything is spent, asked
in a run, told what its decisions came to, and found again by name for a replay.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import get_args

import msgspec

from agentdescent.allocation.checks import check_policy
from agentdescent.allocation.choice import Choice, Facts
from agentdescent.allocation.config import Starts, ValueBudgetAllocator, start_of
from agentdescent.allocation.features import AllocatorContext, Features, Stage, vector
from agentdescent.allocation.older import Counts, OlderAllocator, consult, report
from agentdescent.allocation.own import Injected, Own
from agentdescent.allocation.policies import AllocatorPolicy, OwnFeatures
from agentdescent.allocation.validation import check
from agentdescent.engine.decision import decide
from agentdescent.engine.draw import seeded
from agentdescent.engine.event import Decided, Event, GateOpened, Judged, Skipped
from agentdescent.engine.spec import Allocator
from agentdescent.engine.state import State
from agentdescent.errors import UsageError
from agentdescent.history.outcomes import choice_of, labels_of
from agentdescent.history.replay import Replay
from agentdescent.history.replay import replay as decide_again
from agentdescent.record import replace


def own_of(allocator: object) -> Own:
    """What the log says of an object that decides for itself. Raises UsageError when it keeps to neither protocol."""
    kind = type(allocator)
    if isinstance(allocator, Own):
        raise UsageError(f"allocator is the record that names {allocator.name}: give that object itself")
    if isinstance(allocator, type):
        raise UsageError(f"allocator is the class {allocator.__qualname__}: give an instance, {allocator.__name__}()")
    if not isinstance(allocator, AllocatorPolicy | OlderAllocator):
        raise UsageError(
            f"allocator is a {kind.__qualname__}: give a record such as ValueBudgetAllocator(), or an object with "
            "`probability(stage, features)`, or with `decide(context)` and `observe(context, committed)`"
        )
    default = Own("")
    stages = getattr(allocator, "stages", default.stages)
    starts = getattr(allocator, "budget_start", default.budget_start)
    try:
        stages, starts = msgspec.convert((stages, starts), tuple[tuple[Stage, ...], float | Starts])
    except msgspec.ValidationError as error:
        raise UsageError(f"{kind.__qualname__} has an impossible `stages` or `budget_start`: {error}") from error
    own = Own(where(allocator), "policy" if isinstance(allocator, AllocatorPolicy) else "older", stages, starts)
    check(ValueBudgetAllocator(stages=own.stages, budget_start=own.budget_start))
    if isinstance(allocator, AllocatorPolicy):
        try:
            check_policy(allocator, own.stages)
        except Exception as error:  # a policy is code we do not know; nothing was spent yet
            raise UsageError(f"allocator {own.name}: {error}") from error
    return own


def where(allocator: object) -> str:
    """`module:attribute` where another process finds it: a value of its module, or an instance of a class that is made
    without arguments and holds nothing. Else where it was made, without a colon."""
    kind = type(allocator)
    home = sys.modules.get(kind.__module__)
    importable = kind.__module__ != "__main__" and "<locals>" not in kind.__qualname__
    for name, value in vars(home).items() if importable and home is not None else ():
        if value is allocator:
            return f"{kind.__module__}:{name}"
    name = f"{kind.__module__}:{kind.__qualname__}"
    found = found_again(Own(name)) if importable and kind.__init__ is object.__init__ else None
    if type(found) is kind:
        holds_nothing = not getattr(allocator, "__dict__", None) and not getattr(kind, "__slots__", None)
        if found == allocator if kind.__eq__ is not object.__eq__ else holds_nothing:
            return name
    return f"{kind.__module__}.{kind.__qualname__}"


def found_again(own: Own) -> AllocatorPolicy | None:
    """The policy of that name, None where it cannot be had."""
    module, colon, attribute = own.name.partition(":")
    if not colon or own.kind != "policy":
        return None
    try:
        found: object = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        if isinstance(found, type) and hasattr(found, "probability"):
            found = found()
    except Exception:  # a module is code we do not know: whatever importing it raises, the policy is not there
        return None
    return found if isinstance(found, AllocatorPolicy) and not isinstance(found, type) else None


def replay(events: Iterable[Event], *, check: bool = True, policy: AllocatorPolicy | None = None) -> Replay:
    """Fold a log; with `check`, decide everything anew, a policy of one's own asked again: `policy`, or the one that is
    found by its name. Where there is none its answers are taken from the log, and `unasked` names it. Raises
    CorruptLog when the log does not begin with Started."""
    return decide_again(events, check=check, find=found_again if policy is None else lambda own: policy)


class Guarded:
    """A policy whose errors say whose they are."""

    def __init__(self, policy: AllocatorPolicy, name: str) -> None:
        self._policy, self._name = policy, name

    def features(self, stage: Stage, context: AllocatorContext) -> Features:
        if not isinstance(self._policy, OwnFeatures):
            return vector(stage, context)
        try:
            return self._policy.features(stage, context)
        except Exception as error:  # a policy is code we do not know
            raise _broken(self._name, "features", error) from error

    def probability(self, stage: Stage, features: Features) -> float:
        try:
            return self._policy.probability(stage, features)
        except Exception as error:  # as above
            raise _broken(self._name, "probability", error) from error


class Elder:
    """An object of the older protocol in one run: asked once about each candidate and stage, told each outcome once,
    with the very context that it was asked with. After a resume it is told again what the log says."""

    def __init__(self, allocator: OlderAllocator, own: Own) -> None:
        self.counts = Counts()
        self._allocator, self._own = allocator, own
        self._asked: dict[tuple[Stage, int], tuple[AllocatorContext, Choice]] = {}
        self._recorded: set[tuple[Stage, int]] = set()

    def choice(self, facts: Facts, subject: int) -> Choice:
        key = facts.stage, subject
        free = facts.allowed and facts.remaining < start_of(self._own.budget_start, facts.stage)
        made = self._asked[key][1] if key in self._asked else None
        if free and made is not None and made.reason not in ("clock", "not-tight"):
            made = replace(made, features=vector(facts.stage, facts.context))  # it has answered, and was not recorded
        else:
            try:
                made, self.counts = consult(self._allocator, self.counts, facts, self._own.budget_start)
            except UsageError:
                raise
            except Exception as error:  # an allocator is code we do not know
                raise _broken(self._own.name, "decide", error) from error
        self._asked[key] = facts.context, made
        return made

    def told(self, event: Event) -> None:
        """An event was recorded."""
        made = choice_of(event)
        if made is not None and isinstance(event, Decided | Skipped | GateOpened):
            key = made.stage, event.subject
            if key not in self._asked:  # a union is asked about as its first contributor
                key = next((other for other, (_, choice) in self._asked.items() if choice == made), key)
            self._recorded.add(key)
        elif isinstance(event, Judged):
            for subject, outcome in labels_of(event):
                for stage in get_args(Stage):
                    asked = self._asked.pop((stage, subject), None)
                    if asked is None or (stage, subject) not in self._recorded:
                        continue
                    self._recorded.remove((stage, subject))
                    try:
                        self.counts = report(self._allocator, self.counts, *asked, outcome)
                    except Exception as error:  # as above
                        raise _broken(self._own.name, "observe", error) from error

    def recall(self, before: State, event: Event) -> None:
        """An event of the log: where it has a choice, what the object was asked is asked for anew, and not answered."""
        made = choice_of(event)
        if made is not None:
            decide(before, seeded(before.spec.seed), _Recalled(self._asked, made))
            skipped, explored = made.reason == "skip", made.reason == "counterfactual"
            n, m = self.counts.n_skipped + skipped, self.counts.n_counterfactual + explored
            self.counts = replace(self.counts, n_skipped=n, n_counterfactual=m)
        self.told(event)


class _Recalled:
    """Answers as recorded, and notes what was asked."""

    def __init__(self, asked: dict[tuple[Stage, int], tuple[AllocatorContext, Choice]], made: Choice) -> None:
        self._asked, self._made = asked, made

    def choice(self, facts: Facts, subject: int) -> Choice:
        self._asked[facts.stage, subject] = facts.context, self._made
        return self._made


def injected(allocator: object, recorded: Allocator | None) -> Injected | None:
    """What the driver hands to `decide`: for an allocator of one's own, the object in its guard."""
    if not isinstance(recorded, Own):
        return None
    if isinstance(allocator, AllocatorPolicy):
        return Guarded(allocator, recorded.name)
    if isinstance(allocator, OlderAllocator):
        return Elder(allocator, recorded)
    raise UsageError(f"this run is allocated by {recorded.name}: give that object as allocator=")


def _broken(name: str, method: str, error: Exception) -> UsageError:
    return UsageError(f"allocator {name}: {method} raised {type(error).__name__}: {error}; mend it, and resume the run")
