"""A process that works on a run in a directory and may be killed with SIGKILL in the midst of a write.

It is forked from a bench that has imported everything and started nothing: no loop, no thread. So a process costs
milliseconds, and is killed as a real one is.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, NoReturn

from agentdescent import MemoryLog, State
from agentdescent.driver import Run
from agentdescent.effects import Performer
from agentdescent.engine.spec import Admission
from agentdescent.job import Job, Options, prepare
from agentdescent.ports import Item, Log, Repeat
from agentdescent.record import Record
from agentdescent_adapters.disk import DiskLog, Files, OsFiles
from agentdescent_adapters.disk.layout import ANSWERS, EVENTS
from bench import agents, harness
from bench.agents import Async, Script
from bench.lossy_files import LossyFiles

HUNG = 60
"""Seconds after which a process that does not end is killed by an alarm, which its parent reports."""

_command: ContextVar[int] = ContextVar("_command")


class Plan(Record, frozen=True):
    """One run. `lossy`: the machine loses power with the process. `cap` in tokens; `workers`: outstanding at once."""

    number: int
    repeat: Repeat
    cap: int
    lossy: bool = False
    fsync: Literal["always", "interval"] = "always"
    texts: Literal["keep", "digest"] = "keep"
    admission: Admission = "ordered"
    seed: int = 0
    workers: int = 16


class Done(Record, frozen=True):
    """How a process that was not killed ended. `appended`: bytes it added to the events and the journal."""

    stop_reason: str
    events: int
    digest: str
    appended: int
    dropped: int


# --- being killed -----------------------------------------------------------------------------------------------------


class LethalFiles(OsFiles):
    """Kills its process in the write that brings what was appended to the events and the journal to `kill_at` bytes.

    `last` is called first: what a machine that loses power does to its files. Nothing is synced in earnest, because
    the kernel outlives the process; whether it was asked to is for LossyFiles to remember.
    """

    def __init__(self, kill_at: int | None) -> None:
        self.appended = 0
        self.last: Callable[[], object] | None = None
        self._kill_at = kill_at
        self._counted: set[int] = set()

    def fsync(self, handle: int) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def open_append(self, path: str) -> int:
        return self._watch(super().open_append(path), path)

    def open_new(self, path: str) -> int:
        return self._watch(super().open_new(path), path)

    def close(self, handle: int) -> None:
        self._counted.discard(handle)
        super().close(handle)

    def write(self, handle: int, data: bytes) -> int:
        if handle in self._counted:
            if self._kill_at is not None and self.appended + len(data) >= self._kill_at:
                os.write(handle, data[: self._kill_at - self.appended])
                if self.last is not None:
                    self.last()
                os.kill(os.getpid(), signal.SIGKILL)
            self.appended += len(data)
        return super().write(handle, data)

    def _watch(self, handle: int, path: str) -> int:
        if os.path.basename(path).startswith((EVENTS, ANSWERS)):
            self._counted.add(handle)
        return handle


# --- the work ---------------------------------------------------------------------------------------------------------


class KeyedPerformer(Performer):
    """Says which command a call belongs to while it lasts, and tells `ended` the moment before it returns."""

    ended: Callable[[int], None]

    async def ask(self, item: Item) -> Any:
        _command.set(item.command.id)
        try:
            return await super().ask(item)
        finally:
            self.ended(item.command.id)


def account(plan: Plan, stage: int) -> str:
    return f"{plan.number}.{stage}"


def make_job(plan: Plan, stage: int, counter: harness.Counter) -> Job:
    """The job of a plan; `stage` numbers the processes of one run, each with latencies of its own."""

    def meter(tokens: int) -> None:
        counter.bill(account(plan, stage), tokens, _command.get())

    script = Script(seed=plan.seed, constant=False, failing=0.01)
    options = Options(
        agent=Async(script, meter, latency=plan.number * 10 + stage),
        artifact=agents.START,
        repeat=plan.repeat,
        max_tokens=plan.cap,
        rounds=None,
        seed=plan.seed,
        n_workers=plan.workers,
        test_share=0.2,
        refresh_interval=2,
        wave_min=16,
        admission=plan.admission,
    )
    return prepare(agents.tasks(40), agents.Right(), options)


def drive(plan: Plan, stage: int, log: Log, counter: harness.Counter) -> State:
    """Work on the log until the run ends. Every call is billed to the account of this process as it begins."""
    job = make_job(plan, stage, counter)
    performer = KeyedPerformer(job.ports, job.tasks, job.spec.strategy)
    performer.ended = partial(counter.bill, f"{account(plan, stage)}.ended", 0)
    run = Run(job.spec, job.setup, job.tasks, job.ports, log)
    run.performer = run.calls.performer = performer
    return asyncio.run(run.drive())


def work(plan: Plan, directory: str, stage: int, kill_at: int | None, counter: harness.Counter) -> Done:
    """Start the run, or go on with it, to its end; `kill_at`: bytes appended by this process before it is killed."""
    lethal = LethalFiles(kill_at)
    files: Files = lethal
    if plan.lossy:
        lossy = files = LossyFiles(lethal)
        lethal.last = partial(lossy.crash, plan.number * 10 + stage)
    if stage == 0:
        log = DiskLog.create(directory, texts=plan.texts, fsync=plan.fsync, files=files)
    else:
        log = DiskLog.open(directory, fsync=plan.fsync, files=files)
    with log:
        state = drive(plan, stage, log, counter)
    return _done(state, log, lethal.appended, len(log.dropped))


def undisturbed(plan: Plan, counter: harness.Counter) -> Done:
    """The same job without a disk or a crash."""
    log = MemoryLog()
    return _done(drive(plan, 0, log, counter), log, 0, 0)


def _done(state: State, log: Log, appended: int, dropped: int) -> Done:
    return Done(state.stopped.reason if state.stopped else "", state.seq, log.digest, appended, dropped)


# --- processes --------------------------------------------------------------------------------------------------------


def in_child(function: Callable[[], Done]) -> Done | None:
    """What `function` returns in a forked process; None when that was killed with SIGKILL.

    Raises RuntimeError when it ended in any other way; its traceback is on stderr.
    """
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        _be(function, writable)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return None
    if status != 0:
        why = "hung" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM else "failed"
        raise RuntimeError(f"a worker process {why} (status {status})")
    return Done(**json.loads(data))


def _be(function: Callable[[], Done], writable: int) -> NoReturn:
    """The life of a child; it never returns into the bench it was forked from."""
    try:
        signal.alarm(HUNG)
        done = function()
        os.write(writable, json.dumps({name: getattr(done, name) for name in Done.__struct_fields__}).encode())
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
