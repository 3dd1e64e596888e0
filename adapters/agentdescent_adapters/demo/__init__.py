"""Messages to the help desk of a shop, written for this project, with the intent of each. Some could be two."""

from __future__ import annotations

from importlib.resources import as_file, files

from agentdescent.ports import Task
from agentdescent_adapters.tasks.files import load_csv

__all__ = ["demo_tasks"]


def demo_tasks() -> list[Task]:
    """242 messages in 8 intents of 52 to 14 messages, in a fixed, mixed order."""
    with as_file(files(__name__) / "messages.csv") as path:
        return load_csv(path)
