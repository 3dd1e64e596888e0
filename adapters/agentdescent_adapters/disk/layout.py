"""The names in a run directory, and what they hold."""

from __future__ import annotations

import os

EVENTS = "events.jsonl"
"""The truth: every event, in the format of `agentdescent.history.log`."""
ANSWERS = "answers.jsonl"
"""The journal of answers, in the format of `answers.py`."""
TIMINGS = "timings.jsonl"
"""Durations, {"id": command, "seconds": float}: not digested, and lost without harm."""
TEXTS = "texts"
"""Outputs above 64 KiB, named by digest. Only in a run with texts="keep"."""
PENDING = "pending"
"""Outputs that a proposal is still to read, named by command. Its presence says that texts="digest"."""
PENDING_NOTE = "README"
"""Keeps `pending/` from being left out by tools that copy no empty directories: then outputs would be kept."""
LOCK = "lock"
"""Locked by the one writer; holds its process id."""


def has_bytes(path: str) -> bool:
    """True when the file is there and not empty."""
    return os.path.isfile(path) and os.path.getsize(path) > 0
