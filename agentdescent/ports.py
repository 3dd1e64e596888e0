"""What an adapter implements, and what it may do when things go wrong.

A failure of one call is a fact: raise anything, and it is recorded with its kind, charged, and asked again
while `attempts` allow. An exception that is a `UsageError` or a contract violation (a reward that is no
number, a reply that is no text) ends the run with its message. An adapter never changes what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec

from agentdescent.artifact.diff import Entries
from agentdescent.budget.tariff import Tariff
from agentdescent.budget.usage import Usage
from agentdescent.engine.command import Command
from agentdescent.engine.event import Event, Failed, FailureKind, Outcome

Repeat: TypeAlias = Literal["free", "charged"]
"""Whether an unanswered call may simply be made again. `free`: deterministic, cached or costless.
`charged`: a provider bills it; after a crash it is charged at its reservation and decided anew."""


class Task(msgspec.Struct, frozen=True):
    """One task. `id` is unique; `meta` is read-only, and `meta["cluster"]` groups similar tasks."""

    id: str
    prompt: str
    meta: Mapping[str, Any] = MappingProxyType({})

    @property
    def cluster(self) -> str:
        return str(self.meta.get("cluster", ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return Task, (self.id, self.prompt, dict(self.meta))


class Answer(msgspec.Struct, frozen=True):
    """What a port may return in place of a bare value, to say what the call consumed."""

    value: Any
    usage: Usage | None = None


class CallFailed(Exception):
    """Raised by an adapter that knows why a call failed, and what it cost all the same.

    `retry_after`: nothing was billed, and the call may be repeated after so many seconds (a 429, a refused
    connection). It is, within the deadline of the command. Without it the failure is recorded, and whether the slot is
    asked again is decided and paid for anew.
    """

    def __init__(
        self, kind: FailureKind, message: str, usage: Usage | None = None, *, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.usage = usage
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        return _call_failed, (self.kind, str(self), self.usage, self.retry_after)


def _call_failed(kind: FailureKind, message: str, usage: Usage | None, retry_after: float | None) -> CallFailed:
    return CallFailed(kind, message, usage, retry_after=retry_after)


@runtime_checkable
class Agent(Protocol):
    """Solves tasks with a rendered artifact, and proposes changes to it. Methods may be `async`.

    Optional attributes: `tariff: Tariff` (what calls can cost at most; without it costs are observed),
    `repeat: Repeat` (default "charged"), `name: str` (part of what a resume must match), `blocking: bool`
    (False: a synchronous method returns at once and needs no thread; default True), `strategy: Strategy` (in whose
    grammar it proposes: a run with another is refused), and
    `begin(train: Sequence[Task]) -> None`, called once before the first effect with the only tasks the
    agent may learn from.

    A `propose` with a parameter named `ceiling` is told the most completion tokens that its reply may take, None where
    nothing says so; `call_budget` needs one. A reply cut off there is no reply: raise CallFailed("truncated", ...) with
    its usage. The ceiling is of this call alone.
    """

    def solve(self, rendered: str, task: Task) -> Any:
        """The output (text) for `task`, bare or as `Answer`; may be awaitable."""

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        """A reply in the grammar of the strategy, or None to decline, bare or as `Answer`; may be awaitable.

        `score` in [0, 1], higher is better. `sample` numbers the proposal: equal arguments and sample may
        give an equal reply, another sample should give another.
        """


class Reward(Protocol):
    """Scores an output in [0, 1], higher is better; a float or `Answer(float, usage)`; may be awaitable.

    Optional attributes: `blocking` (False: it returns at once, and needs no thread beside an asynchronous agent;
    default True), `bills` (False: it never costs anything, so one that raises is charged nothing; default True) and
    `name`. A scorer that bills is part of the worst case of a solve; so is the oracle, a second one for audits.
    """

    def __call__(self, task: Task, output: str) -> Any: ...


class Log(Protocol):
    """Where the truth is kept. One writer. Raises OSError when it cannot, CorruptLog when it was damaged."""

    def events(self) -> Iterable[Event]:
        """Everything recorded, oldest first."""

    def recall(self, ids: Collection[int]) -> Mapping[int, tuple[Outcome, str]]:
        """Journalled answers to these commands, with the output text ("" for none)."""

    def append(self, event: Event) -> None:
        """Add a fact. It need not be durable before `sync`."""

    def answered(self, outcome: Outcome, output: str, seconds: float, refused: int = 0) -> None:
        """Journal an answer the moment it arrives; it survives the death of the process from here on. `seconds` and
        `refused`, attempts that were turned away and repeated, are no facts: no digest covers them."""

    def sync(self) -> None:
        """Return only once every answer and every event so far survives a crash, answers first."""

    def close(self) -> None: ...

    @property
    def digest(self) -> str:
        """The running digest of all events appended so far."""

    @property
    def path(self) -> str | None:
        """Where it is, None in memory."""


class Item(NamedTuple):
    """One effect as plain data: the command, the artifact it names as entries and as text, and for a proposal the
    output it is about. `answered`: the agent has been called already and returned `value`, which is to be scored."""

    command: Command
    entries: Entries
    text: str
    output: str = ""
    value: Any = None
    answered: bool = False


Result: TypeAlias = tuple[Outcome, str]
"""An outcome and the output text that goes with it ("" for none)."""


class Retry(NamedTuple):
    """The call was not billed and may be repeated `after` seconds; `failed`: what it comes to otherwise."""

    after: float
    failed: Failed


@runtime_checkable
class Executor(Protocol):
    """Where effects are performed that would block: threads, other processes, other machines.

    `open` is called once, `close` once; between them `submit` from one thread. Failures of the executor's own are
    results: Failed for an effect that cannot be performed, `ExecutorLost` when nothing more can be. It owes no answer
    in time (the run keeps the deadline), but must never keep the process from ending.
    """

    def open(self, perform: Callable[[Item], Result | Retry], repeat: Repeat) -> None:
        """`perform` never raises, and can be pickled if the ports can. With `repeat` "charged" an effect must not be
        performed twice, also where a worker died; with "free" it may. Raises UsageError when it cannot be sent."""

    def submit(self, item: Item, done: Callable[[Result | Retry | BaseException], None]) -> None:
        """Perform it some time; tell `done` from any thread."""

    def close(self) -> None:
        """Give up what was not answered. Does not wait for it."""


__all__ = [
    "Agent",
    "Answer",
    "CallFailed",
    "Executor",
    "Item",
    "Log",
    "Repeat",
    "Result",
    "Retry",
    "Reward",
    "Tariff",
    "Task",
    "Usage",
]
