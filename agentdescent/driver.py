"""The shell's loop: append what `decide` says, perform what is due, fold what comes back. It holds no policy.

One asynchronous loop serves synchronous and asynchronous agents. An event is appended before it is folded; effects
start only after everything that led to them is as durable as the log makes it; an answer is journalled before it may
be admitted.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from agentdescent import vector
from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import render
from agentdescent.blocking import Cancellation
from agentdescent.calls import Caller, Effect
from agentdescent.effects import Performer, Ports, Result
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
from agentdescent.errors import CorruptLog, IllegalEvent
from agentdescent.ports import Log, Task
from agentdescent.recovery import Observer, recover, to_go_on

DEADLINE = 120.0
_TEXTS = 32
_YIELD_EVERY = 64


class Run:
    """One process's work on one run: from a log, empty or not, to Stopped.

    `observers` are told what this process adds, `recovered` what was in the log before.
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
        observers: Sequence[Observer] = (),
        recovered: Observer | None = None,
        stop_when: Callable[[State], bool] | None = None,
        cancellation: Cancellation | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.log = log
        self.ports = ports
        self.observers = tuple(observers)
        self.stop_when = stop_when
        self.cancellation = cancellation or Cancellation()
        self.clock = clock
        self.capacity = max_concurrency or spec.n_workers
        self.tasks = tasks
        self.caller = Caller(Performer(ports, tasks, spec.strategy), deadline)
        self.state = recover(spec, setup, log, recovered)
        self.draw = seeded(self.state.spec.seed)
        self._caps = spec.caps
        self._pending: deque[Effect] = deque()
        self._arrived: dict[int, Outcome | Abandoned] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._texts: OrderedDict[str, tuple[Entries, str]] = OrderedDict()
        self._outputs: dict[int, str] = {}  # by worker: of the rollout that a proposal may be asked about
        self._arrival = asyncio.Event()
        self._broken: BaseException | None = None
        self._durable = 0  # how many of the pending effects were decided before the last sync
        self._in_flight = 0
        self._batches = 0

    # --- the loop ----------------------------------------------------------------------------------------------------

    async def drive(self) -> State:
        """Work until Stopped. Raises OSError when the log cannot be written, CorruptLog when it was damaged."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(self._arrival.set)

        self.cancellation.bind(wake)
        began = self.clock()
        try:
            self._resume()
            while self.state.stopped is None:
                if self._broken is not None:
                    raise self._broken
                self._look_for_interruption(began)
                step = decide(self.state, self.draw)
                if not isinstance(step, Wait):
                    self._record(step)
                    continue
                answer = self._admissible(step)
                started = answer is None and self._start()
                if started:
                    answer = self._admissible(step)  # of an effect that returned at once
                if answer is not None:
                    self._record(answer)
                elif not started:
                    await self._await_arrival(began)
                if self._batches >= _YIELD_EVERY:
                    self._batches = 0
                    await asyncio.sleep(0)
            self.log.sync()
            return self.state
        finally:
            self.cancellation.bind(None)
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            self.caller.close()

    def _record(self, event: Event) -> None:
        self.log.append(event)
        self.state = apply(self.state, event)
        if isinstance(event, Decided):
            self._pending.append(self._effect(event))
        elif isinstance(event, Started):
            self._meet_train_tasks()
        if self._pending and halting(self.state) is not None:
            self._give_up_pending()
        for observer in self.observers:
            observer(event, self.state)

    def _meet_train_tasks(self) -> None:
        self.caller.performer.begin(self.state.split.train)

    def _admissible(self, wait: Wait) -> Outcome | Abandoned | None:
        for ident in wait.admissible:
            answer = self._arrived.pop(ident, None)
            if answer is not None:
                return answer
        return None

    def _look_for_interruption(self, began: float) -> None:
        state = self.state
        if state.interrupted is not None or not state.started or state.stopped is not None:
            return
        reason = self.cancellation.reason
        seconds = state.governor.caps.seconds
        if reason is None and self.stop_when is not None and self.stop_when(state):
            reason = "stop_when"
        if reason is None and seconds is not None and self.clock() - began >= seconds:
            reason = "max_seconds"
        if reason is not None:
            self._record(Interrupted(reason))

    def _give_up_pending(self) -> None:
        """Nothing that costs starts any more; what was decided and never started costs nothing."""
        self._durable = 0
        while self._pending:
            ident = self._pending.popleft().decided.command.id
            self._arrived[ident] = Abandoned(ident, started=False)

    # --- going on after a crash or an end ----------------------------------------------------------------------------

    def _resume(self) -> None:
        state = self.state
        if not state.started:
            return
        self._meet_train_tasks()
        for event in to_go_on(state, self._caps):
            self._record(event)
        orphans = [decided for chunk in self.state.window.chunks for decided in chunk]
        readers = {
            worker.rollout: index
            for index, worker in enumerate(vector.items(self.state.workers))
            if worker.stage in ("rolled", "proposing")
        }
        recalled = self.log.recall({*readers, *(decided.command.id for decided in orphans)})
        for rollout, index in readers.items():
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
        mode = self.caller.performer.mode(decided.command)
        return Effect(decided, *found, self._outputs.get(decided.worker, ""), mode)

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
            if effect.mode == "inline":
                self._perform_inline(effect)
                break
            self._spawn(self._perform(effect))
        return True

    def _may_start(self, effect: Effect) -> bool:
        return self._in_flight < self.capacity or effect.mode == "inline"

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._in_flight += 1
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ran)

    def _ran(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._broken = task.exception()
            self._arrival.set()

    def _perform_inline(self, effect: Effect) -> None:
        began = self.clock()
        result = self.caller.at_once(effect)
        if isinstance(result, tuple):
            self._arrive(effect.decided, result, self.clock() - began)
        else:
            self._spawn(self._perform(effect, result))

    async def _perform(self, effect: Effect, begun: Awaitable[Result] | None = None) -> None:
        began, caller = self.clock(), self.caller

        def arrive(result: Result) -> None:
            self._in_flight -= 1  # before the answer wakes the loop, which may then start another
            self._arrive(effect.decided, result, self.clock() - began)

        if begun is None:
            await caller.perform(effect, arrive)
        else:
            await caller.within_deadline(effect, begun, arrive)

    def _arrive(self, decided: Decided, result: Result, seconds: float) -> None:
        outcome, output = result
        self._arrival.set()
        try:
            self.log.answered(outcome, output, seconds)
        except OSError as error:  # what is not in the journal may not be admitted: the run stops here
            self._broken = error
            return
        self._arrived[outcome.id] = outcome
        self._keep_output(decided, output)

    def _keep_output(self, decided: Decided, output: str) -> None:
        command = decided.command
        if isinstance(command, Rollout) and command.purpose == "rollout":
            self._outputs[decided.worker] = output

    async def _await_arrival(self, began: float) -> None:
        if not self._in_flight and self._broken is None:
            raise IllegalEvent(f"nothing is running; answers {sorted(self._arrived)[:5]} may not be admitted")
        self._arrival.clear()
        seconds = self.state.governor.caps.seconds
        left = None if seconds is None or self.state.interrupted else max(0.0, began + seconds - self.clock())
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._arrival.wait()
