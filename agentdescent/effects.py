"""From a command to its outcome: call the agent and the scorer, check what they return, say what it cost.

The boundary between the core and code it does not trust. Whatever a port does, the outcome is a fact: an answer, or
Failed with its kind. A port that breaks its contract gives Failed("contract"), which ends the run with its message.
"""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from agentdescent.artifact.diff import Entries, digest
from agentdescent.artifact.strategy import Strategy, parse
from agentdescent.budget.tariff import Tariff
from agentdescent.budget.usage import Usage
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import Failed, FailureKind, Outcome, Proposed, RolledOut
from agentdescent.engine.spec import TaskInfo
from agentdescent.errors import UsageError
from agentdescent.ports import Answer, CallFailed, Repeat, Task

Call: TypeAlias = Callable[..., Any]
Mode: TypeAlias = Literal["inline", "thread", "async"]
Result: TypeAlias = tuple[Outcome, str]
"""An outcome and the output text that goes with it ("" for none)."""

TOLERANCE = 1e-6
MESSAGE_LIMIT = 500


class Ports(msgspec.Struct, frozen=True):
    """What a job calls, with everything the driver has to know of it."""

    solve: Call
    propose: Call
    reward: Call
    solve_mode: Mode
    propose_mode: Mode
    reward_mode: Mode
    samples: bool
    tariff: Tariff
    repeat: Repeat
    agent: str
    scorer: str
    begin: Callable[[Sequence[Task]], None] | None = None


def name_of(port: object) -> str:
    """How a port is called in the log: its `name`, else where it was defined."""
    name = getattr(port, "name", None)
    if isinstance(name, str):
        return name
    kind = port if hasattr(port, "__qualname__") else type(port)
    return f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', '')}"


def _takes(function: Call, arguments: int) -> bool:
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature: it is asked, not inspected
        return True
    return True


def _mode(function: Call, *, blocking: bool) -> Mode:
    call = getattr(function, "__call__", function)  # noqa: B004 - the bound method, of which to ask whether it is async
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        return "async"
    return "thread" if blocking else "inline"


def ports_of(
    reward: Call,
    agent: object | None,
    run: Call | None,
    propose: Call | None,
    tariff: Tariff | None,
    repeat: Repeat | None,
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
    if solve is None or ask is None:
        raise UsageError("an agent needs `solve` and `propose`")
    if not _takes(solve, 2):
        raise UsageError(f"{name_of(solve)} must accept (rendered, task)")
    samples = _takes(ask, 5)
    if not samples and not _takes(ask, 4):
        raise UsageError(f"{name_of(ask)} must accept (rendered, task, output, score) or those and sample")
    if not _takes(reward, 2):
        raise UsageError(f"{name_of(reward)} must accept (task, output)")
    blocking = bool(getattr(agent, "blocking", True))
    begin = getattr(agent, "begin", None)
    return Ports(
        solve=solve,
        propose=ask,
        reward=reward,
        solve_mode=_mode(solve, blocking=blocking),
        propose_mode=_mode(ask, blocking=blocking),
        reward_mode=_mode(reward, blocking=False),
        samples=samples,
        tariff=tariff or getattr(agent, "tariff", None) or Tariff(),
        repeat=repeat or getattr(agent, "repeat", None) or "charged",
        agent=name_of(agent) if agent is not None else f"{name_of(solve)}+{name_of(ask)}",
        scorer=name_of(reward),
        begin=begin if callable(begin) else None,
    )


def describe(task: Task) -> TaskInfo:
    """What the core may know of a task. Raises UsageError when its text is not valid Unicode."""
    try:
        prompt = task.prompt.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the prompt of task {task.id!r} is not valid Unicode: {error}") from error
    meta = "\n".join(f"{key}={task.meta[key]!r}" for key in sorted(task.meta, key=str))
    return TaskInfo(task.id, len(prompt), digest(prompt + b"\0" + meta.encode("utf-8", "replace")), task.cluster)


def clean(text: str) -> str:
    """The text with what cannot be written as UTF-8 replaced by question marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def failure(command: Rollout | Propose, error: BaseException, *, scorer: bool = False, usage: Usage | None) -> Failed:
    """The fact that a call raised."""
    kind: FailureKind = "scorer" if scorer else "provider"
    message = f"{type(error).__name__}: {error}"
    if isinstance(error, CallFailed):
        kind, message = error.kind, str(error)
        usage = error.usage if error.usage is not None else usage
    elif isinstance(error, TimeoutError):
        kind = "timeout"
    elif isinstance(error, UsageError):
        kind, message = "contract", str(error)
    return Failed(command.id, kind, clean(message[:MESSAGE_LIMIT]), usage)


def _unpack(value: Any) -> tuple[Any, Usage | None]:
    if not isinstance(value, Answer):
        return value, None
    usage = value.usage
    if usage is None:
        return value.value, None
    counts = (usage.prompt, usage.completion, usage.cached, usage.calls, 0 if usage.cost is None else usage.cost)
    if any(type(count) is not int or count < 0 for count in counts):
        raise UsageError(f"usage must be whole numbers of at least 0: {usage}")
    return value.value, usage


class Performer:
    """Performs commands of one run. `texts` by digest is filled by the driver before a command starts."""

    def __init__(self, ports: Ports, tasks: Sequence[Task], strategy: Strategy) -> None:
        self.ports = ports
        self.tasks = tasks
        self.strategy = strategy

    def mode(self, command: Rollout | Propose) -> Mode:
        ports = self.ports
        if isinstance(command, Propose):
            return ports.propose_mode
        return "async" if ports.solve_mode == "inline" and ports.reward_mode == "async" else ports.solve_mode

    def arguments(self, command: Rollout | Propose, rendered: str, output: str) -> tuple[Any, ...]:
        """What the port is called with; `output` is that of the rollout a proposal is about."""
        task = self.tasks[command.task]
        if isinstance(command, Rollout):
            return (rendered, task)
        limit = self.ports.tariff.output_limit
        data = output.encode()
        if len(data) > limit:
            output = data[:limit].decode("utf-8", "ignore")
        arguments = (rendered, task, output, command.score / 1_000_000)
        return (*arguments, command.subject) if self.ports.samples else arguments

    def function(self, command: Rollout | Propose) -> Call:
        return self.ports.solve if isinstance(command, Rollout) else self.ports.propose

    def finish(self, command: Rollout | Propose, entries: Entries, value: Any) -> Result | Awaitable[Any]:
        """The outcome of what the port returned; an awaitable of the score when the scorer is asynchronous."""
        try:
            value, usage = _unpack(value)
        except UsageError as error:
            return failure(command, error, usage=None), ""
        if isinstance(command, Propose):
            return self._proposed(command, entries, value, usage), ""
        if value is None:
            return Failed(command.id, "empty", "solve returned None", usage), ""
        if not isinstance(value, str):
            task = self.tasks[command.task].id
            message = f"solve returned {type(value).__name__} for task {task!r}: return text, or Answer(text, usage)"
            return Failed(command.id, "contract", message, usage), ""
        output = clean(value)
        try:
            score = self.ports.reward(self.tasks[command.task], output)
        except Exception as error:  # a scorer is code we do not know: whatever it raises is a fact about this call
            return failure(command, error, scorer=True, usage=usage), ""
        if inspect.isawaitable(score):
            return self._await_score(command, output, usage, score)
        return self.scored(command, output, usage, score)

    async def _await_score(self, command: Rollout, output: str, usage: Usage | None, score: Awaitable[Any]) -> Result:
        try:
            value = await score
        except Exception as error:  # as above
            return failure(command, error, scorer=True, usage=usage), ""
        return self.scored(command, output, usage, value)

    def scored(self, command: Rollout, output: str, usage: Usage | None, value: Any) -> Result:
        task = self.tasks[command.task].id
        try:
            value, scoring = _unpack(value)
        except UsageError as error:
            return failure(command, error, usage=usage), ""
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not real or not math.isfinite(value) or not -TOLERANCE <= value <= 1 + TOLERANCE:
            message = f"the reward of task {task!r} is {value!r}: it must be a number in [0, 1]"
            return Failed(command.id, "contract", clean(message[:MESSAGE_LIMIT]), usage), ""
        score = min(1_000_000, max(0, round(float(value) * 1_000_000)))
        data = output.encode()
        return RolledOut(command.id, score, len(data), digest(data), usage, scoring), output

    def _proposed(self, command: Propose, entries: Entries, value: Any, usage: Usage | None) -> Outcome:
        if value is not None and not isinstance(value, str):
            message = f"propose returned {type(value).__name__}: return text, None, or Answer(text, usage)"
            return Failed(command.id, "contract", message, usage)
        return Proposed(command.id, parse(self.strategy, entries, None if value is None else clean(value)), usage)
