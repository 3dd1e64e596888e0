"""The journal of answers: what was paid for, line by line, the moment it arrived.

    {"n":0,"answer":{"outcome":{...},"text":"..."},"crc":<CRC-32 of the bytes of answer>}

The number finds a line that was removed, moved or repeated, the checksum one that was damaged: the digest chain of
the events does not cover an answer until its outcome is appended, and never its text.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, TypeAlias

import msgspec

from agentdescent.engine.event import Outcome
from agentdescent.errors import CorruptLog

Place: TypeAlias = Literal["line", "texts", "pending", "blank"]
"""Where the output is: in the line, in `texts/<digest>`, in `pending/<command id>-<digest>`, or nowhere."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One answer. `digest`: of the output's UTF-8 bytes; only set where it names a file."""

    outcome: Outcome
    text: str = ""
    place: Place = "line"
    digest: Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{32})?\Z")] = ""


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    n: int
    answer: msgspec.Raw
    crc: int


_encode = msgspec.json.Encoder().encode
_line_decoder = msgspec.json.Decoder(_Line)
_entry_decoder = msgspec.json.Decoder(Entry)


def encode_entry(n: int, entry: Entry) -> bytes:
    """Line `n` (from 0) of the journal, with its newline."""
    body = _encode(entry)
    return b'{"n":%d,"answer":%b,"crc":%d}\n' % (n, body, zlib.crc32(body))


def read_entries(lines: Iterable[bytes]) -> Iterator[Entry]:
    """The answers, in the order in which they arrived. Raises CorruptLog at the first damaged line."""
    for n, line in enumerate(lines):
        try:
            parts = _line_decoder.decode(line)
            entry = _entry_decoder.decode(parts.answer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptLog(f"line {n + 1} of answers.jsonl cannot be read: {error}", n + 1) from error
        if parts.n != n:
            raise CorruptLog(
                f"line {n + 1} of answers.jsonl holds answer {parts.n}: a line was removed, moved or repeated", n + 1
            )
        if zlib.crc32(bytes(parts.answer)) != parts.crc:
            raise CorruptLog(
                f"line {n + 1} of answers.jsonl does not match its checksum: it was edited or damaged", n + 1
            )
        yield entry
