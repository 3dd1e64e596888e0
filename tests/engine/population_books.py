"""Books of the population, kept from the events alone and compared with the engine's after every event."""

from __future__ import annotations

from collections import Counter

from agentdescent import State, apply, initial, vector
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import Committed, Decided, Event, GateOpened
from agentdescent.engine.population import dev_head, in_use, live
from agentdescent.engine.state import Member
from agentdescent.merge.sweep import open_cards
from agentdescent.record import replace
from tests.strategies import Job


def members(state: State) -> tuple[Member, ...]:
    """As of now: the entry of the head that the merge is at is brought up to date."""
    now = state.head.version.number
    return tuple(
        replace(member, head=state.head) if member.head.version.number == now else member
        for member in state.population.members
    )


class Kept:
    """Books of the population, kept from the events alone and compared after every event."""

    def __init__(self) -> None:
        self.parent: dict[int, int] = {}
        self.made: dict[str, int] = {}  # the version that has this artifact
        self.visits: Counter[int] = Counter()
        self.base: dict[int, int] = {}  # of proposals: the version that they were made for

    def observe(self, before: State, event: Event, after: State) -> None:
        if before.base is not None and after.base is None:
            self.made = {after.head.version.artifact: 0}
            assert [member.head for member in after.population.members] == [after.head]
        turn = isinstance(event, Decided) and isinstance(event.command, Rollout) and event.command.purpose == "rollout"
        if isinstance(event, Decided) and turn:
            self._picked(before, event)
        elif isinstance(event, Decided) and isinstance(event.command, Propose):
            self.base[event.subject] = self.made[event.command.artifact]
        elif isinstance(event, GateOpened):
            for subject in event.contributors:
                assert self._leads_to(self.base[subject], event.version)
        elif isinstance(event, Committed):
            assert event.version == before.population.newest + 1 == after.population.newest
            assert event.artifact not in {member.candidate.artifact for member in before.population.members}
            self.parent[event.version], self.made[event.artifact] = event.base, event.version
            kept = {member.head.version.number for member in after.population.members}
            assert len(kept) <= after.spec.population or kept <= in_use(after)
        if after.population.members:
            self.compare(after)

    def _picked(self, before: State, event: Decided) -> None:
        worker = vector.get(before.workers, event.worker)
        if event.attempt == 0 and not (worker.stage == "reroll" and event.round == before.round):
            number: int | None = self.made[event.command.artifact]
            while number is not None:
                self.visits[number] += 1
                number = self.parent.get(number)

    def _leads_to(self, older: int, newer: int) -> bool:
        while newer > older:
            newer = self.parent[newer]
        return newer == older

    def compare(self, state: State) -> None:
        kept = members(state)
        numbers = [member.head.version.number for member in kept]
        assert numbers == sorted(set(numbers))
        assert len({member.candidate.artifact for member in kept}) == len(kept)
        dev = dev_head(state)
        assert dev.scores.total == max(member.head.scores.total for member in kept)
        assert dev.version.number in numbers
        by_number = dict(zip(numbers, kept, strict=True))
        for number, member in by_number.items():
            seen, scores = member.candidate, member.head.scores
            assert seen.visits == self.visits[number]
            assert (seen.artifact, seen.version, seen.cost) == (
                member.head.version.artifact,
                number,
                member.head.version.size,
            )
            assert seen.per_task == tuple(vector.items(scores.values))
            assert seen.score == scores.total // scores.size
            assert scores.count == scores.size
            assert member.head.order
            # The nearest ancestor that is still a member.
            above = self.parent.get(number, -1)
            while above >= 0 and above not in by_number:
                above = self.parent.get(above, -1)
            assert member.parent == above
            assert seen.parent == (None if above < 0 else by_number[above].candidate.artifact)
            assert member.depth == self._depth(number)
            if member.successor >= 0:
                assert self._leads_to(number, member.successor)
                assert member.successor in by_number
        for card in (*state.cards, *(() if state.sweep is None else open_cards(state.sweep))):
            assert self._leads_to(card.version, live(state, card.version).version.number)

    def _depth(self, number: int) -> int:
        return 1 + self._depth(self.parent[number]) if number in self.parent else 0


def audited(job: Job, log: list[Event]) -> State:
    """Fold a log under these books."""
    state, books = initial(job.spec, job.setup), Kept()
    for event in log:
        after = apply(state, event)
        books.observe(state, event, after)
        state = after
    return state
