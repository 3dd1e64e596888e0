"""What the engine knows: a fold of the log, bounded by open work and the live heads, never by the run's length.

`initial` makes the state of a run that has not begun; `apply` (transition.py) folds one event into it; `decide`
(decision.py) says what to record next; `due` lists the effects wanted and not answered. The phases:

    new -> base -> search <-> merge (a sweep is open) -> closing (test of the final artifact) -> stopped

At any moment Interrupted, an overrun or a fatal failure makes the state *halting*: no effect is decided any more,
what is open is awaited, then Stopped. Amended leads from stopped or halting back to where the run was.

Invariants (each a property test): spent + due + held <= cap in every unit; `due` is the sum of the reservations in
`window`; `held` is the sum of `base_hold`, `test_hold` and the holds of the gates; the dev head's held-out total never
falls; every proposal and candidate is closed by one Judged; `Wait` only while something is open.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent import vector
from agentdescent.allocation.allocator import Learned
from agentdescent.artifact.diff import Entries, digest
from agentdescent.artifact.strategy import render
from agentdescent.budget.governor import Caps, Governor
from agentdescent.budget.projection import Rounds
from agentdescent.budget.returns import Returns
from agentdescent.budget.usage import NOTHING, Amount
from agentdescent.engine.clusters import Clusters
from agentdescent.engine.command import Command
from agentdescent.engine.event import InterruptReason, Stopped, StopReason
from agentdescent.engine.flow import Flow, all_idle, lanes
from agentdescent.engine.spec import Setup, Spec, Split
from agentdescent.engine.window import Window, commands
from agentdescent.merge.audit import Audited
from agentdescent.merge.card import Card
from agentdescent.merge.futility import Rates
from agentdescent.merge.probe import Probe
from agentdescent.merge.rejected import NONE, Rejected
from agentdescent.merge.scores import Scores, blank
from agentdescent.merge.sweep import Sweep
from agentdescent.merge.unpaired import Prior
from agentdescent.merge.verdict import FailureEvidence
from agentdescent.merge.width import Yields
from agentdescent.record import Record
from agentdescent.search.advantage import Groups
from agentdescent.search.candidate import Candidate
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


class Member(Record, frozen=True):
    """One artifact of the population. `parent`: the version it was made of, or the nearest ancestor that is still a
    member, -1 for none. `depth`: commits from the start. `successor`: the version that took its place, -1 while it is
    live."""

    head: Head
    candidate: Candidate
    parent: int = -1
    depth: int = 0
    successor: int = -1


class Population(Record, frozen=True):
    """Members by version, `newest` the number of the last version made. `dev`: the version of the dev head."""

    members: tuple[Member, ...] = ()
    newest: int = 0
    dev: int = 0


class Worker(Record, frozen=True):
    """One lane of a worker (its only one but for the continuous schedule in order), and the turn in it: `rolling` a
    train task, `rolled` (to propose), `proposed` (to verify), `verified`.

    `turns`: tasks taken so far. `path`: the worst case of the proposal it may still ask for, part of
    `State.expected`. `task` indexes the run's tasks, `score` in millionths, `size` bytes of the output. `subject`:
    its proposal while that is neither a card nor closed, else -1. `failure`: why the proposal cannot be had.
    `in_vain`: turns in a row whose rollout could not be had, -1 once one could, in all lanes of a worker and kept in
    its first. At RETIRE_AFTER the worker, for which nothing has ever worked, is `retired` and starts no more. `tokens`:
    used in this turn, where an allocator asks. `asked`: proposals that the rollout of this turn has led to.
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
    tokens: int = 0


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


class Kin(Record, frozen=True):
    """Proposals of one task cluster: how many came to an outcome that is learned, and how many of those committed."""

    cluster: str
    commits: int = 0
    closed: int = 0


class State(Record, frozen=True):
    """See the head of this module. `solved_at`: the score in millionths from which a task is solved.
    `position[i]`: where task i stands in its part (train, held-out, test).

    `workers`: one a lane. `ready`: lanes with something to decide. Rounds: `cursor`, the first worker that may still
    start in this `round`. Continuous: `flow`, which lanes may start a turn; every n_workers turns are a round.
    `head`: the one that the merge is at; `population`: all of them, empty with SingleHead (see population.py).
    `expected`: the proposals that rollouts in progress may lead to. `base`: the start being scored. `testing`: the
    head being scored on the test part, `tested`: the last artifact that was. `quiet`: merges in a row without a commit
    or a veto. `clusters`, `taken` (turns by cluster), `tallies` (by train task), `yields`: where the sampler or the
    width of a fusion asks for them. `returns`: what tokens bought, by rounds or merges; `costs`: what rounds cost. Each
    only where the spec asks for it. `kin`: what became of proposals, by cluster; `rates`: what gates brought. `prior`,
    `trust`: what completed gates taught. `audited`: what the oracle said of the head.
    """

    spec: Spec
    setup: Setup
    governor: Governor
    head: Head
    stable: Version
    population: Population = Population()
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
    returns: Returns = Returns()
    costs: Rounds = Rounds()
    kin: tuple[Kin, ...] = ()
    rates: Rates = Rates()
    cheap: Sizes = Sizes()
    prior: Prior = Prior()
    trust: float = 1.0
    audited: Audited = Audited()
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
        trust=spec.audit.start,
    )


def due(state: State) -> tuple[Command, ...]:
    """Effects decided on and not yet answered, oldest first: what a recovered driver has to perform."""
    return commands(state.window)


def caps(state: State) -> Caps:
    """The caps in force: those of the spec, or the last that amended them."""
    return state.governor.caps


def quiet_merges(state: State) -> int:
    """Merges in a row without a commit or a veto, the last one that is over included."""
    if state.sweep is None:
        return state.quiet
    return 0 if state.sweep.committed or state.sweep.vetoed else state.quiet + 1
