"""From a command to its outcome: call the agent and the scorer, check what they return, say what it cost.

The boundary between the core and code it does not trust. Whatever a port does, the outcome is a fact: an answer, or
Failed with its kind. A port that breaks its contract gives Failed("contract"), which ends the run with its message.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import numbers
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar, get_args

import msgspec

from agentdescent.artifact.diff import Entries, digest
from agentdescent.artifact.strategy import Strategy, parse
from agentdescent.budget.usage import Usage
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import Failed, FailureKind, Outcome, Proposed, RolledOut
from agentdescent.errors import AgentDescentError, UsageError
from agentdescent.ports import Answer, CallFailed, Item, Result, Retry, Task
from agentdescent.record import replace
from agentdescent.wiring import Mode, Ports

T = TypeVar("T")
Performed: TypeAlias = "Result | Retry | Awaitable[Result | Retry]"

TOLERANCE = 1e-6
MESSAGE_LIMIT = 500
_TOO_MUCH = 2**53


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
        elif isinstance(error, asyncio.CancelledError):
            message = "the port cancelled its own call"
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
    for count in (
        *(usage.prompt, usage.completion, usage.cached, usage.calls, usage.hits),
        0 if usage.cost is None else usage.cost,
    ):
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
    return Usage(
        a.prompt + b.prompt,
        a.completion + b.completion,
        a.cached + b.cached,
        a.calls + b.calls,
        cost,
        a.hits + b.hits,
    )


def _stays_here(*_: object) -> NoReturn:
    raise UsageError("an asynchronous port is called where the run is driven, not by an executor")


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def ask_for_change(ports: Ports, text: str, task: Task, output: str, score: float, command: Propose) -> Any:
    """Call `propose` with what it takes. A ceiling of 0 says nothing: the port is as its maker left it."""
    sample = (command.subject,) if ports.samples else ()
    ceiling = {"ceiling": command.ceiling or None} if ports.ceilings else {}
    return ports.propose(text, task, output, score, *sample, **ceiling)


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
        scored = ports.scorer_of(command).mode
        return "async" if ports.solve_mode == "inline" and scored == "async" else ports.solve_mode

    def scores_in_thread(self, command: Rollout | Propose) -> bool:
        """Whether the scorer may block while the agent runs on the loop."""
        return isinstance(command, Rollout) and self.ports.scorer_of(command).mode == "thread"

    def remote(self) -> Callable[[Item], Result | Retry]:
        """What another process needs to perform effects: the ports, but for those that run on the loop here."""
        ports, nothing = self.ports, _stays_here
        kept = msgspec.structs.replace(
            ports,
            solve=nothing if ports.solve_mode == "async" else ports.solve,
            propose=nothing if ports.propose_mode == "async" else ports.propose,
            begin=None,
        )
        return Performer(kept, self.tasks, self.strategy).perform

    def perform(self, item: Item) -> Result | Retry:
        """Anywhere but on a running loop. Total: also a port that raises what no port should is a result."""
        try:
            result = self.call(item)
            return result if isinstance(result, tuple) else asyncio.run(_awaited(result))
        except BaseException as error:
            return failure(item.command, error), ""

    def call(self, item: Item) -> Performed:
        """Call the port, or score what it has returned. Total; an awaitable when a port is asynchronous after all."""
        if item.answered:
            return self._finish(item.command, item.entries, item.value)
        try:
            value = self._ask(item)
        except (Exception, asyncio.CancelledError) as error:  # whatever a port raises is a fact about this call
            return self.raised(item, error)
        if not isinstance(value, Answer | str) and inspect.isawaitable(value):
            return self._answered(item, value)
        return self._finish(item.command, item.entries, value)

    def raised(self, item: Item, error: BaseException) -> Result | Retry:
        """What comes of a port that raised."""
        failed = failure(item.command, error)
        after = error.retry_after if isinstance(error, CallFailed) else None
        if after is None or type(after) not in (int, float) or not 0 <= after < math.inf:
            return failed, ""
        billed = failed.usage is not None and (failed.usage.tokens or failed.usage.cost)
        if failed.kind == "contract" or billed:
            return failed, ""  # something was billed after all: what follows is decided and paid for anew
        return Retry(after, replace(failed, usage=Usage()))

    async def ask(self, item: Item) -> Any:
        """What an asynchronous port returns; raises what it raises."""
        value = self._ask(item)
        return await value if inspect.isawaitable(value) else value

    def _ask(self, item: Item) -> Any:
        command, task = item.command, self.tasks[item.command.task]
        if isinstance(command, Rollout):
            return self.ports.solve(item.text, task)
        limit, output = self.ports.tariff.output_limit, item.output
        data = output.encode()
        if len(data) > limit:
            output = data[:limit].decode("utf-8", "ignore")
        return ask_for_change(self.ports, item.text, task, output, command.score / 1_000_000, command)

    async def _answered(self, item: Item, value: Awaitable[Any]) -> Result | Retry:
        try:
            answer = await value
        except Exception as error:  # as in `call`
            return self.raised(item, error)
        result = self._finish(item.command, item.entries, answer)
        return result if isinstance(result, tuple) else await result

    def _finish(self, command: Rollout | Propose, entries: Entries, value: Any) -> Result | Awaitable[Result]:
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
            score = self.ports.scorer_of(command).call(self.tasks[command.task], output)
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
        if failed.usage is None and not self.ports.scorer_of(command).bills:
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
