"""A recorded run under another cap on tokens: decided anew, with the answers of the log as long as it asks the same.

Everything up to the first effect that the log never asked for is exact: the decisions are those of the engine, the
answers were given to the same commands. Where the run under the other cap ends before that, all of it is exact. Beyond
it the log says nothing, and neither does this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentdescent.allocation.own import Own
from agentdescent.allocation.policies import AllocatorPolicy
from agentdescent.engine.decision import Wait, decide
from agentdescent.engine.draw import seeded
from agentdescent.engine.event import (
    Abandoned,
    Amended,
    Committed,
    Decided,
    Event,
    Failed,
    Interrupted,
    Proposed,
    RolledOut,
    Started,
    Stopped,
    StopReason,
)
from agentdescent.engine.population import dev_head
from agentdescent.engine.spec import RULES
from agentdescent.engine.state import State, initial
from agentdescent.engine.transition import apply
from agentdescent.errors import CorruptLog, UsageError
from agentdescent.history.replay import nowhere
from agentdescent.history.rounds import mean
from agentdescent.record import Record, replace

_ANSWERS = RolledOut | Proposed | Failed | Abandoned


class UnderCap(Record, frozen=True):
    """The run under `cap`, as far as it is exact: `events`, of which the first `same` are those of the log but for the
    cap; `tokens`, `commits` and the head's held-out mean `reward` at its end, None where the start was not scored (a
    new call would refuse such a run). `reason`: why that run ended; None where it goes on with something that the log
    never asked for, which `beyond` names."""

    cap: int
    events: int
    same: int
    tokens: int
    commits: int
    reward: float | None
    reason: StopReason | None
    beyond: str = ""

    @property
    def complete(self) -> bool:
        """The whole run is known, and not only its beginning."""
        return self.reason is not None


def under_cap(events: Iterable[Event], cap: int, find: Callable[[Own], AllocatorPolicy | None] = nowhere) -> UnderCap:
    """`find` gives the policy of one's own that a run names. Raises CorruptLog when the log does not begin with
    Started, UsageError for a cap below 1 and for an allocator that cannot be asked again."""
    if cap < 1:
        raise UsageError(f"cap is {cap}: it is a number of tokens, at least 1")
    log = tuple(events)
    first = log[0] if log else None
    if not isinstance(first, Started):
        raise CorruptLog("the log does not begin with Started", len(log[:1]))
    spec = first.spec
    if spec.rules != RULES:
        raise CorruptLog(f"the log was decided by rules {spec.rules}; this version knows rules {RULES}", 1)
    policy = find(spec.allocator) if isinstance(spec.allocator, Own) else None
    if isinstance(spec.allocator, Own) and policy is None:
        raise UsageError(f"the allocator {spec.allocator.name} cannot be asked again, so nothing can be decided anew")
    spec = replace(spec, caps=replace(spec.caps, tokens=cap))
    state, draw, known = initial(spec, first.setup), seeded(spec.seed), _Known(log)
    made, commits, beyond = list[Event](), 0, ""
    while state.stopped is None:
        step = decide(state, draw, policy)
        event = known.answer(step) if isinstance(step, Wait) else step
        if event is None or (isinstance(event, Decided) and not known.asked(event)):
            beyond = known.wants(state, event)
            break
        state = apply(state, event)
        made.append(event)
        commits += isinstance(event, Committed)
    reason = made[-1].reason if made and isinstance(made[-1], Stopped) else None
    tokens = state.governor.spent.tokens
    reward = mean(state) if state.started and state.base is None else None
    return UnderCap(cap, len(made), _same(made, log), tokens, commits, reward, reason, beyond)


class _Known:
    """What a log was asked and answered, up to where its driver interfered."""

    def __init__(self, log: tuple[Event, ...]) -> None:
        ends = (at for at, event in enumerate(log) if isinstance(event, Interrupted | Amended))
        self.interfered = next(ends, None)
        known = log[: self.interfered]
        self.commands = {event.command.id: event for event in known if isinstance(event, Decided)}
        self.answers = {event.id: event for event in known if isinstance(event, _ANSWERS)}
        self.order = {ident: at for at, ident in enumerate(self.answers)}

    def asked(self, event: Decided) -> bool:
        """Whether the log has the answer to just this: what is reserved for it and why it is made do not matter."""
        made = self.commands.get(event.command.id)
        if made is None or event.command.id not in self.answers:
            return False
        ours = replace(event, choice=made.choice, closing=made.closing)
        return replace(ours, command=replace(ours.command, reserve=made.command.reserve)) == made

    def answer(self, wait: Wait) -> Event | None:
        """The first of those that may be folded that the log has an answer to."""
        ids = [ident for ident in wait.admissible if ident in self.answers]
        return self.answers[min(ids, key=self.order.__getitem__)] if ids else None

    def wants(self, state: State, event: Event | None) -> str:
        if isinstance(event, Decided) and event.command.id not in self.commands and self.interfered is None:
            return f"it goes on after the log ends, from version {dev_head(state).version.number}"
        if self.interfered is not None:
            return f"the log was interrupted at event {self.interfered}"
        if not isinstance(event, Decided):
            return "an effect that the log never answered"
        tasks = state.setup.tasks
        return f"{type(event.command).__name__.lower()} of task {tasks[event.command.task].id}, never asked for there"


def _same(made: list[Event], log: tuple[Event, ...]) -> int:
    """How many events are those of the log, the cap in the first apart."""
    for at, (ours, theirs) in enumerate(zip(made[1:], log[1:], strict=False), 1):
        if ours != theirs:
            return at
    return min(len(made), len(log))
