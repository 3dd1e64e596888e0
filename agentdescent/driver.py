"""The shell's loop: append what `decide` says, perform what is due, fold what comes back. It holds no policy.

One asynchronous loop serves synchronous and asynchronous agents. An event is appended before it is folded; effects
start only after everything that led to them is as durable as the log makes it; an answer is journalled before it may
be admitted.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import render
from agentdescent.blocking import Cancellation
from agentdescent.calls import Calls
from agentdescent.effects import Performer
from agentdescent.engine.command import Rollout
from agentdescent.engine.decision import Wait, decide, halting
from agentdescent.engine.draw import seeded
from agentdescent.engine.event import (
    Abandoned,
    Decided,
    Event,
    Interrupted,
    Outcome,
    Started,
)
from agentdescent.engine.spec import Setup, Spec
from agentdescent.engine.state import State
from agentdescent.engine.transition import apply
from agentdescent.engine.view import entries_for
from agentdescent.engine.window import next_in_order, open_effects
from agentdescent.errors import CorruptLog, ExecutorLost, IllegalEvent
from agentdescent.inflight import Effect
from agentdescent.own import Elder, injected
from agentdescent.ports import Executor, Item, Log, Result, Task
from agentdescent.recovery import Observer, readers, recover, to_go_on
from agentdescent.wiring import Ports, sent_away

DEADLINE = 120.0
_TEXTS = 32
_YIELD_EVERY = 64


class Run:
    """One process's work on one run: from a log, empty or not, to Stopped.

    `observers` are told what this process adds, `recovered` what was in the log before. `allocator`: the object of the
    user's own that the spec names, if it does.
    """

    def __init__(
        self,
        spec: Spec,
        setup: Setup,
        tasks: Sequence[Task],
        ports: Ports,
        log: Log,
        *,
        max_concurrency: int | None = None,
        deadline: float = DEADLINE,
        executor: Executor | None = None,
        observers: Sequence[Observer] = (),
        recovered: Observer | None = None,
        stop_when: Callable[[State], bool] | None = None,
        cancellation: Cancellation | None = None,
        allocator: object | None = None,
    ) -> None:
        self.log = log
        self.ports = ports if executor is None else sent_away(ports)
        self.observers = tuple(observers)
        self.stop_when = stop_when
        self.cancellation = cancellation or Cancellation()
        self.tasks = tasks
        self.performer = Performer(self.ports, tasks, spec.strategy)
        capacity = max_concurrency or spec.n_workers
        self.calls = Calls(self.performer, deadline, capacity, self._arrive, self._lost, executor)
        self.policy = injected(allocator, spec.allocator)
        self._elder = self.policy if isinstance(self.policy, Elder) else None
        self.state = recover(spec, setup, log, recovered, None if self._elder is None else self._elder.recall)
        self.draw = seeded(self.state.spec.seed)
        self._caps = spec.caps
        self._pending: deque[Effect] = deque()
        self._arrived: dict[int, Outcome | Abandoned] = {}
        self._texts: OrderedDict[str, tuple[Entries, str]] = OrderedDict()
        self._outputs: dict[int, str] = {}  # by worker: of the rollout that a proposal may be asked about
        self._waiter: asyncio.Future[None] | None = None
        self._ends_at: float | None = None
        self._time_is_up = False
        self._broken: BaseException | None = None
        self._durable = 0  # how many of the pending effects were decided before the last sync
        self._batches = 0

    # --- the loop ----------------------------------------------------------------------------------------------------

    async def drive(self) -> State:
        """Work until Stopped. Raises OSError when the log cannot be written, CorruptLog when it was damaged."""
        loop = asyncio.get_running_loop()

        def asked() -> None:
            loop.call_soon_threadsafe(self._wake)

        self.cancellation.bind(asked)
        timer: asyncio.TimerHandle | None = None
        if self._caps.seconds is not None:
            self._ends_at = loop.time() + self._caps.seconds
            timer = loop.call_at(self._ends_at, self._end_of_time)
        try:
            self._resume()
            self.calls.open(loop)
            while self.state.stopped is None:
                if self._broken is not None:
                    raise self._broken
                self._look_for_interruption(loop)
                step = decide(self.state, self.draw, self.policy)
                if not isinstance(step, Wait):
                    self._record(step)
                    continue
                answer = self._admissible(step)
                started = (answer is None or self._eager) and self._start()
                if started and answer is None:
                    answer = self._admissible(step)  # of an effect that returned at once
                if answer is not None:
                    self._record(answer)
                elif not started:
                    await self._await_arrival(loop)
                if self._batches >= _YIELD_EVERY:
                    self._batches = 0
                    await asyncio.sleep(0)
            self.log.sync()
            return self.state
        finally:
            self.cancellation.bind(None)
            if timer is not None:
                timer.cancel()
            await self.calls.close()

    def _record(self, event: Event) -> None:
        self.log.append(event)
        self.state = apply(self.state, event)
        if self._elder is not None:
            self._elder.told(event)
        if isinstance(event, Decided):
            self._pending.append(self._effect(event))
        elif isinstance(event, Started):
            self.performer.begin(self.state.split.train)
            self.calls.deploy()
        if halting(self.state) is not None:
            self._give_up_pending()
        for observer in self.observers:
            observer(event, self.state)

    def _admissible(self, wait: Wait) -> Outcome | Abandoned | None:
        """The first of the answers that came which may be folded."""
        arrived = self._arrived
        if wait.ordered:
            return arrived.pop(next_in_order(wait.window), None)
        return arrived.pop(next(iter(arrived))) if arrived else None

    def _look_for_interruption(self, loop: asyncio.AbstractEventLoop) -> None:
        state = self.state
        if state.interrupted is not None or not state.started or state.stopped is not None:
            return
        reason = self.cancellation.reason
        if reason is None and self.stop_when is not None and self.stop_when(state):
            reason = "stop_when"
        if reason is None and self._ends_at is not None and (self._time_is_up or loop.time() >= self._ends_at):
            reason = "max_seconds"
        if reason is not None:
            self._record(Interrupted(reason))

    def _give_up_pending(self) -> None:
        """Nothing that costs starts any more; what was decided and never started costs nothing."""
        self._durable = 0
        for ident in (*self.calls.stop(), *(effect.decided.command.id for effect in self._pending)):
            self._arrived[ident] = Abandoned(ident, started=False)
        self._pending.clear()

    # --- going on after a crash or an end ----------------------------------------------------------------------------

    def _resume(self) -> None:
        state = self.state
        if not state.started:
            return
        self.performer.begin(self.state.split.train)
        for event in to_go_on(state, self._caps):
            self._record(event)
        if self.state.stopped is None:
            self.calls.deploy()
        orphans = open_effects(self.state.window)
        reading = readers(self.state)
        recalled = self.log.recall({*reading, *(decided.command.id for decided in orphans)})
        for rollout, index in reading.items():
            if rollout not in recalled:
                raise CorruptLog(f"the output of command {rollout}, which a proposal is to read, is not in the journal")
            self._outputs[index] = recalled[rollout][1]
        for decided in orphans:
            ident = decided.command.id
            if ident in recalled:
                outcome, output = recalled[ident]
                self._arrived[ident] = outcome
                self._keep_output(decided, output)
            elif self.ports.repeat == "charged":
                self._arrived[ident] = Abandoned(ident)
            else:
                self._pending.append(self._effect(decided))
        if halting(self.state) is not None:
            self._give_up_pending()

    # --- effects -----------------------------------------------------------------------------------------------------

    def _effect(self, decided: Decided) -> Effect:
        """What performing a command needs, taken from the state that wants it."""
        artifact = decided.command.artifact
        found = self._texts.get(artifact)
        if found is None:
            entries = entries_for(self.state, decided)
            found = entries, render(self.state.spec.strategy, entries)
            self._texts[artifact] = found
            if len(self._texts) > _TEXTS:
                self._texts.popitem(last=False)
        item = Item(decided.command, *found, self._outputs.get(decided.worker, ""))
        return Effect(decided, item, self.performer.mode(decided.command))

    def _start(self) -> bool:
        """Start what may start, everything that led to it made durable first. True when anything was.

        Effects that return at once are performed one by one, so that what each brings is folded before the next: an
        overrun or a broken contract stops the rest.
        """
        pending = self._pending
        if not pending or not self._may_start(pending[0]):
            return False
        if not self._durable:
            self.log.sync()
            self._durable = len(pending)
        self._batches += 1
        while self._durable and self._may_start(pending[0]):
            effect = pending.popleft()
            self._durable -= 1
            self.calls.start(effect)
            if effect.mode == "inline":
                break
        return True

    @property
    def _eager(self) -> bool:
        """Whether the next effect starts before the next answer is folded: nobody waits then for answers that came
        together. Not where each start has to wait for the disk, nor where an effect may have to stop the others."""
        return self.ports.repeat == "free" and bool(self._pending) and self._pending[0].mode != "inline"

    def _may_start(self, effect: Effect) -> bool:
        return effect.mode == "inline" or not self.calls.full

    def _lost(self, error: ExecutorLost) -> None:
        self._broken = error
        self._wake()

    def _arrive(self, effect: Effect, result: Result, seconds: float, refused: int) -> None:
        outcome, output = result
        self._wake()
        try:
            self.log.answered(outcome, output, seconds, refused)
        except Exception as error:  # what is not in the journal may not be admitted: the run stops here
            self._broken = error
            return
        self._arrived[outcome.id] = outcome
        self._keep_output(effect.decided, output)

    def _keep_output(self, decided: Decided, output: str) -> None:
        command = decided.command
        if isinstance(command, Rollout) and command.purpose == "rollout":
            self._outputs[decided.worker] = output

    def _end_of_time(self) -> None:
        """A timer may be early by the resolution of the clock, by which it is not time yet."""
        self._time_is_up = True
        self._wake()

    def _wake(self) -> None:
        """On the loop: there is something to look at."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _await_arrival(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.calls.collect():
            self.calls.attend()
            return
        if not len(self.calls) and self._broken is None:
            raise IllegalEvent(f"nothing is running; answers {sorted(self._arrived)[:5]} may not be admitted")
        self._waiter = loop.create_future()
        await self._waiter
        self.calls.attend()
