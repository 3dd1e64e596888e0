"""`agentdescent report` and `compare`: pages about runs, from their logs alone."""

from __future__ import annotations

import os
import shlex
import time
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from agentdescent.engine.event import Event
from agentdescent.errors import UsageError
from agentdescent.history.log import GENESIS
from agentdescent.history.report import Report, report
from agentdescent_adapters.command import config as configuration
from agentdescent_adapters.disk import read_chained, write_atomic

REPORT = "report.html"
COMPARISON = "comparison.html"


class Written(msgspec.Struct, frozen=True):
    """A page: where, how large, and how long it took from the log to the file."""

    path: str
    bytes: int
    seconds: float
    sections: tuple[str, ...] = ()


def write_report(run: str, out: str | None) -> Written:
    """The page of a run, by default report.html in it. Raises UsageError when it cannot be written."""
    from agentdescent_adapters.page import build

    began = time.perf_counter()
    found, digest = read_report(run)
    html = build.page(found, run=name_of(run), digest=digest, commands=_commands(run), whatif=())
    path = out or os.path.join(run, REPORT)
    size = _write(path, html)
    return Written(path, size, round(time.perf_counter() - began, 3), tuple(name for name, _ in build.SECTIONS))


def write_comparison(runs: Sequence[str], out: str | None) -> Written:
    """The curves of several runs over one another. Raises UsageError when it cannot be written."""
    from agentdescent_adapters.page import comparison

    began = time.perf_counter()
    html = comparison.page([(name_of(run), read_report(run)[0]) for run in runs])
    path = out or COMPARISON
    return Written(path, _write(path, html), round(time.perf_counter() - began, 3), ("curves", "numbers"))


def read_report(run: str) -> tuple[Report, str]:
    """The report of a run directory, and the digest of what it was made of."""
    digest = GENESIS

    def events() -> Iterator[Event]:
        nonlocal digest
        for event, after in read_chained(run):
            digest = after
            yield event

    return report(events()), digest


def show(path: str) -> None:
    webbrowser.open(Path(path).resolve().as_uri())


def name_of(run: str) -> str:
    return Path(run).resolve().name


def _write(path: str, html: str) -> int:
    data = html.encode()
    try:
        write_atomic(Path(path), data)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}): name another file with --out") from error
    return len(data)


def _commands(run: str) -> str:
    """What makes the run again, and what checks it."""
    check = f"agentdescent replay {name_of(run)} --check    # take every decision again"
    if not os.path.exists(os.path.join(run, configuration.JOB)):
        return f"# this run was started from Python: evolve(...) with the choices below, and the same agent\n{check}"
    return f"{command_line(configuration.load(run))}\n{check}"


def command_line(config: configuration.RunConfig) -> str:
    """The command that starts a run with this config: what differs from the defaults as flags."""
    default = configuration.RunConfig()
    parts = ["agentdescent run"]
    for name in config.__struct_fields__:
        value, flag = getattr(config, name), name.replace("_", "-")
        if value != getattr(default, name):
            named = f"--{flag}" if value is not False else f"--no-{flag}"
            parts.append(named if isinstance(value, bool) else f"{named} {shlex.quote(str(value))}")
    return " ".join(parts)
