"""What goes to another process and comes back, as bytes: the callable once, then items and results."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from agentdescent.effects import Performer, failure
from agentdescent.engine.command import Command
from agentdescent.engine.event import Failed
from agentdescent.errors import UsageError
from agentdescent.ports import Item, Result, Retry

Perform: TypeAlias = Callable[[Item], Result | Retry]
Told: TypeAlias = Result | Retry | BaseException
Done: TypeAlias = Callable[[Told], None]

REMEDY = "define the agent and the reward at module level, without lambdas, locks or open connections in them"


def pack_callable(perform: Perform, dumps: Callable[[Any], bytes] = pickle.dumps) -> bytes:
    """Raises UsageError that names what cannot be sent."""
    try:
        return dumps(perform)
    except Exception as error:  # pickling calls code we do not know
        part = next((name for name, value in _parts(perform) if not _goes(value, dumps)), repr(perform))
        raise UsageError(f"{part} cannot be sent to another process ({error}): {REMEDY}") from error


def _parts(perform: Perform) -> Iterator[tuple[str, object]]:
    performer = getattr(perform, "__self__", None)
    if isinstance(performer, Performer):
        ports = performer.ports
        yield f"the agent ({ports.agent})", (ports.solve, ports.propose)
        yield f"the reward ({ports.reward.name})", ports.reward.call
        if ports.oracle is not None:
            yield f"the oracle ({ports.oracle.name})", ports.oracle.call
        yield from ((f"task {task.id!r}", task) for task in performer.tasks)


def _goes(value: object, dumps: Callable[[Any], bytes]) -> bool:
    try:
        dumps(value)
    except Exception:  # as above
        return False
    return True


def pack_item(item: Item) -> bytes | Failed:
    """Failed when the item cannot be sent: an asynchronous agent returned something that has to stay here."""
    try:
        return pickle.dumps(item)
    except Exception as error:  # as above
        return _unsendable(item.command, f"what the agent returned cannot be sent to be scored ({error})")


def answer(perform: Perform, data: bytes) -> bytes:
    """Perform a packed item, and pack what comes of it. Total: a port may raise anything, SystemExit for one."""
    try:
        item: Item = pickle.loads(data)
    except Exception as error:  # loading imports code we do not know
        return pickle.dumps(error if _survives(error) else RuntimeError(f"{type(error).__name__}: {error}"))
    try:
        told: Told = perform(item)
    except BaseException as error:
        told = error if _survives(error) else (failure(item.command, error), "")
    try:
        return pickle.dumps(told)
    except Exception as error:  # as above
        failed = _unsendable(item.command, f"what came of it cannot be sent back ({error})")
        return pickle.dumps((failed, ""))


def _survives(error: BaseException) -> bool:
    """Whether an error can be told to another process: many can be pickled, and then not be loaded."""
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:  # as above
        return False


def unpack(data: bytes, command: Command) -> Told:
    """What `answer` packed."""
    try:
        told: Told = pickle.loads(data)
    except Exception as error:  # as above
        return _unsendable(command, f"what came of it cannot be read here ({error})"), ""
    return told


def _unsendable(command: Command, message: str) -> Failed:
    return Failed(command.id, "contract", f"{message}: return plain text, or Answer(text, usage)")
