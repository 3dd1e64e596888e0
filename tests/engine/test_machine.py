"""A driver that does anything a driver may do, in any order: the engine keeps its books, and never gets stuck."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentdescent import Wait, apply, decide, due, initial, replay, seeded
from agentdescent.engine.decision import Step
from agentdescent.engine.event import (
    Abandoned,
    Amended,
    Decided,
    Event,
    Failed,
    FailureKind,
    GateOpened,
    Interrupted,
    InterruptReason,
    Promoted,
    Stopped,
)
from agentdescent.engine.state import State
from agentdescent.history.log import read
from tests.engine.spends import spending_job
from tests.strategies import Job, any_job, raised
from tests.world import KINDS, Watch, lines, opened, play

FRACTIONS = st.floats(0.0, 0.999)


class Driver(RuleBasedStateMachine):
    """Answers in any admissible order, failures, orphans, crashes, interruptions and amendments, as they please."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Event] = []
        self.state: State | None = None

    @initialize(job=st.one_of(any_job(failing=False), spending_job(failing=False)))
    def begin(self, job: Job) -> None:
        self.spec, self.setup, self.world = job
        self.state = initial(self.spec, self.setup)
        self.draw = seeded(self.spec.seed)
        self.watch = Watch(self.world)
        self.advance()

    def fold(self, event: Event) -> None:
        assert self.state is not None
        after = apply(self.state, event)
        self.watch.observe(self.state, event, after)
        self.state = after
        self.log.append(event)

    def step(self) -> Step:
        assert self.state is not None
        step = decide(self.state, self.draw)
        self.watch.decided(self.state, step)
        return step

    def advance(self) -> None:
        """Record what is decided until an answer is needed or the run has ended."""
        while not isinstance(step := self.step(), Wait):
            if self.state is not None and self.state.stopped is not None:
                return
            self.fold(step)

    def waits(self) -> bool:
        return self.state is not None and self.state.window.count > 0

    def ended(self) -> bool:
        return self.state is not None and self.state.stopped is not None

    def goes_on(self) -> bool:
        return self.state is not None and self.state.stopped is None and self.state.interrupted is None

    def chosen(self, which: float) -> Decided:
        step = self.step()
        assert self.state is not None
        assert isinstance(step, Wait)
        ident = step.admissible[int(which * len(step.admissible))]
        return next(decided for decided in opened(self.state) if decided.command.id == ident)

    # --- what a driver may do -----------------------------------------------------------------------------------------

    @precondition(waits)
    @rule(which=FRACTIONS)
    def answer(self, which: float) -> None:
        assert self.state is not None
        self.fold(self.world.answer(self.state, self.chosen(which)))
        self.advance()

    @precondition(waits)
    @rule(count=st.integers(2, 40), which=FRACTIONS)
    def answer_many(self, count: int, which: float) -> None:
        for _ in range(count):
            if self.waits():
                self.answer(which)

    @precondition(waits)
    @rule(which=FRACTIONS, kind=st.sampled_from(KINDS), charged=st.booleans())
    def fail(self, which: float, kind: FailureKind, charged: bool) -> None:
        assert self.state is not None
        decided = self.chosen(which)
        usage = self.world.usage(self.setup.tariff.solve, decided.command) if charged else None
        self.fold(Failed(decided.command.id, kind, "no answer", usage))
        self.advance()

    @precondition(waits)
    @rule(which=FRACTIONS, started=st.booleans())
    def abandon(self, which: float, started: bool) -> None:
        self.fold(Abandoned(self.chosen(which).command.id, started))
        self.advance()

    @precondition(goes_on)
    @rule(reason=st.sampled_from(["cancelled", "stop_when", "max_seconds"]))
    def interrupt(self, reason: InterruptReason) -> None:
        before = len(self.log)
        self.fold(Interrupted(reason))
        self.advance()
        assert not any(isinstance(event, Decided | GateOpened | Promoted) for event in self.log[before:])

    @precondition(lambda self: self.state is not None and self.state.interrupted is not None)
    @rule()
    def go_on(self) -> None:
        assert self.state is not None
        self.fold(Amended(self.state.governor.caps))
        self.advance()

    @precondition(ended)
    @rule()
    def go_on_with_more(self) -> None:
        assert self.state is not None
        self.fold(Amended(raised(self.state.governor.caps, self.state)))
        self.advance()

    @precondition(lambda self: self.log)
    @rule()
    def crash(self) -> None:
        """A new process folds the log from its bytes and is where the old one was."""
        state = initial(self.spec, self.setup)
        watch = Watch(self.world)
        for event, _ in read(lines(self.log).splitlines(keepends=True)):
            after = apply(state, event)
            watch.observe(state, event, after)
            state = after
        assert state == self.state
        self.state, self.watch = state, watch

    @precondition(lambda self: self.log)
    @rule()
    def replayed(self) -> None:
        found = replay(self.log)
        assert (found.divergence, found.events, found.finished) == (None, len(self.log), self.ended())
        assert found.state == self.state

    # --- what holds ---------------------------------------------------------------------------------------------------

    @invariant()
    def waits_or_ended(self) -> None:
        if self.state is not None and self.log:
            assert (due(self.state) == ()) == isinstance(self.step(), Stopped)

    def teardown(self) -> None:
        """Every run ends: left alone, with its limits, also this one."""
        if self.state is not None:
            state, log = play(self.spec, self.setup, self.world, log=self.log)
            assert isinstance(log[-1], Stopped)
            assert state.stopped == log[-1]


Driver.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestDriver = Driver.TestCase
