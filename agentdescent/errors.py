"""Three kinds of error, three types: the caller's fault, the world's fault, our bug."""

from __future__ import annotations


class AgentDescentError(Exception):
    """Base of everything this package raises on purpose."""


class UsageError(AgentDescentError, ValueError):
    """The caller asked for something impossible. The message names the offender and the remedy."""


class RunError(AgentDescentError):
    """The world failed: a backend, a scorer, a disk. What was paid for is in the log, and `result` says what there
    is (an EvolutionResult; None when the run could not begin, or not go on)."""

    def __init__(self, message: str, result: object | None = None) -> None:
        super().__init__(message)
        self.result = result


class ExecutorLost(RunError):
    """What performed the effects is gone: a scheduler, a cluster. What it had not answered is open in the log, and is
    performed again, or settled at its reservation, when the run is resumed."""


class CorruptLog(AgentDescentError):
    """A recorded log is damaged or was edited. `line` is 1-based; 0 when no one line is to blame."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class IllegalEvent(AgentDescentError):
    """An event that cannot follow this state: the log, the driver or this package is wrong."""
