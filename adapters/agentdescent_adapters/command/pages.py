"""`agentdescent report` and `compare`: pages about runs, from their logs alone."""

from __future__ import annotations

import os
import shlex
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from agentdescent.engine.event import Event
from agentdescent.engine.state import State
from agentdescent.errors import UsageError
from agentdescent.history.fold import folded
from agentdescent.history.report import Folding, Report
from agentdescent_adapters.command import config as configuration
from agentdescent_adapters.command import execution
from agentdescent_adapters.disk import Chained, write_atomic

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
    from agentdescent_adapters.command.answers import GateQuestions, answers
    from agentdescent_adapters.page import build

    began = time.perf_counter()
    gates = GateQuestions()
    found, digest = read_report(run, gates)
    told = answers(run, found, gates)
    html = build.page(found, run=name_of(run), digest=digest, commands=_commands(run, found), whatif=told)
    path = out or os.path.join(run, REPORT)
    size = _write(path, html)
    return Written(path, size, round(time.perf_counter() - began, 3), tuple(name for name, _ in build.SECTIONS))


def write_comparison(runs: Sequence[str], out: str | None) -> Written:
    """The curves of several runs over one another. Raises UsageError when it cannot be written."""
    from agentdescent_adapters.page import comparison

    began = time.perf_counter()
    html = comparison.page([(name, read_report(run)[0]) for name, run in zip(names_of(runs), runs, strict=True)])
    path = out or COMPARISON
    return Written(path, _write(path, html), round(time.perf_counter() - began, 3), ("curves", "numbers"))


class Folds(Protocol):
    def fold(self, event: Event, before: State, after: State) -> None: ...


def read_report(run: str, *others: Folds) -> tuple[Report, str]:
    """The report of a run directory, and the digest of what it was made of; `others` see the same events."""
    events, folding = Chained(run), Folding()
    folds = [one.fold for one in (folding, *others)]
    for event, before, after in folded(events):
        for fold in folds:
            fold(event, before, after)
    return folding.report(), events.digest


def show(path: str) -> None:
    webbrowser.open(Path(path).resolve().as_uri())


def name_of(run: str) -> str:
    return Path(run).resolve().name


def names_of(runs: Sequence[str]) -> list[str]:
    """Those that several runs have in common with the directories they are in."""
    names = [name_of(run) for run in runs]
    return [name if names.count(name) == 1 else run for name, run in zip(names, runs, strict=True)]


def _write(path: str, html: str) -> int:
    data = html.encode()
    try:
        write_atomic(Path(path), data)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}): name another file with --out") from error
    return len(data)


def _commands(run: str, found: Report) -> str:
    """What makes the run again, and what checks it."""
    name, again = shlex.quote(name_of(run)), shlex.quote(f"{name_of(run)}-again")
    check = f"agentdescent replay {name} --check    # take every decision again"
    return "\n".join((_start(run, again), *_raised(again, found), check))


def _start(run: str, again: str) -> str:
    if not os.path.exists(os.path.join(run, configuration.JOB)):
        return "# this run was started from Python: evolve(...) with the choices below, and the same agent"
    try:
        config = configuration.load(run)
    except UsageError as error:  # the page is from the log, which is whole
        return f"# how it was started is not known: {' '.join(str(error).split())}"
    return f"{command_line(config)} --out {again}"


def _raised(again: str, found: Report) -> list[str]:
    """What it was resumed with, where its caps are no longer those that it began with."""
    begun = execution.caps_as_flags(found.state.spec.caps)
    now = execution.caps_as_flags(found.state.governor.caps)
    flags = "".join(_flag(cap, value) for cap, value in now.items() if value is not None and value != begun[cap])
    return [f"agentdescent resume {again}{flags}    # its caps were raised"] if flags else []


def command_line(config: configuration.RunConfig) -> str:
    """The command that starts a run with this config: what differs from the defaults as flags."""
    default = configuration.RunConfig()
    names = (name for name in config.__struct_fields__ if getattr(config, name) != getattr(default, name))
    return "agentdescent run" + "".join(_flag(name, getattr(config, name)) for name in names)


def _flag(name: str, value: object) -> str:
    """A value that begins with a dash stands behind `=`: else it would be a flag."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f" --{flag}" if value else f" --no-{flag}"
    text = str(value)
    return f" {shlex.quote(f'--{flag}={text}')}" if text.startswith("-") else f" --{flag} {shlex.quote(text)}"
