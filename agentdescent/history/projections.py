"""What every summary of a run shows, folded together while it goes on: the result of `evolve` and the report."""

from __future__ import annotations

from agentdescent.engine.event import Event, Judged
from agentdescent.engine.state import State
from agentdescent.history import gates, rounds
from agentdescent.history import recall as recalls
from agentdescent.history.allocations import Allocations
from agentdescent.history.gates import Savings
from agentdescent.history.recall import Recall
from agentdescent.history.rounds import RoundInfo, Tally
from agentdescent.history.summary import Degraded, degrade


class Projections:
    """`saved`: what curtailed gates did not have to ask. `junk`: expected commits that are no improvement. `degraded`:
    optional spends given up. `allocations`, `recall`: of the allocator, and of gates stopped by prediction. `history`:
    the rounds so far."""

    def __init__(self) -> None:
        self.saved = Savings()
        self.junk = 0.0
        self.degraded: tuple[Degraded, ...] = ()
        self.allocations = Allocations()
        self.recall = Recall()
        self.history: list[RoundInfo] = []
        self._tally = Tally()

    def fold(self, event: Event, state: State) -> RoundInfo | None:
        """`state` is the one after the event. Returns the round that it completes, if it does. Of RolledOut, half of
        all events, nothing here wants to know."""
        if isinstance(event, Judged):
            self.saved = gates.observe(self.saved, event, state)
            self.junk += gates.doubt(event)
        self.allocations.fold(event)
        self.degraded = degrade(self.degraded, event, state)
        self.recall = recalls.observe(self.recall, event)
        self._tally, done = rounds.observe(self._tally, event, state)
        if done is not None:
            self.history.append(done)
        return done
