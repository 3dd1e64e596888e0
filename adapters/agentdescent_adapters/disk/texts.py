"""Where outputs are kept: all of them, or each only until the proposal that reads it is answered.

A text in a file of its own is on the disk, synced, before the line that refers to it is written: so a line never
refers to a text that a crash has taken, and a missing file is damage.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Literal, TypeAlias

from agentdescent.artifact.diff import digest
from agentdescent.engine.event import Event, Outcome, RolledOut
from agentdescent.errors import CorruptLog
from agentdescent.history.outputs import OpenOutputs
from agentdescent_adapters.disk.answers import Entry
from agentdescent_adapters.disk.atomic import write_atomic
from agentdescent_adapters.disk.files import Files
from agentdescent_adapters.disk.layout import PENDING, PENDING_NOTE, TEXTS

Texts: TypeAlias = Literal["keep", "digest"]
INLINE_LIMIT = 65_536
"""UTF-8 bytes of an output that still goes into the line."""
_NOTE = b"Outputs that a proposal is still to read. Each is removed once that proposal is answered.\n"


class TextStore:
    """Places outputs and finds them again. `outputs`: those that may still be read; None to keep everything."""

    def __init__(self, files: Files, root: str, outputs: OpenOutputs | None) -> None:
        self._files = files
        self._root = root
        self._outputs = outputs
        self._closed: list[int] = []
        self._pending: dict[int, set[str]] = {}

    @staticmethod
    def prepare(files: Files, root: str, texts: Texts) -> None:
        """Make the directory that says how this run keeps outputs, in place of one from a run that never began."""
        pending = os.path.join(root, PENDING)
        if texts == "keep":
            if os.path.isdir(pending):
                shutil.rmtree(pending)
            files.make_directory(os.path.join(root, TEXTS))
        else:
            files.make_directory(pending)
            write_atomic(os.path.join(pending, PENDING_NOTE), _NOTE, durable=True, files=files)

    def place(self, outcome: Outcome, output: str) -> Entry:
        """The entry to journal, its text written to a file and synced where it does not go into the line.

        Raises OSError; UnicodeEncodeError for a lone surrogate, before anything is written.
        """
        if self._outputs is None:
            if len(output) * 4 <= INLINE_LIMIT:
                return Entry(outcome, output)
            data = output.encode()
            if len(data) <= INLINE_LIMIT:
                return Entry(outcome, output)
            name = digest(data)
            self._write(os.path.join(TEXTS, name), data)
            return Entry(outcome, "", "texts", name)
        if not isinstance(outcome, RolledOut):
            return Entry(outcome)
        if outcome.id not in self._outputs:
            return Entry(outcome, "", "blank")
        data = output.encode()
        name = digest(data)
        self._write(os.path.join(PENDING, _pending_name(outcome.id, name)), data)
        self._pending.setdefault(outcome.id, set()).add(_pending_name(outcome.id, name))
        return Entry(outcome, "", "pending", name)

    def fetch(self, entry: Entry, line: int) -> str:
        """The output of the answer in line `line` (1-based) of the journal; "" where it was blanked.

        Raises CorruptLog when it is missing or is not the text that was scored.
        """
        outcome = entry.outcome
        if entry.place == "blank":
            return ""
        if entry.place == "pending" and (self._outputs is None or outcome.id not in self._outputs):
            return ""
        if entry.place == "line":
            data = entry.text.encode()
        else:
            kept = entry.place == "texts"
            name = (TEXTS, entry.digest) if kept else (PENDING, _pending_name(outcome.id, entry.digest))
            data = self._read(os.path.join(*name), line)
        expected = (isinstance(outcome, RolledOut) and outcome.output) or entry.digest
        if expected and digest(data) != expected:
            raise CorruptLog(f"line {line} of answers.jsonl: its output does not match its digest", line)
        return data.decode()

    def observe(self, event: Event) -> None:
        """Note which output an appended fact has closed. Nothing is removed before that fact is synced."""
        if self._outputs is not None:
            closed = self._outputs.observe(event)
            if closed is not None:
                self._closed.append(closed)

    def blank_closed(self) -> None:
        """Remove the outputs that nobody reads any more. Every event so far must survive a crash by now."""
        for command in self._closed:
            for name in self._pending.pop(command, ()):
                self._remove(name)
        self._closed.clear()

    def blank_strays(self) -> None:
        """Find the outputs that are open; remove every other, also those whose removal a crash has undone."""
        if self._outputs is not None:
            for name in os.listdir(os.path.join(self._root, PENDING)):
                command = name.rpartition("-")[0]
                if name == PENDING_NOTE:
                    continue
                if command.isdecimal() and int(command) in self._outputs:
                    self._pending.setdefault(int(command), set()).add(name)
                else:
                    self._remove(name)

    def _write(self, name: str, data: bytes) -> None:
        write_atomic(os.path.join(self._root, name), data, durable=True, files=self._files)

    def _read(self, name: str, line: int) -> bytes:
        try:
            with open(os.path.join(self._root, name), "rb") as file:
                return file.read()
        except FileNotFoundError as error:
            raise CorruptLog(f"line {line} of answers.jsonl refers to {name}, which is missing", line) from error

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.remove(os.path.join(self._root, PENDING, name))


def _pending_name(command: int, name: str) -> str:
    """With the digest, because a second answer to the command must not take the place of the first."""
    return f"{command}-{name}"
