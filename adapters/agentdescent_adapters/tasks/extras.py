"""Packages that only some sources of tasks need."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from agentdescent.errors import UsageError


def missing(what: str, package: str, extra: str, error: ImportError) -> UsageError:
    return UsageError(f"{what} needs the package {package} ({error}): pip install 'agentdescent[{extra}]'")


def imported(module: str, what: str, package: str, extra: str) -> ModuleType:
    """The module; UsageError that names the extra when it cannot be imported."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing(what, package, extra, error) from error
