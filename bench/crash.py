"""Killed at any byte and gone on with: what a run loses, and what it pays for twice.

Runs of 16 workers, whose answers come out of order and in another order in every process, are killed with SIGKILL in
the midst of a write, at points uniform over the bytes that a run appends; a tenth of the kills hit the process that
goes on after a kill. Half of the runs lose power with the process: of every file what was not synced, in part, and
names that were not. Compared, with calls counted by a process outside before they are answered:

* free ports: the digest of the log, with that of the run that nobody disturbed;
* charged ports: tokens counted outside <= tokens in the log <= cap, and a log that replays without a difference;
* both: no call is made whose answer is in the journal that survived.

    python -m bench.crash --kills 300 --json      # {"kills": 300, "free_diverged": 0, "repeated_answered": 0,
                                                  #  "charged_outside_over_log": 0, "charged_log_over_cap": 0}
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial

from agentdescent import replay
from agentdescent.record import Record, replace
from agentdescent_adapters.disk import read_events
from agentdescent_adapters.disk.layout import ANSWERS, EVENTS
from bench import harness
from bench.worker_process import Done, Plan, account, in_child, undisturbed, work

CAP = 45_000
IN_RESUME = 10
"""Of so many kills one hits the process that goes on after a kill."""


class Ended(Record, frozen=True):
    """One run, however often it was killed. Calls and tokens as the counting process has them.

    `kills`: of its first process; `kills_in_resume`: of the next. `open`: calls in flight when it was killed.
    `repeated`: calls made though their answer had survived. `lost`: answers that a port had returned, and that a
    killed process whose machine went on did not leave in the journal, but for the one in whose line it was killed: how
    much is between returning and being journalled.
    `dropped`: unfinished things that the last resume found. `logged`: tokens, by the log. `fault`: why the log does
    not hold.
    """

    plan: Plan
    kills: int = 0
    kills_in_resume: int = 0
    open: int = 0
    repeated: int = 0
    lost: int = 0
    outside: int = 0
    dropped: int = 0
    digest: str = ""
    logged: int = 0
    fault: str = ""


def plans(seed: int) -> Iterator[Plan]:
    """Every combination of what a run directory can be, in turn. `fsync="interval"` is for free ports only."""
    number = 0
    while True:
        free = number % 2 == 0
        other = number // 8 % 2 == 1
        yield Plan(
            number=number,
            repeat="free" if free else "charged",
            cap=CAP,
            lossy=number // 2 % 2 == 1,
            texts="digest" if number // 4 % 2 else "keep",
            fsync="interval" if free and other else "always",
            admission="arrival" if not free and other else "ordered",
            seed=seed,
        )
        number += 1


def crash(plan: Plan, directory: str, length: int, counter: harness.Counter, *, twice: bool) -> Ended:
    """Run a plan to its end through one kill or two. `length`: bytes that an undisturbed run appends.

    A kill does not hit where a run, whose length varies once it was disturbed, ends before.
    """
    luck = random.Random(f"{plan.seed}/{plan.number}")
    ended, stage = Ended(plan), 0
    done: Done | None = None
    while done is None:
        kept, kill_at = _survived(directory, plan), None
        if stage == 0 or (stage == 1 and twice):
            kill_at = luck.randint(1, max(1, length - _size(directory)))
        done = in_child(partial(work, plan, directory, stage, kill_at, counter))
        bills, returned = counter.take(account(plan, stage)), counter.take(f"{account(plan, stage)}.ended")
        repeated = ended.repeated + made_again(bills.keys, kept)
        ended = replace(ended, repeated=repeated, outside=ended.outside + bills.tokens)
        if done is None:
            lost = 0 if plan.lossy else len(set(map(int, returned.keys)) - _survived(directory, plan)) - 1
            ended = replace(
                ended,
                kills=ended.kills + (stage == 0),
                kills_in_resume=ended.kills_in_resume + (stage > 0),
                open=ended.open + len(bills.keys) - len(returned.keys),
                lost=ended.lost + max(0, lost),
            )
        stage += 1
    return _judge(done, directory, replace(ended, dropped=done.dropped))


def made_again(calls: Collection[str], answered: Collection[int]) -> int:
    """Calls of one process for commands that were answered before it began, or that it made twice itself."""
    counts = Counter(map(int, calls))
    return sum(count - (command not in answered) for command, count in counts.items())


def _judge(done: Done, directory: str, ended: Ended) -> Ended:
    """Read what is on the disk as a stranger would: every digest, every decision taken again."""
    replayed = replay(read_events(directory))
    fault = ""
    if replayed.divergence is not None:
        fault = f"diverges: {replayed.divergence}"
    elif not replayed.finished or done.stop_reason != "max_tokens":
        fault = f"ended by {done.stop_reason!r}"
    last = json.loads(_lines(os.path.join(directory, EVENTS))[-1])
    return replace(ended, digest=last["digest"], logged=replayed.state.governor.spent.tokens, fault=fault)


# --- what survived, read without the code that wrote it ---------------------------------------------------------------


def _survived(directory: str, plan: Plan) -> set[int]:
    """The commands whose answers are in the journal now. With `fsync="interval"` and power lost, an answer whose
    decision was lost is no answer: nobody knows to what."""
    answers = {_command_of(line) for line in _lines(os.path.join(directory, ANSWERS)) if _whole(line)}
    if plan.lossy and plan.fsync == "interval":
        events = (json.loads(line)["event"] for line in _lines(os.path.join(directory, EVENTS)))
        answers &= {event["command"]["id"] for event in events if event["type"] == "decided"}
    return answers


def _lines(path: str) -> list[bytes]:
    if not os.path.exists(path):
        return []
    with open(path, "rb") as file:
        return file.read().split(b"\n")[:-1]


def _whole(line: bytes) -> bool:
    body = line[line.index(b'"answer":') + len(b'"answer":') : line.rindex(b',"crc":')]
    return zlib.crc32(body) == int(json.loads(line)["crc"])


def _command_of(line: bytes) -> int:
    return int(json.loads(line)["answer"]["outcome"]["id"])


def _size(directory: str) -> int:
    paths = (os.path.join(directory, name) for name in (EVENTS, ANSWERS))
    return sum(os.path.getsize(path) for path in paths if os.path.exists(path))


# --- the bench --------------------------------------------------------------------------------------------------------


def undisturbed_runs(seed: int, root: str, counter: harness.Counter) -> tuple[Done, int]:
    """The run in memory that nobody disturbs, and the bytes that one on disk appends. Raises when they differ."""
    plan = Plan(number=-1, repeat="free", cap=CAP, seed=seed)
    in_memory = in_child(partial(undisturbed, plan, counter))
    on_disk = in_child(partial(work, plan, os.path.join(root, "undisturbed"), 0, None, counter))
    if in_memory is None or on_disk is None or in_memory.digest != on_disk.digest:
        raise RuntimeError(f"undisturbed runs differ: {in_memory} in memory, {on_disk} on disk")
    return in_memory, on_disk.appended


def crashes(kills: int, seed: int, root: str, counter: harness.Counter, length: int) -> Iterator[Ended]:
    """Runs until so many kills have hit."""
    first = again = 0
    for plan in plans(seed):
        if first + again >= kills:
            return
        directory = os.path.join(root, str(plan.number))
        twice = IN_RESUME * (again + 1) <= min(kills, first + again + 2)
        ended = crash(plan, directory, length, counter, twice=twice)
        shutil.rmtree(directory)
        first, again = first + ended.kills, again + ended.kills_in_resume
        yield ended


def main() -> int:
    parser = harness.options(__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began, done = time.monotonic(), list[Ended]()
    with harness.Counter() as counter, tempfile.TemporaryDirectory() as root:
        whole, length = undisturbed_runs(given.seed, root, counter)
        for ended in crashes(given.kills, given.seed, root, counter, length):
            done.append(ended)
            for fault in faults(ended, whole.digest):
                harness.progress(f"{ended.plan}: {fault}")
            if len(done) % 20 == 0:
                harness.progress(f"{len(done)} runs, {time.monotonic() - began:.0f} s")
    result = summary(done, whole.digest)
    met = not any(count for name, count in result.items() if name in TARGETS)
    more = {"events": whole.events, "bytes": length, "seconds": round(time.monotonic() - began, 1)}
    return harness.finish("crash", given, {**result, **more}, met=met)


TARGETS = (
    "free_diverged",
    "repeated_answered",
    "charged_outside_over_log",
    "charged_log_over_cap",
    "not_replayed",
    "returned_lost",
)
"""What has to be 0."""


def faults(ended: Ended, digest: str) -> list[str]:
    found = [ended.fault] if ended.fault else []
    if ended.plan.repeat == "free" and ended.digest != digest:
        found.append(f"digest {ended.digest}, undisturbed {digest}")
    if ended.repeated:
        found.append(f"{ended.repeated} answered calls were made again")
    if ended.plan.repeat == "charged" and not ended.outside <= ended.logged <= ended.plan.cap:
        found.append(f"outside {ended.outside}, log {ended.logged}, cap {ended.plan.cap}")
    return found


def summary(done: list[Ended], digest: str) -> dict[str, int | float]:
    """Counts of kills, runs and calls; `charged_*` are the most tokens over of any run."""
    free = [ended for ended in done if ended.plan.repeat == "free"]
    charged = [ended for ended in done if ended.plan.repeat == "charged"]
    kills = sum(ended.kills + ended.kills_in_resume for ended in done)
    return {
        "kills": kills,
        "free_diverged": sum(ended.digest != digest for ended in free),
        "repeated_answered": sum(ended.repeated for ended in done),
        "charged_outside_over_log": max([0, *(ended.outside - ended.logged for ended in charged)]),
        "charged_log_over_cap": max([0, *(ended.logged - ended.plan.cap for ended in charged)]),
        "not_replayed": sum(bool(ended.fault) for ended in done),
        "returned_lost": sum(ended.lost for ended in done),
        "kills_in_resume": sum(ended.kills_in_resume for ended in done),
        "open_calls_per_kill": round(sum(ended.open for ended in done) / max(1, kills), 2),
        "power_lost": sum(ended.kills + ended.kills_in_resume for ended in done if ended.plan.lossy),
        "last_resumes_that_dropped": sum(ended.dropped > 0 for ended in done),
        "runs_free": len(free),
        "runs_charged": len(charged),
    }


if __name__ == "__main__":
    sys.exit(main())
