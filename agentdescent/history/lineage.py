"""Where every line of the artifact came from: which proposal, from which failure, with which gains and losses."""

from __future__ import annotations

from collections.abc import Iterable

from agentdescent.artifact.diff import Ops
from agentdescent.engine.command import Propose
from agentdescent.engine.event import Committed, Decided, Event, GateOpened, Judged, Proposed, Started
from agentdescent.engine.state import State, initial
from agentdescent.engine.transition import apply
from agentdescent.errors import CorruptLog
from agentdescent.merge.scores import Scores, score_at
from agentdescent.merge.verdict import GateEvidence
from agentdescent.record import Record


class Origin(Record, frozen=True):
    """A proposal: by which worker, after which train task (its id) on which the agent scored `score` in [0, 1]."""

    subject: int
    worker: int
    task: str
    score: float
    ops: Ops


class Commit(Record, frozen=True):
    """A version of the head, made of `origins`. `gained`, `lost`: ids of held-out tasks whose score rose or fell;
    `p` and `bar` in [0, 1]; `reward`: held-out mean after it; `base`: the version it was made of."""

    version: int
    subject: int
    origins: tuple[Origin, ...]
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    p: float
    bar: float
    reward: float
    base: int = 0


def lineage(events: Iterable[Event]) -> tuple[State, tuple[Commit, ...]]:
    """The last state and every commit, oldest first. Raises CorruptLog when the log does not begin with Started."""
    state: State | None = None
    asked: dict[int, Origin] = {}
    commands: dict[int, tuple[int, int, int, int]] = {}
    contributors: dict[int, tuple[int, ...]] = {}
    evidence: dict[int, GateEvidence] = {}
    commits: list[Commit] = []
    for event in events:
        if isinstance(event, Started):
            state = initial(event.spec, event.setup)
        if state is None:
            raise CorruptLog("the log does not begin with Started", 1)
        before = state
        state = apply(state, event)
        match event:
            case Decided(command=Propose() as command):
                worker = event.worker % state.spec.n_workers
                commands[command.id] = (command.subject, worker, command.task, command.score)
            case Proposed():
                subject, worker, task, score = commands.pop(event.id)
                name = state.setup.tasks[task].id
                asked[subject] = Origin(subject, worker, name, score / 1_000_000, event.ops)
            case GateOpened():
                contributors[event.subject] = event.contributors
            case Judged(evidence=GateEvidence() as found):
                evidence[event.subject] = found
            case Committed():
                commits.append(
                    _commit(
                        state,
                        before.head.scores,
                        event,
                        evidence[event.subject],
                        tuple(asked[subject] for subject in contributors[event.subject]),
                    )
                )
            case _:
                pass
    if state is None:
        raise CorruptLog("the log is empty")
    return state, tuple(commits)


def ancestry(commits: tuple[Commit, ...], version: int) -> tuple[Commit, ...]:
    """The commits that led to this version, oldest first."""
    of = {commit.version: commit for commit in commits}
    found: list[Commit] = []
    while version in of:
        found.append(of[version])
        version = found[-1].base
    return tuple(reversed(found))


def _commit(state: State, base: Scores, event: Committed, found: GateEvidence, origins: tuple[Origin, ...]) -> Commit:
    scores, heldout, tasks = state.head.scores, state.split.heldout, state.setup.tasks
    changes = [(tasks[index].id, score_at(scores, i) - score_at(base, i)) for i, index in enumerate(heldout)]
    return Commit(
        event.version or event.base + 1,
        event.subject,
        origins,
        tuple(name for name, change in changes if change > 0),
        tuple(name for name, change in changes if change < 0),
        found.p / 1_000_000,
        found.bar / 1_000_000,
        event.total / (1_000_000 * scores.size),
        event.base,
    )
