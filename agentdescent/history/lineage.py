"""Where every line of the artifact came from: which proposal, from which failure, with which gains and losses."""

from __future__ import annotations

from collections.abc import Iterable

from agentdescent.artifact.diff import Drop, Entries, Ops
from agentdescent.engine.command import Propose
from agentdescent.engine.event import Committed, Decided, Event, GateOpened, Judged, Proposed
from agentdescent.engine.state import State
from agentdescent.errors import CorruptLog
from agentdescent.history.fold import folded
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


class Lineage:
    """Folds a log. `commits`: every commit so far, oldest first."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self._asked: dict[int, Origin] = {}
        self._commands: dict[int, Propose] = {}
        self._workers: dict[int, int] = {}
        self._contributors: dict[int, tuple[int, ...]] = {}
        self._evidence: dict[int, GateEvidence] = {}

    def fold(self, event: Event, before: State, after: State) -> None:
        """`before`, `after`: the states around the event."""
        match event:
            case Decided(command=Propose() as command):
                self._commands[command.id] = command
                self._workers[command.id] = event.worker % after.spec.n_workers
            case Proposed():
                command = self._commands.pop(event.id)
                task, score = after.setup.tasks[command.task].id, command.score / 1_000_000
                worker = self._workers.pop(event.id)
                self._asked[command.subject] = Origin(command.subject, worker, task, score, event.ops)
            case GateOpened():
                self._contributors[event.subject] = event.contributors
            case Judged(evidence=GateEvidence() as found):
                self._evidence[event.subject] = found
            case Committed():
                origins = tuple(self._asked[subject] for subject in self._contributors[event.subject])
                found = self._evidence[event.subject]
                self.commits.append(_commit(after, before.head.scores, event, found, origins))
            case _:
                pass


def lineage(events: Iterable[Event]) -> tuple[State, tuple[Commit, ...]]:
    """The last state and every commit, oldest first. Raises CorruptLog when the log does not begin with Started."""
    state: State | None = None
    lines = Lineage()
    for event, before, state in folded(events):
        lines.fold(event, before, state)
    if state is None:
        raise CorruptLog("the log is empty")
    return state, tuple(lines.commits)


class Line(Record, frozen=True):
    """An entry of the artifact, the commit that it is from, and which of its origins wrote it; None: the start."""

    key: str
    text: str
    commit: Commit | None = None
    origin: Origin | None = None


def sources(entries: Entries, commits: tuple[Commit, ...]) -> tuple[Line, ...]:
    """Each entry with the commit that wrote it last; `commits` those that led to the artifact, oldest first."""
    source: dict[str, tuple[Commit, Origin]] = {}
    for commit in commits:
        for origin in commit.origins:
            for op in origin.ops:
                if isinstance(op, Drop):
                    source.pop(op.key, None)
                else:
                    source[op.key] = commit, origin
    return tuple(Line(key, text, *source.get(key, (None, None))) for key, text in entries)


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
