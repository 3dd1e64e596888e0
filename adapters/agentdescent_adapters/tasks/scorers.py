"""Reward functions for tasks with a label in meta["label"]: 1.0 for right, 0.0 for wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

from agentdescent.errors import UsageError
from agentdescent.ports import Reward, Task
from agentdescent_adapters.named import resolve

_NUMBER = re.compile(r"(?<![\w.])-?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+|(?=\.[0-9]))(?:\.[0-9]+)?")


def exact(task: Task, output: str) -> float:
    """Whether the output is the label, white space around either apart."""
    return float(output.strip() == _label(task).strip())


def contains(task: Task, output: str) -> float:
    """Whether the label occurs in the output, in whatever case."""
    return float(_label(task).strip().casefold() in output.casefold())


def number(task: Task, output: str) -> float:
    """Whether the last number of the output equals the last of the label; `1,000`, `1000` and `1000.0` are one."""
    expected = _last_number(_label(task))
    if expected is None:
        raise UsageError(f"the label of task {task.id!r} has no number in it: score it with another scorer")
    return float(_last_number(output) == expected)


class Scorer:
    """A reward function that returns at once and never bills."""

    blocking = False
    bills = False

    def __init__(self, name: str, function: Callable[[Task, str], float]) -> None:
        self.name = name
        self._function = function

    def __call__(self, task: Task, output: str) -> float:
        return self._function(task, output)


_NAMED = {function.__name__: Scorer(function.__name__, function) for function in (exact, contains, number)}


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


def _label(task: Task) -> str:
    label = task.meta.get("label")
    if label is None:
        raise UsageError(f"task {task.id!r} has no meta['label']: give it one, or score it with your own function")
    return str(label)


def _last_number(text: str) -> Decimal | None:
    found = _NUMBER.findall(text)
    return Decimal(found[-1].replace(",", "")) if found else None
