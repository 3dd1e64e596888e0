"""Objects that a user names as module:attribute."""

from __future__ import annotations

import importlib

from agentdescent.errors import UsageError


def resolve(role: str, name: str) -> object:
    """The object that `module:attribute` (or `module:a.b`) names, `role` saying what for. Raises UsageError, whatever
    importing the module raises."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute) or module.startswith("."):
        raise UsageError(f"{role} {name!r}: name it as module:attribute")
    try:
        found: object = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise UsageError(f"{role} {name!r}: {error}") from error
    except Exception as error:  # a module is code we do not know: whatever it raises, this is not what was meant
        raise UsageError(f"{role} {name!r}: importing {module} failed: {type(error).__name__}: {error}") from error
    return found
