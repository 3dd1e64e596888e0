"""From a command to its outcome: call the agent and the scorer, check what they return, say what it cost.

The boundary between the core and code it does not trust. Whatever a port does, the outcome is a fact: an answer, or
Failed with its kind. A port that breaks its contract gives Failed("contract"), which ends the run with its message.
"""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from agentdescent.artifact.diff import Entries, digest
from agentdescent.artifact.strategy import Strategy, parse
from agentdescent.budget.tariff import Tariff
from agentdescent.budget.usage import Usage
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import Failed, FailureKind, Outcome, Proposed, RolledOut
from agentdescent.engine.spec import TaskInfo
from agentdescent.errors import AgentDescentError, UsageError
from agentdescent.ports import Answer, CallFailed, Repeat, Task
from agentdescent.record import replace

Call: TypeAlias = Callable[..., Any]
Mode: TypeAlias = Literal["inline", "thread", "async"]
Result: TypeAlias = tuple[Outcome, str]
"""An outcome and the output text that goes with it ("" for none)."""

TOLERANCE = 1e-6
MESSAGE_LIMIT = 500
_TOO_MUCH = 2**53


class Ports(msgspec.Struct, frozen=True):
    """What a job calls, with everything the driver has to know of it."""

    solve: Call
    propose: Call
    reward: Call
    solve_mode: Mode
    propose_mode: Mode
    reward_mode: Mode
    scorer_bills: bool
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
    repeat = repeat or getattr(agent, "repeat", None) or "charged"
    if repeat not in get_args(Repeat):
        raise UsageError(f"repeat is {repeat!r}: it is one of {', '.join(get_args(Repeat))}")
    blocking = bool(getattr(agent, "blocking", True))
    begin = getattr(agent, "begin", None)
    return Ports(
        solve=solve,
        propose=ask,
        reward=reward,
        solve_mode=_mode(solve, blocking=blocking),
        propose_mode=_mode(ask, blocking=blocking),
        reward_mode=_mode(reward, blocking=bool(getattr(reward, "blocking", True))),
        scorer_bills=bool(getattr(reward, "bills", True)),
        samples=samples,
        tariff=tariff or getattr(agent, "tariff", None) or Tariff(),
        repeat=repeat,
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


def failure(command: Rollout | Propose, error: BaseException, *, scorer: bool = False) -> Failed:
    """The fact that a call raised. Total: whatever the error is or does."""
    kind: FailureKind = "scorer" if scorer else "provider"
    usage: Usage | None = None
    try:
        message = str(error) if isinstance(error, CallFailed | UsageError) else f"{type(error).__name__}: {error}"
        if isinstance(error, CallFailed):
            usage = checked(error.usage)
            kind = error.kind if error.kind in get_args(FailureKind) else kind
        elif isinstance(error, TimeoutError):
            kind = "timeout"
        elif isinstance(error, UsageError):
            kind = "contract"
    except UsageError as wrong:
        kind, message = "contract", str(wrong)
    except Exception:  # an error that cannot even be printed
        message = type(error).__name__
    return Failed(command.id, kind, clean(message[:MESSAGE_LIMIT]), usage)


def checked(usage: Usage | None) -> Usage | None:
    """The usage a port states. Raises UsageError when it cannot be one."""
    if usage is None:
        return None
    if not isinstance(usage, Usage):
        raise UsageError(f"usage is a {type(usage).__name__}: give a Usage(prompt=..., completion=...)")
    for count in (usage.prompt, usage.completion, usage.cached, usage.calls, 0 if usage.cost is None else usage.cost):
        if type(count) is not int or not 0 <= count < _TOO_MUCH:
            raise UsageError(f"usage must be whole numbers of at least 0: {usage}")
    if usage.cached > usage.prompt:
        raise UsageError(f"cached tokens are part of the prompt, and cannot be more: {usage}")
    return usage


def _unpack(value: Any) -> tuple[Any, Usage | None]:
    return (value.value, checked(value.usage)) if isinstance(value, Answer) else (value, None)


def _together(a: Usage | None, b: Usage | None) -> Usage | None:
    """The usage of two calls; unknown when that of either is."""
    if a is None or b is None:
        return None
    cost = None if a.cost is None or b.cost is None else a.cost + b.cost
    return Usage(a.prompt + b.prompt, a.completion + b.completion, a.cached + b.cached, a.calls + b.calls, cost)


class Performer:
    """What the commands of one run call, and what comes of what is returned."""

    def __init__(self, ports: Ports, tasks: Sequence[Task], strategy: Strategy) -> None:
        self.ports = ports
        self.tasks = tasks
        self.strategy = strategy

    def begin(self, train: Sequence[int]) -> None:
        """Show the agent the tasks it may learn from, if it wants to see them. Raises UsageError when it cannot."""
        if self.ports.begin is None:
            return
        try:
            self.ports.begin([self.tasks[index] for index in train])
        except AgentDescentError:
            raise
        except Exception as error:  # a port is code we do not know; nothing was spent yet
            raise UsageError(f"{self.ports.agent}: begin failed: {type(error).__name__}: {error}") from error

    def mode(self, command: Rollout | Propose) -> Mode:
        ports = self.ports
        if isinstance(command, Propose):
            return ports.propose_mode
        return "async" if ports.solve_mode == "inline" and ports.reward_mode == "async" else ports.solve_mode

    def scores_in_thread(self, command: Rollout | Propose) -> bool:
        """Whether the scorer may block while the agent runs on the loop."""
        return isinstance(command, Rollout) and self.ports.reward_mode == "thread"

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

    def finish(self, command: Rollout | Propose, entries: Entries, value: Any) -> Result | Awaitable[Result]:
        """The outcome of what the port returned; an awaitable of it when the scorer is asynchronous."""
        try:
            value, usage = _unpack(value)
        except UsageError as error:
            return failure(command, error), ""
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
            return self._scorer_failed(command, error, usage), ""
        if not isinstance(score, float | int | Answer) and inspect.isawaitable(score):
            return self._await_score(command, output, usage, score)
        return self._scored(command, output, usage, score)

    async def _await_score(self, command: Rollout, output: str, usage: Usage | None, score: Awaitable[Any]) -> Result:
        try:
            value = await score
        except Exception as error:  # as above
            return self._scorer_failed(command, error, usage), ""
        return self._scored(command, output, usage, value)

    def _scorer_failed(self, command: Rollout, error: Exception, usage: Usage | None) -> Failed:
        """Charged what the solve used and what the scorer says it did. A scorer that may bill and says nothing makes
        the whole unknown, and it is settled at its reservation."""
        failed = failure(command, error, scorer=True)
        if failed.usage is None and not self.ports.scorer_bills:
            return replace(failed, usage=usage)
        return replace(failed, usage=_together(usage, failed.usage))

    def _scored(self, command: Rollout, output: str, usage: Usage | None, value: Any) -> Result:
        task = self.tasks[command.task].id
        try:
            value, scoring = _unpack(value)
        except UsageError as error:
            return failure(command, error), ""
        real = type(value) is float or (isinstance(value, numbers.Real) and not isinstance(value, bool))
        if not real or not math.isfinite(value) or not -TOLERANCE <= value <= 1 + TOLERANCE:
            message = f"the reward of task {task!r} is {value!r}: it must be a number in [0, 1]"
            used = usage if scoring is None else _together(usage, scoring)
            return Failed(command.id, "contract", clean(message[:MESSAGE_LIMIT]), used), ""
        score = min(1_000_000, max(0, round(float(value) * 1_000_000)))
        data = output.encode()
        return RolledOut(command.id, score, len(data), digest(data), usage, scoring), output

    def _proposed(self, command: Propose, entries: Entries, value: Any, usage: Usage | None) -> Outcome:
        if value is not None and not isinstance(value, str):
            message = f"propose returned {type(value).__name__}: return text, None, or Answer(text, usage)"
            return Failed(command.id, "contract", message, usage)
        return Proposed(command.id, parse(self.strategy, entries, None if value is None else clean(value)), usage)
