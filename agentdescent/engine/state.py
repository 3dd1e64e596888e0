"""What the engine knows: a fold of the log, bounded by open work and the live head, never by the run's length.

`initial` makes the state of a run that has not begun; `apply` (transition.py) folds one event into it; `decide`
(decision.py) says what to record next; `due` lists the effects wanted and not answered. The phases:

    new -> base -> search <-> merge (a sweep is open) -> closing (test of the final artifact) -> stopped

At any moment Interrupted, an overrun or a fatal failure makes the state *halting*: no effect is decided any more,
what is open is awaited, then Stopped. Amended leads from stopped or halting back to where the run was.

Invariants (each a property test): spent + due + held <= cap in every unit; `due` is the sum of the reservations in
`window`; `held` is the sum of `base_hold`, `test_hold` and the holds of the gates; the head's held-out total never
falls; every proposal and candidate is closed by one Judged; `Wait` only while something is open.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent import vector
from agentdescent.allocation.allocator import Learned
from agentdescent.artifact.diff import Entries, digest
from agentdescent.artifact.strategy import render
from agentdescent.budget.governor import Caps, Governor
from agentdescent.budget.usage import NOTHING, Amount
from agentdescent.engine.clusters import Clusters
from agentdescent.engine.command import Command
from agentdescent.engine.event import InterruptReason, Stopped, StopReason
from agentdescent.engine.flow import Flow, all_idle, lanes
from agentdescent.engine.spec import Setup, Spec, Split
from agentdescent.engine.window import Window, commands
from agentdescent.merge.card import Card
from agentdescent.merge.probe import Probe
from agentdescent.merge.rejected import NONE, Rejected
from agentdescent.merge.scores import Scores, blank
from agentdescent.merge.sweep import Sweep
from agentdescent.merge.verdict import FailureEvidence
from agentdescent.merge.width import Yields
from agentdescent.record import Record
from agentdescent.search.advantage import Groups
from agentdescent.search.sampling import Tally

RETIRE_AFTER = 3
Stage: TypeAlias = Literal[
    "idle", "rolling", "reroll", "rolled", "proposing", "proposed", "verifying", "verified", "retired"
]


class Version(Record, frozen=True):
    """An artifact at a version of the head; `artifact` is the digest and `size` the UTF-8 bytes of its rendering."""

    number: int
    entries: Entries
    artifact: str
    size: int


class Head(Record, frozen=True):
    """The live artifact, its held-out scores and the gate order that follows from them.

    `train`: scores of this version on train tasks, as far as they came to be known. `rejected`: diffs refused
    against this version.
    """

    version: Version
    scores: Scores
    train: Scores
    order: tuple[int, ...] = ()
    prefix: tuple[int, ...] = ()
    rejected: Rejected = NONE


class Worker(Record, frozen=True):
    """One lane of a worker (its only one but for the continuous schedule in order), and the turn in it: `rolling` a
    train task, `rolled` (to propose), `proposed` (to verify), `verified`.

    `turns`: tasks taken so far. `path`: the worst case of the proposal it may still ask for, part of
    `State.expected`. `task` indexes the run's tasks, `score` in millionths, `size` bytes of the output. `subject`:
    its proposal while that is neither a card nor closed, else -1. `failure`: why the proposal cannot be had.
    `in_vain`: turns in a row whose rollout could not be had, -1 once one could, in all lanes of a worker and kept in
    its first. At RETIRE_AFTER the worker, for which nothing has ever worked, is `retired` and starts no more.
    `asked`: proposals that the rollout of this turn has led to.
    """

    stage: Stage = "idle"
    turns: int = 0
    copy: Version | None = None
    task: int = -1
    rollout: int = -1
    score: int = 0
    size: int = 0
    subject: int = -1
    attempt: int = 0
    card: Card | None = None
    path: Amount = NOTHING
    failure: FailureEvidence | None = None
    in_vain: int = 0
    advantage: float | None = None
    asked: int = 0


class Sizes(Record, frozen=True):
    """Task sizes such that the worst case of scoring all of them is a sum in closed form: `whole` is the sum of
    size // bytes_per_token, `residues[r]` counts the sizes that leave r."""

    count: int = 0
    whole: int = 0
    residues: tuple[int, ...] = ()


class Health(Record, frozen=True):
    """Failures: in a row over all calls; of proposals in this round, and in a row (`refused`); rounds in a row in
    which all of them failed. `retired`: workers that gave up. `fatal`: why the run cannot go on."""

    in_a_row: int = 0
    ever: bool = False
    proposals: int = 0
    proposals_failed: int = 0
    refused: int = 0
    barren_rounds: int = 0
    retired: int = 0
    last: str = ""
    fatal: str = ""


class State(Record, frozen=True):
    """See the head of this module. `solved_at`: the score in millionths from which a task is solved.
    `position[i]`: where task i stands in its part (train, held-out, test).

    `workers`: one a lane. `ready`: lanes with something to decide. Rounds: `cursor`, the first worker that may still
    start in this `round`. Continuous: `flow`, which lanes may start a turn; every n_workers turns are a round.
    `expected`: the proposals that rollouts in progress may lead to. `base`: the start being scored. `testing`: the
    head being scored on the test part, `tested`: the last artifact that was. `quiet`: merges in a row without a commit.
    `clusters`, `taken` (turns by cluster), `tallies` (by train task), `yields`: where the sampler or the width of a
    fusion asks for them.
    """

    spec: Spec
    setup: Setup
    governor: Governor
    head: Head
    stable: Version
    split: Split = Split((), (), (), ())
    position: tuple[int, ...] = ()
    solved_at: int = 1_000_000
    heldout: Sizes = Sizes()
    test: Sizes = Sizes()
    started: bool = False
    seq: int = 0
    next_command: int = 0
    next_subject: int = 0
    window: Window = Window()
    base: Probe | None = None
    base_hold: Amount = NOTHING
    testing: Probe | None = None
    tested: str = ""
    test_base: Scores | None = None
    test_final: Scores | None = None
    test_hold: Amount = NOTHING
    base_total: int = 0
    workers: vector.Vector[Worker] = ()
    ready: tuple[int, ...] = ()
    flow: Flow = Flow()
    cursor: int = 0
    round: int = 0
    expected: Amount = NOTHING
    cards: tuple[Card, ...] = ()
    sweep: Sweep | None = None
    improved_round: int = 0
    quiet: int = 0
    health: Health = Health()
    groups: Groups = ()
    clusters: Clusters = Clusters()
    taken: tuple[int, ...] = ()
    tallies: vector.Vector[Tally] = ()
    yields: Yields = Yields()
    learned: Learned = Learned()
    closing: StopReason | None = None
    interrupted: InterruptReason | None = None
    stopped: Stopped | None = None


def version_of(spec: Spec, number: int, entries: Entries) -> Version:
    data = render(spec.strategy, entries).encode()
    return Version(number, entries, digest(data), len(data))


def initial(spec: Spec, setup: Setup) -> State:
    """A run that has not begun: `decide` on it gives Started."""
    version = version_of(spec, 0, setup.artifact)
    return State(
        spec=spec,
        setup=setup,
        governor=Governor(spec.caps, setup.tariff),
        head=Head(version, blank(0), blank(0)),
        stable=version,
        workers=vector.pack([Worker()] * lanes(spec)),
        flow=all_idle(spec),
        cursor=spec.n_workers,
        solved_at=round(spec.solved_threshold * 1_000_000),
    )


def due(state: State) -> tuple[Command, ...]:
    """Effects decided on and not yet answered, oldest first: what a recovered driver has to perform."""
    return commands(state.window)


def caps(state: State) -> Caps:
    """The caps in force: those of the spec, or the last that amended them."""
    return state.governor.caps


def quiet_merges(state: State) -> int:
    """Merges in a row without a commit, the last one that is over included."""
    if state.sweep is None:
        return state.quiet
    return 0 if state.sweep.committed else state.quiet + 1
