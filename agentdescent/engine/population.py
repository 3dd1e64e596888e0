"""Several live heads: what a turn starts from, which head a version is followed by, who leaves the population.

States, events and invariants: docs/decisions/0003-population.md. With SingleHead there are no members, and State.head
is the answer to every question here. The entry of the member that State.head is may be out of date; State.head is not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from agentdescent import vector
from agentdescent.budget.governor import remaining_fraction
from agentdescent.engine.draw import Draw
from agentdescent.engine.state import Head, Member, Population, State, Version
from agentdescent.errors import IllegalEvent
from agentdescent.merge.scores import record
from agentdescent.merge.sweep import Sweep, open_cards
from agentdescent.record import replace
from agentdescent.search.advantage import keep
from agentdescent.search.candidate import Candidate, SelectionContext
from agentdescent.search.selection import SingleHead, select


def _number(member: Member) -> int:
    return member.head.version.number


def _at(members: Sequence[Member], number: int) -> int:
    at = bisect_left(members, number, key=_number)
    if at == len(members) or _number(members[at]) != number:
        raise IllegalEvent(f"version {number} is not in the population")
    return at


def _current(state: State, member: Member) -> Head:
    return state.head if _number(member) == state.head.version.number else member.head


def dev_head(state: State) -> Head:
    """The member of the highest held-out total, the earlier of equal ones: what the run has come to."""
    members, dev = state.population.members, state.population.dev
    if not members or dev == state.head.version.number:
        return state.head
    return members[_at(members, dev)].head


def live(state: State, number: int) -> Head:
    """The head at which a proposal made for this version merges."""
    members = state.population.members
    if not members:
        return state.head
    member = members[_at(members, number)]
    while member.successor >= 0:
        member = members[_at(members, member.successor)]
    return _current(state, member)


def behind(state: State, newer: int, older: int) -> int:
    """Commits from one version to a later one of its lineage; 0 the other way round."""
    members = state.population.members
    if not members:
        return max(0, newer - older)
    return max(0, members[_at(members, newer)].depth - members[_at(members, older)].depth)


def held(state: State, artifact: str) -> bool:
    """Whether an artifact is in the population: it was scored, and is not scored again."""
    return any(member.candidate.artifact == artifact for member in state.population.members)


# --- what a turn starts from ------------------------------------------------------------------------------------------


def pick(state: State, turn: int, draw: Draw) -> Version:
    """What the policy starts turn number `turn` from."""
    members = state.population.members
    context = SelectionContext(
        candidates=tuple([member.candidate for member in members]),
        head=_at(members, state.population.dev),
        round=turn,
        budget_remaining=remaining_fraction(state.governor),
    )
    return members[select(state.spec.selection, context, draw)[0]].head.version


def shortest(state: State) -> Version:
    """The member that costs least to start from, the earlier of equal ones."""
    versions = [member.head.version for member in state.population.members]
    return min(versions, key=lambda version: version.size, default=state.head.version)


def picked(state: State, artifact: str) -> tuple[State, Version]:
    """A turn starts from this artifact: a visit, on it and its ancestors, and it is live."""
    members = list(state.population.members)
    at = next((i for i, member in enumerate(members) if member.candidate.artifact == artifact), -1)
    if at < 0:
        raise IllegalEvent(f"artifact {artifact} is not in the population")
    version = members[at].head.version
    members[at] = replace(members[at], successor=-1)
    while at >= 0:
        member = members[at]
        candidate = replace(member.candidate, visits=member.candidate.visits + 1)
        members[at] = replace(member, candidate=candidate)
        at = -1 if member.parent < 0 else _at(members, member.parent)
    return replace(state, population=replace(state.population, members=tuple(members))), version


def train_scored(state: State, version: Version, position: int, score: int) -> State:
    """A train task was run with this version, of which the state may know nothing any more."""
    head, members, bar = state.head, state.population.members, state.solved_at
    if version.artifact == head.version.artifact:
        return replace(state, head=replace(head, train=record(head.train, position, score, bar)))
    if not members:
        return state
    at = _at(members, version.number)
    head = members[at].head
    head = replace(head, train=record(head.train, position, score, bar))
    return _with(state, at, replace(members[at], head=head))


def _with(state: State, at: int, member: Member) -> State:
    members = state.population.members
    return replace(state, population=replace(state.population, members=(*members[:at], member, *members[at + 1 :])))


# --- what a merge is about --------------------------------------------------------------------------------------------


def facing(state: State, sweep: Sweep) -> State:
    """The state in which this sweep, open or about to begin, finds its head as State.head."""
    members = state.population.members
    if not members or sweep is state.sweep or sweep.version == state.head.version.number:
        return state
    head = members[_at(members, sweep.version)].head
    return replace(_brought_up_to_date(state), head=head)


def _brought_up_to_date(state: State) -> State:
    at = _at(state.population.members, state.head.version.number)
    return _with(state, at, replace(state.population.members[at], head=state.head))


# --- who is in it -----------------------------------------------------------------------------------------------------


def populated(state: State) -> State:
    """The base is scored, and the first member."""
    if isinstance(state.spec.selection, SingleHead):
        return state
    number = state.head.version.number
    member = Member(state.head, _candidate(state.head, None))
    return replace(state, population=Population((member,), newest=number, dev=number))


def _candidate(head: Head, parent: str | None) -> Candidate:
    scores, version = head.scores, head.version
    per_task = tuple(vector.items(scores.values))
    mean = scores.total // scores.size
    return Candidate(version.artifact, version.number, mean, per_task, parent=parent, cost=version.size)


def followed(state: State, head: Head) -> State:
    """`head` takes the place of the one that the merge is at. What nothing can be compared with any more goes."""
    if state.population.members:
        state = _joined(_brought_up_to_date(state), head)
    state = replace(state, head=head)
    if state.population.members:
        state = replace(state, population=_bounded(state, state.population))
    if not state.groups:
        return state
    copies = {worker.copy.number for worker in vector.items(state.workers) if worker.copy is not None}
    return replace(state, groups=keep(state.groups, copies | {head.version.number}))


def _joined(state: State, head: Head) -> State:
    best, number = dev_head(state), head.version.number
    base = state.head.version
    at = _at(state.population.members, base.number)
    parent = state.population.members[at]
    member = Member(head, _candidate(head, base.artifact), base.number, parent.depth + 1)
    members = _with(state, at, replace(parent, successor=number)).population.members
    dev = number if head.scores.total > best.scores.total else best.version.number
    return replace(state, population=Population((*members, member), newest=number, dev=dev))


def in_use(state: State) -> set[int]:
    """Versions of members that may not leave."""
    cards, at = state.cards, {state.head.version.number, state.population.dev}
    if state.sweep is not None:
        cards = (*cards, *open_cards(state.sweep))
        at.add(state.sweep.version)
    at.update(card.version for card in cards)
    for worker in vector.items(state.workers):
        if worker.copy is not None and worker.stage not in ("idle", "retired"):
            at.add(worker.copy.number)
    return at | {live(state, number).version.number for number in at}


def _bounded(state: State, population: Population) -> Population:
    """Without the worst members out of use beyond the limit, the earlier of equal ones."""
    members, limit = population.members, state.spec.population
    if len(members) <= limit:
        return population
    used = in_use(state)
    free = sorted((member.head.scores.total, _number(member)) for member in members if _number(member) not in used)
    for _, number in free[: len(members) - limit]:
        members = _without(members, members[_at(members, number)])
    return replace(population, members=members)


def _without(members: tuple[Member, ...], gone: Member) -> tuple[Member, ...]:
    number, left = _number(gone), list[Member]()
    for member in members:
        if member is gone:
            continue
        if member.parent == number:
            candidate = replace(member.candidate, parent=gone.candidate.parent)
            member = replace(member, parent=gone.parent, candidate=candidate)
        if member.successor == number:
            member = replace(member, successor=gone.successor)
        left.append(member)
    return tuple(left)
