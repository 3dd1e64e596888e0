"""The truth of a what-if: what every decision of a run in a world would have come to, had it been taken otherwise.

A run is made decision by decision. At each choice of its allocator that both ways of choosing had a chance at, the run
is forked: the other way is chosen, and the fork goes on, with the answers of the world, until the candidate is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from agentdescent.allocation.choice import Choice
from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import render
from agentdescent.effects import Performer
from agentdescent.engine.command import Rollout
from agentdescent.engine.decision import Wait, decide
from agentdescent.engine.draw import Draw, seeded
from agentdescent.engine.event import Committed, Decided, Event, GateOpened, Judged, Skipped, Stopped
from agentdescent.engine.state import State, initial
from agentdescent.engine.transition import apply
from agentdescent.engine.view import entries_for
from agentdescent.engine.window import next_in_order, take
from agentdescent.history.outcomes import choice_of, labels_of
from agentdescent.job import Options, prepare
from agentdescent.ports import Item
from agentdescent_adapters.worlds.calls import MILLION, Immediate
from agentdescent_adapters.worlds.suite import Setting
from bench.trial import performed


class Came(NamedTuple):
    """What a candidate came to from a decision on: as a recorded decision."""

    tokens: int = 0
    commits: int = 0
    gain: float = 0.0


class Walk:
    """A run in a world, which can be forked."""

    def __init__(self, setting: Setting, options: Options) -> None:
        given: Options = {"rounds": None, **setting.options, **options, "agent": Immediate(setting.agent)}
        job = prepare(setting.tasks, setting.scorer, given)
        self.performer = Performer(job.ports, job.tasks, job.spec.strategy)
        self.draw = seeded(job.spec.seed)
        self.state = initial(job.spec, job.setup)
        self.texts: dict[str, tuple[Entries, str]] = {}
        self.outputs: dict[int, str] = {}
        self.asked: dict[int, Item] = {}
        self.lanes: dict[int, int] = {}

    def fork(self) -> Walk:
        """Another at the same place; the world is shared, which never changes."""
        other = object.__new__(Walk)
        other.performer, other.draw, other.state, other.texts = self.performer, self.draw, self.state, self.texts
        other.outputs, other.asked, other.lanes = dict(self.outputs), dict(self.asked), dict(self.lanes)
        return other

    def next(self, draw: Draw | None = None) -> Event:
        step = decide(self.state, draw or self.draw)
        if not isinstance(step, Wait):
            return step
        item = self.asked.pop(next_in_order(step.window))
        outcome, output = performed(self.performer, item)
        if isinstance(item.command, Rollout) and item.command.purpose == "rollout":
            self.outputs[self.lanes[item.command.id]] = output
        return outcome

    def fold(self, event: Event) -> State:
        """The state before it."""
        before, self.state = self.state, apply(self.state, event)
        if isinstance(event, Decided):
            command = event.command
            if command.artifact not in self.texts:
                entries = entries_for(self.state, event)
                self.texts[command.artifact] = entries, render(self.state.spec.strategy, entries)
            output = self.outputs.get(event.worker, "")
            self.asked[command.id] = Item(command, *self.texts[command.artifact], output)
            self.lanes[command.id] = event.worker
        return before


def recorded(setting: Setting, options: Options, cap: int) -> tuple[list[Event], dict[int, Came]]:
    """The log of a run up to `cap` tokens, cut where nothing is open, and by event what its choice would have come to
    otherwise."""
    walk, events, otherwise = Walk(setting, options), list[Event](), dict[int, Came]()
    while walk.state.stopped is None and walk.state.governor.spent.tokens < cap:
        event = walk.next()
        choice = choice_of(event)
        if choice is not None and 0.0 < choice.propensity < 1.0 and isinstance(event, Decided | Skipped | GateOpened):
            otherwise[len(events)] = _other(walk.fork(), choice, event.subject)
        events.append(event)
        walk.fold(event)
    while walk.state.stopped is None and walk.state.window.count:  # what was asked is answered
        events.append(walk.next())
        walk.fold(events[-1])
    return events, otherwise


def _other(walk: Walk, choice: Choice, subject: int) -> Came:
    """The fork, chosen otherwise, until the candidate is closed."""
    purpose = "finish" if choice.stage == "finish" else f"allocate-{choice.stage}"
    forced = 1.0 - 2.0**-53 if choice.choice else 0.0
    flipped = _flipped(walk.draw, purpose, subject, forced)
    tokens, commits, gain = 0, 0, 0.0
    event: Event = walk.next(flipped)
    while not isinstance(event, Stopped):
        before = walk.fold(event)
        spent = walk.state.governor.spent.tokens - before.governor.spent.tokens
        if spent and take(before.window, getattr(event, "id", -1))[0].subject == subject:
            tokens += spent
        if isinstance(event, Committed) and event.subject == subject:
            base = before.head.scores
            return Came(tokens, commits + 1, gain + (event.total - base.total) / (MILLION * base.size))
        closes = isinstance(event, Judged) and subject in dict(labels_of(event))
        if closes and isinstance(event, Judged) and event.outcome != "committed":
            break
        event = walk.next(flipped)
    return Came(tokens, commits, gain)


def _flipped(draw: Draw, purpose: str, key: int, value: float) -> Callable[[str, int], float]:
    return lambda asked, about: value if (asked, about) == (purpose, key) else draw(asked, about)
