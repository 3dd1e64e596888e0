"""A scripted world without time or chance: what it answers is a function of (seed, command, artifact); `play`, a pure
driver that admits answers in any order; and `Watch`, which keeps books of its own and compares them after every event.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from agentdescent import Caps, Setup, Spec, State, Tariff, Usage, Wait, apply, decide, due, initial, seeded, vector
from agentdescent.allocation.own import Injected
from agentdescent.artifact.diff import Add, Drop, Entries, Ops, Replace, digest
from agentdescent.artifact.strategy import Strategy, render
from agentdescent.budget.call_budget import ceiling, lowest
from agentdescent.budget.governor import Purpose, remaining_fraction
from agentdescent.budget.tariff import Rate, cost
from agentdescent.budget.usage import NOTHING, Amount, add, exceeds, smaller
from agentdescent.engine.command import Command, Propose, Rollout
from agentdescent.engine.event import (
    Abandoned,
    Amended,
    Committed,
    Decided,
    Event,
    Failed,
    FailureKind,
    GateOpened,
    Interrupted,
    Judged,
    Outcome,
    Promoted,
    Proposed,
    RolledOut,
    Skipped,
    Started,
    Stopped,
)
from agentdescent.engine.population import dev_head
from agentdescent.engine.spec import TaskInfo
from agentdescent.engine.view import entries_for
from agentdescent.engine.window import next_in_order, open_effects
from agentdescent.history.log import GENESIS, decode, encode
from agentdescent.merge.acceptance import MILLION, Unpaired
from agentdescent.merge.rule import accepts
from agentdescent.merge.unpaired import Counts
from agentdescent.merge.verdict import GateEvidence, OracleEvidence
from agentdescent.own import Elder
from agentdescent.record import Record

Kind: TypeAlias = Literal["good", "bad", "meh", "clash", "rename", "decline", "idle", "big", "long", "pair"]
MENU: tuple[Kind, ...] = ("good", "good", "good", "bad", "meh", "clash", "clash", "decline", "idle", "big", "pair")
KINDS: tuple[FailureKind, ...] = (
    *("timeout", "rate-limit", "provider", "empty", "truncated", "malformed", "overflow", "scorer"),
)
MEASURED: tuple[Purpose, ...] = ("gate", "conflict", "tournament")
START: Entries = (("k0", "good 0"), ("k1", "bad 1"), ("k2", "meh 2"))


def chance(*parts: object) -> float:
    """A uniform in [0, 1) that is a function of its arguments."""
    raw = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(raw, "big") / 2.0**64


def jobs(
    tasks: int = 12, *, workers: int = 2, size: int = 20, clusters: int = 3, rate: Rate | None = None
) -> tuple[Spec, Setup]:
    """A plain job under a strict tariff: the start of most scenarios."""
    solve = rate or Rate(strict=True, overhead=10, bytes_per_token=4, ceiling=50)
    setup = Setup(
        tuple(TaskInfo(f"t{i}", size, "x", f"c{i % clusters}") for i in range(tasks)), tariff=Tariff(solve, solve)
    )
    return Spec(caps=Caps(rounds=5), n_workers=workers), setup


class World(Record, frozen=True):
    """Shares are in [0, 1]. `failing`: of all calls; `failing_at`: of calls for that purpose, instead. `silent`:
    answers that do not say what they used. `exact`: answers that use all that was reserved; `over`: more than that.
    `solved`: tasks solved by an artifact of no effect. `grain`: scores are multiples of it, in millionths.
    `noise`: outcomes that a (text, task) flips; `doubt`: those the oracle sees the other way. `menu`: what proposals
    are drawn from."""

    seed: int = 0
    failing: float = 0.0
    failing_at: tuple[tuple[Purpose, float], ...] = ()
    silent: float = 0.0
    exact: float = 0.2
    over: float = 0.0
    solved: float = 0.3
    grain: int = MILLION
    noise: float = 0.0
    doubt: float = 0.0
    menu: tuple[Kind, ...] = MENU

    def u(self, *parts: object) -> float:
        return chance(self.seed, *parts)

    def score(self, task: int, rendered: str) -> int:
        """Of this text on this task, in millionths: nothing else enters."""
        first = self.u("base", task)
        value = int(first < self.solved) * MILLION if self.grain == MILLION else int(first * MILLION)
        for line in rendered.splitlines():
            word = line.removeprefix("- ").partition(" ")[0]
            effect = self.u("effect", line, task)
            if word == "good" and effect < 0.5:
                value += int((MILLION - value) * (1.0 if self.grain == MILLION else self.u("up", line, task)))
            elif word == "bad" and effect < 0.4:
                value -= int(value * (1.0 if self.grain == MILLION else self.u("down", line, task)))
        if self.u("noise", rendered, task) < self.noise:
            value = MILLION - value
        return value // self.grain * self.grain

    def oracle(self, task: int, rendered: str) -> int:
        """What the oracle says of this text on this task, in millionths."""
        value = self.score(task, rendered)
        return MILLION - value if self.u("doubt", rendered, task) < self.doubt else value

    def ops(self, subject: int) -> Ops:
        """Of proposal `subject`."""
        kind = self.menu[int(self.u("kind", subject) * len(self.menu))]
        n = int(self.u("text", subject) * 9)
        key = f"k{int(self.u('key', subject) * 3)}"
        match kind:
            case "good" | "bad" | "meh":
                return (Add(f"{kind}{n}", f"{kind} {n}"),)
            case "clash":
                word = "good" if n % 2 else "bad"
                return (Drop(key),) if n < 3 else (Replace(key, f"{word} {n}"),)
            case "rename":
                return (Drop("k2"), Add(f"other{n}", "meh 2"))
            case "decline":
                return ()
            case "idle":
                return (Drop("absent"),) if n < 4 else (Add("k0", "good 0"),)
            case "big":
                return tuple(Add(f"b{i}", f"meh {i}") for i in range(7)) if n < 5 else (Add("b", "x" * 40_000),)
            case "long":
                return (Add(f"long{n}", f"good {n} " + "x" * 3_000),)
            case "pair":
                return (Add(f"good{n}", f"good {n}"), Add(f"meh{n}", f"meh {n}"))

    def answer(self, state: State, decided: Decided) -> Outcome:
        """What the port says to an open command."""
        return self.reply(state.setup, state.spec.strategy, decided.command, entries_for(state, decided))

    def reply(self, setup: Setup, strategy: Strategy, command: Command, entries: Entries) -> Outcome:
        ident = command.id
        purpose: Purpose = command.purpose if isinstance(command, Rollout) else "propose"
        rate = setup.tariff.solve if isinstance(command, Rollout) else setup.tariff.propose
        usage = None if self.u("silent", ident) < self.silent else self.usage(rate, command)
        if self.u("fails", ident) < dict(self.failing_at).get(purpose, self.failing):
            kind = KINDS[int(self.u("failure", ident) * len(KINDS))]
            return Failed(ident, kind, f"{kind} in call {ident}", None if self.u("lost", ident) < 0.3 else usage)
        if isinstance(command, Propose):
            return Proposed(ident, self.ops(command.subject), usage)
        size = int(self.u("size", ident) * 4 * rate.ceiling)
        judge = self.oracle if purpose == "audit" else self.score
        score = judge(command.task, render(strategy, entries))
        if usage is not None and usage.calls > 1:
            half = Usage(completion=usage.completion // 2, calls=usage.calls - 1)
            rest = Usage(usage.prompt, usage.completion - half.completion, usage.cached)
            return RolledOut(ident, score, size, "0" * 32, rest, half)
        return RolledOut(ident, score, size, "0" * 32, usage)

    def usage(self, rate: Rate, command: Command) -> Usage:
        """At most what was reserved, sometimes exactly that, or one token more; of an observed port, anything."""
        ident, most = command.id, command.reserve
        if not rate.strict:
            return Usage(40 + int(self.u("prompt", ident) * 60), int(self.u("completion", ident) * 80))
        prompt, completion, calls = most.tokens - command.ceiling, command.ceiling, most.calls
        if self.u("exact", ident) >= self.exact:
            prompt -= int(self.u("prompt", ident) * prompt)
            completion -= int(self.u("completion", ident) * completion)
            calls = 1 + int(self.u("calls", ident) * calls)
        cached = int(self.u("cached", ident) * prompt) if rate.prices is not None else 0
        if self.u("over", ident) < self.over:
            prompt = most.tokens + 1
        return Usage(prompt, completion, cached, calls)


Order: TypeAlias = Callable[[tuple[int, ...], int], int]
"""Which of the admissible ids is answered next, given the number of events so far."""
Meddler: TypeAlias = Callable[[State, int], Event | None]
"""What a driver adds before the next decision, given the number of events so far. Orphans are admitted as answers are:
only while the engine waits."""


def oldest_first(admissible: tuple[int, ...], number: int) -> int:
    return admissible[0]


def any_order(seed: int) -> Order:
    return lambda admissible, number: admissible[int(chance(seed, "order", number) * len(admissible))]


def opened(state: State) -> tuple[Decided, ...]:
    return open_effects(state.window)


def abandon(state: State, seed: int, number: int) -> Abandoned | None:
    """An orphan that may be folded next, if any."""
    candidates = opened(state)
    if state.spec.admission == "ordered" and candidates:
        candidates = tuple(one for one in candidates if one.command.id == next_in_order(state.window))
    if not candidates:
        return None
    chosen = candidates[int(chance(seed, "orphan", number) * len(candidates))]
    return Abandoned(chosen.command.id, started=chance(seed, "began", number) < 0.7)


def play(
    spec: Spec,
    setup: Setup,
    world: World,
    *,
    order: Order = oldest_first,
    meddle: Meddler | None = None,
    log: Sequence[Event] = (),
    watched: bool = True,
    policy: Injected | None = None,
    limit: int = 5_000,
) -> tuple[State, list[Event]]:
    """A run in this world from the end of `log` (whose job it then is) to Stopped; AssertionError when any invariant
    breaks on the way. `policy`: what the spec's allocator names; an older object is told what is recorded."""
    if log and isinstance(log[0], Started):
        spec, setup = log[0].spec, log[0].setup
    state, events = initial(spec, setup), list[Event]()
    watch = Watch(world) if watched else None
    draw = seeded(spec.seed)

    def fold(event: Event) -> None:
        nonlocal state
        after = apply(state, event)
        if watch is not None:
            watch.observe(state, event, after)
        if isinstance(policy, Elder):
            if len(events) < len(log):
                policy.recall(state, event)
            else:
                policy.told(event)
        state = after
        events.append(event)

    for event in log:
        fold(event)
    while len(events) < limit:
        step = decide(state, draw, policy)
        if watch is not None:
            watch.decided(state, step)
        added = None if meddle is None else meddle(state, len(events))
        if added is not None and (isinstance(step, Wait) or not isinstance(added, Abandoned)):
            fold(added)
        elif state.stopped is not None:
            return state, events
        elif isinstance(step, Wait):
            chosen = order(step.admissible, len(events))
            fold(next(world.answer(state, one) for one in opened(state) if one.command.id == chosen))
        else:
            fold(step)
    raise AssertionError(f"no end after {limit} events")


def lines(events: Iterable[Event]) -> bytes:
    """The log as it would be on disk."""
    after, out = GENESIS, []
    for n, event in enumerate(events):
        line, after = encode(n, after, event)
        out.append(line)
    return b"".join(out)


def final_digest(events: Iterable[Event]) -> str:
    after = GENESIS
    for n, event in enumerate(events):
        _, after = encode(n, after, event)
    return after


def judged(events: Iterable[Event]) -> list[tuple[int, str]]:
    return [(event.subject, event.outcome) for event in events if isinstance(event, Judged)]


def calls(events: Iterable[Event], purpose: Purpose) -> list[Decided]:
    return [
        event
        for event in events
        if isinstance(event, Decided)
        and (event.command.purpose if isinstance(event.command, Rollout) else "propose") == purpose
    ]


def purpose_of(command: Command) -> Purpose:
    return command.purpose if isinstance(command, Rollout) else "propose"


class Watch:
    """Books kept apart from the engine's, from events alone, and compared with the engine's after every event."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.open: dict[int, Decided] = {}
        self.answered: set[int] = set()
        self.used: dict[Purpose, Amount] = {}
        self.assumed: dict[Purpose, int] = {}
        self.known: set[str] = set()  # kinds of calls of which an observed port has said what one costs
        self.subjects: set[int] = set()  # proposals and candidates not closed
        self.closed: set[int] = set()
        self.gates: dict[int, GateOpened] = {}
        self.entries: dict[int, Entries] = {}
        self.bases: dict[int, tuple[int, ...]] = {}
        self.won: int | None = None
        self.unaudited: set[int] = set()
        self.scored: Counter[tuple[int, str, int]] = Counter()  # (subject, artifact, held-out task), this head
        self.over = False
        self.halted = False
        self.after = GENESIS
        self.n = 0

    # --- what decide says -----------------------------------------------------------------------------------------

    def decided(self, state: State, step: object) -> None:
        if isinstance(step, Wait):
            ids = tuple(command.id for command in due(state))
            assert step.admissible, "waiting for nothing"
            assert set(step.admissible) <= set(ids), (step, ids)
            if state.spec.admission == "arrival":
                assert step.admissible == ids
            else:
                of_no_worker = [one.command.id for one in opened(state) if one.worker < 0]
                assert step.admissible == (*of_no_worker, *ids)[:1]
        elif isinstance(step, Stopped):
            assert due(state) == ()

    # --- what is folded -------------------------------------------------------------------------------------------

    def observe(self, before: State, event: Event, after: State) -> None:
        line, digested = encode(self.n, self.after, event)
        assert decode(line, self.n, self.after) == (event, digested)
        self.after, self.n = digested, self.n + 1
        assert after.seq == self.n
        match event:
            case Decided():
                self._asked(before, event)
            case RolledOut() | Proposed() | Failed() | Abandoned():
                self._answered(before, event, after)
            case Skipped():
                if event.purpose == "audit":
                    self._unaudited(before, event)
                if event.subject not in self.subjects:
                    self._new(event.subject)
            case GateOpened():
                self._gate_opened(before, event, after)
            case Judged():
                self._judged(before, event)
            case Committed():
                self._committed(before, event, after)
            case Stopped():
                assert self.won is None, f"{self.won} was judged committed and never was"
                gates = () if before.sweep is None else before.sweep.gates
                assert {gate.status for gate in gates if gate.audit is None} <= {"open", "stale"}, "paid, not judged"
                assert {gate.status for gate in gates} <= {"open", "stale", "accepted"}
                assert event.unresolved == tuple(sorted(self.subjects))
                self.halted = True
            case Promoted():
                assert not self.halted
                assert after.stable == dev_head(after).version
            case Interrupted():
                self.halted = True
            case Amended():
                self.halted = False
                self.over = not within(after)
            case Started():
                tasks = sorted((*event.split.train, *event.split.heldout, *event.split.test))
                assert tasks == list(range(len(event.setup.tasks)))
        if self.over and not isinstance(event, RolledOut | Proposed | Failed | Amended):
            assert not exceeds(claimed(after), claimed(before)), "more is claimed over the cap"
        if before.started:
            assert dev_head(after).scores.total >= dev_head(before).scores.total or before.base is not None
        self._balance(after)

    def _asked(self, state: State, event: Decided) -> None:
        command = event.command
        assert not self.halted, "an effect after the run was interrupted, ended or overran"
        assert command.id == len(self.open) + len(self.answered)
        self.open[command.id] = event
        assert 0 <= event.attempt < state.spec.attempts
        part = {
            "test": state.split.test,
            "base": state.split.heldout,
            "gate": state.split.heldout,
            "conflict": tuple(state.split.heldout[position] for position in state.split.cheap),
            "tournament": tuple(state.split.heldout[position] for position in state.split.cheap),
            "audit": tuple(state.split.heldout[position] for position in state.split.cheap),
        }.get(purpose_of(command), state.split.train)
        assert command.task in part
        rate = state.setup.tariff.solve if isinstance(command, Rollout) else state.setup.tariff.propose
        budget = state.spec.call_budget
        if budget is None or isinstance(command, Rollout):
            assert command.ceiling == rate.ceiling
        else:
            allocated = ceiling(budget, command.score, remaining_fraction(state.governor))
            assert lowest(budget) <= command.ceiling <= allocated
            assert command.ceiling % 16 == 0 or command.ceiling == budget.base
            if rate.strict:
                prompt = command.reserve.tokens - command.ceiling
                assert rate.overhead <= prompt
        limit = state.governor.caps.rounds
        assert limit is None or event.round <= limit or event.closing is not None
        if isinstance(command, Propose):
            if event.subject not in self.subjects:
                self._new(event.subject)
            assert command.subject == event.subject
        elif command.purpose == "tournament":
            if event.subject not in self.subjects:
                self._new(event.subject)
        elif command.purpose == "base":
            assert command.artifact == state.head.version.artifact

    def _new(self, subject: int) -> None:
        assert subject not in self.closed
        assert subject == len(self.subjects) + len(self.closed)
        self.subjects.add(subject)

    def _answered(self, before: State, event: RolledOut | Proposed | Failed | Abandoned, after: State) -> None:
        decided = self.open.pop(event.id)
        command = decided.command
        self.answered.add(event.id)
        kind, purpose = ("solve" if isinstance(command, Rollout) else "propose"), purpose_of(command)
        rate = before.setup.tariff.solve if isinstance(command, Rollout) else before.setup.tariff.propose
        rollouts = int(isinstance(command, Rollout))
        alone = not rate.strict and kind not in self.known
        if isinstance(event, Abandoned) or event.usage is None:
            used = Amount(0, 0, rate.calls, rollouts) if alone else command.reserve
            if not isinstance(event, Abandoned) or event.started:
                self._charge(purpose, used, used.tokens)
        else:
            total = event.usage.tokens
            self._charge(purpose, Amount(total, cost(rate.prices, event.usage), event.usage.calls, rollouts))
            if not isinstance(event, Failed):
                self.known.add(kind)
            if isinstance(event, RolledOut) and event.scoring is not None:
                scoring = event.scoring
                total += scoring.tokens
                self._charge("score", Amount(scoring.tokens, cost(rate.prices, scoring), scoring.calls, 0))
            if rate.strict:
                assert after.governor.overrun == (before.governor.overrun or total > command.reserve.tokens)
        if after.governor.overrun and not before.governor.overrun:
            self.over = self.halted = True
        if not rate.strict and not within(after):
            self.over = True  # an observed reservation was crossed
        if after.health.fatal:
            self.halted = True
        if isinstance(event, RolledOut) and isinstance(command, Rollout) and command.purpose in MEASURED:
            self.scored[decided.subject, command.artifact, command.task] += 1
        if isinstance(event, RolledOut):
            assert before.position[decided.command.task] in range(len(before.setup.tasks))

    def _charge(self, purpose: Purpose, used: Amount, assumed: int = 0) -> None:
        self.used[purpose] = add(self.used.get(purpose, NOTHING), used)
        self.assumed[purpose] = self.assumed.get(purpose, 0) + assumed

    def _gate_opened(self, before: State, event: GateOpened, after: State) -> None:
        assert not self.halted
        head = after.head
        assert (event.base, event.version) == (head.version.artifact, head.version.number)
        if event.contributors != (event.subject,):
            assert len(event.contributors) > 1
            if event.subject not in self.subjects:
                self._new(event.subject)
        assert set(event.contributors) <= self.subjects
        assert after.sweep is not None
        gate = next(gate for gate in after.sweep.gates if gate.subject == event.subject)
        assert len(after.sweep.gates) <= before.spec.open_gates
        data = render(before.spec.strategy, gate.entries).encode()
        assert (event.artifact, event.size) == (digest(data), len(data))
        spec = before.spec
        assert event.prior == (before.prior if isinstance(spec.acceptance, Unpaired) else None)
        wanted = spec.strategy.blast_radius > spec.audit.blast_radius or before.trust < spec.audit.trust
        assert (event.audit is not None) == bool(wanted and spec.oracle_budget)
        self.gates[event.subject] = event
        self.entries[event.subject] = gate.entries
        self.bases[event.subject] = tuple(vector.items(head.scores.values))

    def _judged(self, before: State, event: Judged) -> None:
        assert event.subject in self.subjects, (event, self.subjects)
        closed = {event.subject, *event.contributors}
        assert closed <= self.subjects, (event, self.subjects)
        opened_gate = self.gates.pop(event.subject, None)
        if isinstance(event.evidence, GateEvidence):
            assert opened_gate is not None
            self._verdict(before, event, opened_gate, event.evidence)
        elif isinstance(event.evidence, OracleEvidence):
            assert opened_gate is not None
            assert self._accepted(before, opened_gate)
            assert event.outcome == "oracle-rejected"
            assert self._oracle(before, opened_gate) == (event.evidence.own, event.evidence.base)
            assert event.evidence.own <= event.evidence.base
            assert event.evidence.total == len(before.split.cheap)
        else:
            assert event.outcome not in ("committed", "below-threshold", "regression", "oracle-rejected")
        if event.outcome == "committed":
            assert self.won is None
            self.won = event.subject
        self.subjects -= closed
        self.closed |= closed

    def _verdict(self, state: State, event: Judged, gate: GateOpened, evidence: GateEvidence) -> None:
        """Against the sweep of all held-out tasks, which the world knows and the engine may not have asked for."""
        base = self.bases[event.subject]
        gain, loss = self._sums(state, gate)
        accepted = self._accepted(state, gate)
        if accepted and gate.audit and event.subject not in self.unaudited:
            own, heads = self._oracle(state, gate)
            assert own > heads, "committed against the oracle"
        assert accepted == (event.outcome == "committed"), (event, gate, gain, loss)
        assert evidence.gain <= gain
        assert evidence.loss <= loss
        assert (evidence.bar, evidence.total) == (gate.bar, len(base))
        if evidence.answered == evidence.total:
            assert (evidence.gain, evidence.loss) == (gain, loss)
        else:
            assert event.outcome != "committed"
        assert event.outcome != "regression" or gain < loss

    def _sums(self, state: State, gate: GateOpened) -> tuple[int, int]:
        base, rendered = self.bases[gate.subject], render(state.spec.strategy, self.entries[gate.subject])
        truth = [self.world.score(task, rendered) for task in state.split.heldout]
        gain = sum(max(0, score - was) for score, was in zip(truth, base, strict=True))
        return gain, sum(max(0, was - score) for score, was in zip(truth, base, strict=True))

    def _accepted(self, state: State, gate: GateOpened) -> bool:
        base = self.bases[gate.subject]
        counts = Counts(sum(base), len(base))
        return accepts(gate.prior, counts, *self._sums(state, gate), gate.weight_gain, gate.weight_loss, gate.bar)

    def _oracle(self, state: State, gate: GateOpened) -> tuple[int, int]:
        """What the oracle says of the candidate and of the head, on the cheap subset."""
        both = [render(state.spec.strategy, one) for one in (self.entries[gate.subject], state.head.version.entries)]
        tasks = [state.split.heldout[position] for position in state.split.cheap]
        own, base = (sum(self.world.oracle(task, rendered) for task in tasks) for rendered in both)
        return own, base

    def _unaudited(self, before: State, event: Skipped) -> None:
        """Only where the oracle's budget did not cover it when the gate opened; and what follows is the commit."""
        gate = self.gates[event.subject]
        assert (gate.audit, event.reason) == (0, "unaffordable")
        assert self._accepted(before, gate)
        self.unaudited.add(event.subject)

    def _committed(self, before: State, event: Committed, after: State) -> None:
        assert event.subject == self.won
        self.won = None
        assert before.sweep is not None
        others = [gate for gate in before.sweep.gates if gate.subject != event.subject]
        assert not any(gate.audit is not None and gate.audit.base is not None for gate in others)
        head = after.head
        version = event.version if before.population.members else event.base + 1
        assert (event.base, version) == (before.head.version.number, head.version.number)
        assert head.scores.total >= before.head.scores.total
        assert event.artifact == head.version.artifact
        rendered = render(before.spec.strategy, head.version.entries)
        truth = [self.world.score(task, rendered) for task in before.split.heldout]
        assert list(vector.items(head.scores.values)) == truth
        assert event.total == head.scores.total == sum(truth)
        assert head.scores.count == head.scores.size == len(truth)
        assert [self.scored[event.subject, event.artifact, task] for task in before.split.heldout] == [1] * len(truth)
        self.scored.clear()

    def _balance(self, state: State) -> None:
        governor = state.governor
        assert [decided.command for decided in self.open.values()] == list(due(state))
        owed = NOTHING
        for decided in self.open.values():
            owed = add(owed, decided.command.reserve)
            rendered = render(state.spec.strategy, entries_for(state, decided))
            assert digest(rendered.encode()) == decided.command.artifact, decided
        assert owed == governor.due
        asked = sum(purpose_of(decided.command) == "audit" for decided in self.open.values())
        assert self.used.get("audit", NOTHING).rollouts + asked <= state.spec.oracle_budget
        held = add(state.base_hold, state.test_hold)
        if state.sweep is not None:
            for gate in state.sweep.gates:
                held = add(held, gate.hold)
        assert held == governor.held
        for amount in (governor.due, governor.held, governor.spent, state.expected):
            assert smaller(amount, NOTHING) == NOTHING, amount
        assert {line.purpose: line.used for line in governor.ledger} == self.used
        assert {line.purpose: line.assumed for line in governor.ledger} == self.assumed
        spent = NOTHING
        for used in self.used.values():
            spent = add(spent, used)
        assert (spent, sum(self.assumed.values())) == (governor.spent, governor.assumed)
        self.over = self.over and not within(state)
        assert self.over or within(state), governor


def claimed(state: State) -> Amount:
    """spent + due + held."""
    return add(state.governor.spent, add(state.governor.due, state.governor.held))


def within(state: State) -> bool:
    """What is claimed is at most the cap, in every capped unit."""
    total, caps = claimed(state), state.governor.caps
    pairs = (
        (caps.tokens, total.tokens),
        (caps.cost, total.cost),
        (caps.calls, total.calls),
        (caps.rollouts, total.rollouts),
    )
    return all(cap is None or amount <= cap for cap, amount in pairs)
