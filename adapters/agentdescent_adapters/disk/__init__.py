"""Runs on disk. A run directory, private to the user (files 0600):

    events.jsonl    the truth: every event with the running digest of all before it
    answers.jsonl   every answer, from the moment it arrived
    texts/          outputs above 64 KiB, named by digest
    pending/        in place of texts/ with texts="digest": outputs that a proposal is still to read
    timings.jsonl   durations, neither digested nor synced
    lock            held by the one writer, with its process id

POSIX only: one writer is a matter of `flock`, which a network file system may not keep across machines.
"""

from __future__ import annotations

from agentdescent_adapters.disk.atomic import write_atomic
from agentdescent_adapters.disk.events import Chained, being_written, follow_events, read_events
from agentdescent_adapters.disk.files import Files, OsFiles
from agentdescent_adapters.disk.log import DiskLog

__all__ = [
    "Chained",
    "DiskLog",
    "Files",
    "OsFiles",
    "being_written",
    "follow_events",
    "read_events",
    "write_atomic",
]
