"""What a job calls: the functions of the agent and the scorer, how each is called, and what the driver must know."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from agentdescent.artifact.diff import digest
from agentdescent.budget.tariff import Tariff
from agentdescent.engine.command import Command, Rollout
from agentdescent.engine.spec import TaskInfo
from agentdescent.errors import UsageError
from agentdescent.ports import Repeat, Task

Call: TypeAlias = Callable[..., Any]
Mode: TypeAlias = Literal["inline", "thread", "async"]


class Scorer(msgspec.Struct, frozen=True):
    """One who scores: how it is called, whether it may cost anything, and its name in the log."""

    call: Call
    mode: Mode
    bills: bool
    name: str


class Ports(msgspec.Struct, frozen=True):
    """What a job calls, with everything the driver has to know of it. `samples`, `ceilings`: `propose` is told the
    number of the proposal, and the ceiling of its reply."""

    solve: Call
    propose: Call
    reward: Scorer
    solve_mode: Mode
    propose_mode: Mode
    samples: bool
    ceilings: bool
    tariff: Tariff
    repeat: Repeat
    agent: str
    begin: Callable[[Sequence[Task]], None] | None = None
    oracle: Scorer | None = None

    def scorer_of(self, command: Command) -> Scorer:
        """Who scores what this command brings: the oracle in an audit."""
        audit = isinstance(command, Rollout) and command.purpose == "audit"
        return self.oracle if audit and self.oracle is not None else self.reward


def name_of(port: object) -> str:
    """How a port is called in the log: its `name`, else where it was defined."""
    name = getattr(port, "name", None)
    if isinstance(name, str):
        return name
    kind = port if hasattr(port, "__qualname__") else type(port)
    return f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', '')}"


def _takes(function: Call, arguments: int, **named: int) -> bool:
    try:
        inspect.signature(function).bind(*range(arguments), **named)
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature: it is asked, not inspected
        return True
    return True


def _takes_ceiling(function: Call) -> bool:
    """By that name, so that a function which passes on whatever it is given is called as it always was."""
    try:
        found = inspect.signature(function).parameters.get("ceiling")
    except (TypeError, ValueError):
        return False
    return found is not None and found.kind in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY)


def _mode(function: Call, *, blocking: bool) -> Mode:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return "async"
    return "thread" if blocking else "inline"


def ports_of(
    reward: Call,
    agent: object | None,
    run: Call | None,
    propose: Call | None,
    tariff: Tariff | None,
    repeat: Repeat | None,
    oracle: Call | None = None,
) -> Ports:
    """Check the ports before anything is spent. Raises UsageError that names the one at fault."""
    if (agent is None) == (run is None):
        raise UsageError("give either agent= (with solve and propose) or run= and propose=")
    if agent is not None and propose is not None:
        raise UsageError("propose= goes with run=; an agent= has its own `propose` method")
    solve = getattr(agent, "solve", None) if agent is not None else run
    ask = getattr(agent, "propose", None) if agent is not None else propose
    for name, port in (("solve" if agent is not None else "run", solve), ("propose", ask), ("reward", reward)):
        if not callable(port):
            raise UsageError(f"{name} is missing or cannot be called: {port!r}")
    if oracle is not None and not callable(oracle):
        raise UsageError(f"oracle cannot be called: {oracle!r}")
    if solve is None or ask is None:
        raise UsageError("an agent needs `solve` and `propose`")
    if not _takes(solve, 2):
        raise UsageError(f"{name_of(solve)} must accept (rendered, task)")
    ceilings = _takes_ceiling(ask)
    named = {"ceiling": 0} if ceilings else {}
    samples = _takes(ask, 5, **named)
    if not samples and not _takes(ask, 4, **named):
        raise UsageError(f"{name_of(ask)} must accept (rendered, task, output, score) or those and sample")
    for judge in (reward,) if oracle is None else (reward, oracle):
        if not _takes(judge, 2):
            raise UsageError(f"{name_of(judge)} must accept (task, output)")
    repeat = repeat or getattr(agent, "repeat", None) or "charged"
    if repeat not in get_args(Repeat):
        raise UsageError(f"repeat is {repeat!r}: it is one of {', '.join(get_args(Repeat))}")
    blocking = bool(getattr(agent, "blocking", True))
    begin = getattr(agent, "begin", None)
    return Ports(
        solve=solve,
        propose=ask,
        reward=_scorer(reward),
        solve_mode=_mode(solve, blocking=blocking),
        propose_mode=_mode(ask, blocking=blocking),
        samples=samples,
        ceilings=ceilings,
        tariff=tariff or getattr(agent, "tariff", None) or Tariff(),
        repeat=repeat,
        agent=name_of(agent) if agent is not None else f"{name_of(solve)}+{name_of(ask)}",
        begin=begin if callable(begin) else None,
        oracle=None if oracle is None else _scorer(oracle),
    )


def _scorer(port: Call) -> Scorer:
    mode = _mode(port, blocking=bool(getattr(port, "blocking", True)))
    return Scorer(port, mode, bool(getattr(port, "bills", True)), name_of(port))


def sent_away(ports: Ports) -> Ports:
    """The ports of a run that was given an executor: also a synchronous agent that returns at once is called there."""

    def away(mode: Mode) -> Mode:
        return "thread" if mode == "inline" else mode

    solve, propose = away(ports.solve_mode), away(ports.propose_mode)
    return msgspec.structs.replace(ports, solve_mode=solve, propose_mode=propose)


def describe(task: Task) -> TaskInfo:
    """What the core may know of a task. Raises UsageError when its text is not valid Unicode."""
    try:
        prompt = task.prompt.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the prompt of task {task.id!r} is not valid Unicode: {error}") from error
    meta = "\n".join(f"{key}={task.meta[key]!r}" for key in sorted(task.meta, key=str))
    return TaskInfo(task.id, len(prompt), digest(prompt + b"\0" + meta.encode("utf-8", "replace")), task.cluster)
