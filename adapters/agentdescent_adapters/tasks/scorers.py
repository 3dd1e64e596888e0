"""Reward functions for tasks with a label in meta["label"]: 1.0 for right, 0.0 for wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal

from agentdescent.errors import UsageError
from agentdescent.ports import CallFailed, Reward, Task
from agentdescent_adapters.named import resolve
from agentdescent_adapters.tasks import matching
from agentdescent_adapters.tasks.choice import names_option, options_of, right_option

_NUMBER = re.compile(r"(?<![\w.])-?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+|(?=\.[0-9]))(?:\.[0-9]+)?")


def exact(task: Task, output: str) -> float:
    """Whether the output is the label, white space around either apart."""
    return float(output.strip() == _label(task).strip())


def contains(task: Task, output: str) -> float:
    """Whether the label occurs in the output, in whatever case."""
    return float(_label(task, filled=True).strip().casefold() in output.casefold())


def number(task: Task, output: str) -> float:
    """Whether the last number of the output equals the last of the label; `1,000`, `1000` and `1000.0` are one."""
    expected = _last_number(_label(task))
    if expected is None:
        raise UsageError(f"the label of task {task.id!r} has no number in it: score it with another scorer")
    return float(_last_number(output) == expected)


def regex(task: Task, output: str) -> float:
    """Whether the label, a regular expression of Python's, occurs in the output: anchor it (`^...$`) to match all.

    A pattern with several repetitions, options or alternatives is searched for in another process (some 15 ms), which
    is ended after 5 s: the call has failed then.
    """
    pattern = _compiled(task)
    try:
        return float(matching.found(pattern, output))
    except TimeoutError as error:
        message = (
            f"the pattern {pattern!r} of task {task.id!r}: {error}: write it so that parts cannot match in many ways"
        )
        raise CallFailed("scorer", message) from error


def choice(task: Task, output: str) -> float:
    """Whether the output names the option that the label is, a letter or the text of an option, and no other. Options
    are meta["choices"], or the lines of the prompt that begin with "A)", "(A)", "A." or "A:"."""
    label, options = _label(task), options_of(task)
    return float(names_option(output, right_option(task, label, options), label, options))


class Scorer:
    """A reward function that never bills. `blocking`: whether it may take longer than an instant."""

    bills = False

    def __init__(self, name: str, function: Callable[[Task, str], float], *, blocking: bool = False) -> None:
        self.name = name
        self.blocking = blocking
        self._function = function

    def __call__(self, task: Task, output: str) -> float:
        return self._function(task, output)

    def check(self, tasks: Iterable[Task]) -> None:
        """UsageError for the first task whose label this scorer cannot use, before anything is spent."""
        for task in tasks:
            if self._function is regex:
                _compiled(task)
            else:
                self._function(task, "")


_NAMED = {
    function.__name__: Scorer(function.__name__, function, blocking=function is regex)
    for function in (exact, contains, number, regex, choice)
}


def scorer(name: str, role: str = "scorer") -> Reward:
    """The scorer of that name, or the function that `module:function` names, `role` saying what for. UsageError when
    there is none."""
    if name in _NAMED:
        return _NAMED[name]
    if ":" not in name:
        raise UsageError(f"no {role} {name!r}: name one of {', '.join(_NAMED)} or a function as module:function")
    found = resolve(role, name)
    if not callable(found):
        raise UsageError(f"{role} {name!r} cannot be called: name a function of (task, output)")
    return found


def _compiled(task: Task) -> str:
    pattern = _label(task, filled=True)
    try:
        matching.compiled(pattern)
    except ValueError as error:
        raise UsageError(f"the label {pattern!r} of task {task.id!r} is no regular expression: {error}") from error
    return pattern


def _label(task: Task, *, filled: bool = False) -> str:
    label = task.meta.get("label")
    if label is None:
        raise UsageError(f"task {task.id!r} has no meta['label']: give it one, or score it with your own function")
    text = str(label)
    if filled and not text.strip():  # it would be found in any output
        raise UsageError(f"the label of task {task.id!r} is empty: fill it in")
    return text


def _last_number(text: str) -> Decimal | None:
    found = _NUMBER.findall(text.replace("\u2212", "-"))
    return Decimal(found[-1].replace(",", "")) if found else None
