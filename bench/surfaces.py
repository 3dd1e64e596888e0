"""What people see, and how soon: the demo, the report of a long run, a browser's complaints, the cost of progress.

    python -m bench.surfaces --json

`demo_first_output_s`: from the command to its first line, in a pipe. `report_100k_s`, `report_mb`: the page of a run of
100,000 events on disk, written by the command in a process of its own, which took `report_100k_cpu_s` of the processor.
`axe_violations`, `console_messages`: of that page, of the demo's and of a comparison, at 360 and 1600 pixels, dark and
light, in Chromium. `progress_overhead`: the time that the picture in a terminal takes, as a share of the run's, where
calls of the agent take a millisecond. Commands run as installed ones do, with their modules compiled.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from agentdescent import evolve
from agentdescent.engine.event import Event
from agentdescent.engine.state import State
from agentdescent.ports import Answer, Task
from agentdescent.recovery import Observer
from agentdescent_adapters.demo import demo_tasks
from agentdescent_adapters.disk import DiskLog
from agentdescent_adapters.rules import RuleAgent
from agentdescent_adapters.tasks.scorers import scorer
from agentdescent_adapters.telemetry.dashboard import Dashboard
from bench import agents, browser, harness

EVENTS = 100_000
TARGETS = {"demo_first_output_s": 5.0, "report_100k_s": 3.0, "report_mb": 3.0, "progress_overhead": 0.01}
COMMAND = (sys.executable, "-m", "agentdescent_adapters")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Timed:
    """An observer, and how long it took in all."""

    def __init__(self, inner: Observer) -> None:
        self._inner = inner
        self.seconds = 0.0

    def __call__(self, event: Event, state: State) -> None:
        began = time.perf_counter()
        self._inner(event, state)
        self.seconds += time.perf_counter() - began


class Waiting(RuleAgent):
    """A rule agent whose calls take a millisecond: far less than any model's."""

    blocking = True

    def solve(self, rendered: str, task: Task) -> Answer:
        time.sleep(0.001)
        return super().solve(rendered, task)


def environment(folder: str) -> dict[str, str]:
    """That of a command which may keep compiled modules, in a folder of their own."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": os.path.join(folder, "compiled")}


def labels() -> list[str]:
    return sorted({str(task.meta["label"]) for task in demo_tasks()})


def first_output(run: str, env: Mapping[str, str]) -> float:
    """Seconds from the command to its first line."""
    began = time.perf_counter()
    command = [*COMMAND, "demo", "--out", run]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env) as demo:
        if demo.stderr is None or not demo.stderr.readline():
            raise RuntimeError("the demo said nothing")
        seconds = time.perf_counter() - began
        demo.stderr.read()
    return seconds


def long_run(run: str) -> int:
    """A run of at least EVENTS events on disk, some thousand gates among them; how many there are."""
    seen = 0

    def count(event: Event, state: State) -> None:
        nonlocal seen
        seen += 1

    with DiskLog.create(run, fsync="interval") as log:
        evolve(
            agents.tasks(60),
            agents.Right(),
            agent=agents.Sync(agents.Script(seed=1, constant=False, failing=0.01), lambda tokens: None, blocking=False),
            artifact=agents.START,
            log=log,
            observers=[count],
            n_workers=8,
            rounds=None,
            max_tokens=10**12,
            stop_when=lambda state: seen >= EVENTS,
        )
    return seen


def report(run: str, out: str, env: Mapping[str, str]) -> Mapping[str, float]:
    """What the command says of the page, and how long it took from its start to its end."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [*COMMAND, "report", run, "--out", out, "--json"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "cpu": cpu, "bytes": json.loads(told.stdout)["bytes"]}


def _nothing(event: Event, state: State) -> None:
    """What timing costs by itself."""


def overhead() -> float:
    """The share of a run that progress takes, less what measuring it takes."""
    board, nothing = Timed(Dashboard(Terminal())), Timed(_nothing)
    began = time.perf_counter()
    evolve(
        demo_tasks(),
        scorer("exact"),
        agent=Waiting(labels()),
        observers=[board, nothing],
        n_workers=8,
        rounds=None,
        max_tokens=3_000_000,
    )
    return (board.seconds - nothing.seconds) / (time.perf_counter() - began)


def complaints(pages: list[str]) -> tuple[int, int, int]:
    """Violations and console messages over all pages and windows, and the most pixels that anything reaches beyond."""
    violations = messages = 0
    wider = -sys.maxsize
    for page in pages:
        for width, dark in itertools.product((360, 1600), (False, True)):
            found = browser.audit(Path(page), width=width, dark=dark)
            violations += sum(nodes for _, nodes, _ in found.violations)
            messages += len(found.console)
            wider = max(wider, found.wider)
    return violations, messages, wider


def measured(folder: str) -> dict[str, object]:
    demo, long = os.path.join(folder, "demo"), os.path.join(folder, "long")
    env = environment(folder)
    first = min(first_output(f"{demo}-{n}", env) for n in range(3))
    events = long_run(long)
    pages = [os.path.join(folder, name) for name in ("long.html", "demo.html", "both.html")]
    page = min((report(long, pages[0], env) for _ in range(5)), key=lambda one: one["seconds"])
    report(f"{demo}-0", pages[1], env)
    subprocess.run([*COMMAND, "compare", f"{demo}-0", long, "--out", pages[2]], check=True, capture_output=True)
    violations, messages, wider = complaints(pages)
    return {
        "demo_first_output_s": round(first, 3),
        "report_100k_s": round(page["seconds"], 2),
        "report_100k_cpu_s": round(page["cpu"], 2),
        "report_mb": round(page["bytes"] / 1e6, 2),
        "axe_violations": violations,
        "console_messages": messages,
        "progress_overhead": round(overhead(), 4),
        "events": events,
        "pixels_beyond_the_window": max(0, wider),
    }


def met(found: Mapping[str, object]) -> bool:
    numbers = {name: value for name, value in found.items() if isinstance(value, int | float)}
    clean = not (numbers["axe_violations"] or numbers["console_messages"] or numbers["pixels_beyond_the_window"])
    return clean and all(numbers[name] <= most for name, most in TARGETS.items())


def main() -> int:
    parser = harness.options(__doc__)
    given = parser.parse_args()
    if browser.chromium() is None or browser.axe() is None:
        parser.error("needs Debian's chromium, and axe-core from npm: see bench/browser.py")
    with tempfile.TemporaryDirectory() as folder:
        found = measured(folder)
    return harness.finish("surfaces", given, found, met=met(found))


if __name__ == "__main__":
    sys.exit(main())
