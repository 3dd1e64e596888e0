"""The format of a log: JSON lines, one event a line, each with the digest of everything up to and with it.

    {"n":0,"event":{...},"digest":"<32 hex digits>"}

digest(n) = BLAKE2b-128(digest(n-1) || the bytes of event n), digest(-1) = 32 zeros. So a line cannot be
edited, removed, moved or repeated without the first such line being found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import msgspec

from agentdescent.engine.event import Event
from agentdescent.errors import CorruptLog

GENESIS = "0" * 32

_encoder = msgspec.json.Encoder()
_event_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    n: int
    event: msgspec.Raw
    digest: str


_line_decoder = msgspec.json.Decoder(_Line)
_TAIL = len(b',"digest":""}') + len(GENESIS)


def chain(previous: str, event: bytes) -> str:
    return hashlib.blake2b(previous.encode() + event, digest_size=16).hexdigest()


def _line(n: int, event: bytes, digest: str) -> bytes:
    return b'{"n":%d,"event":%b,"digest":"%b"}' % (n, event, digest.encode())


def encode(n: int, previous: str, event: Event) -> tuple[bytes, str]:
    """The line of event `n` (with its newline) and the digest after it."""
    body = _encoder.encode(event)
    after = chain(previous, body)
    return _line(n, body, after) + b"\n", after


def decode(line: bytes, n: int, previous: str) -> tuple[Event, str]:
    """The event of line `n` + 1 and the digest after it. Raises CorruptLog, which names the line."""
    whole = line.rstrip(b"\n")
    body = whole[len(b'{"n":%d,"event":' % n) : -_TAIL]
    after = chain(previous, body)
    try:
        if whole != _line(n, body, after):
            raise _damage(whole, n)
        return _event_decoder.decode(body), after
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptLog(f"line {n + 1} of the log cannot be read: {error}", n + 1) from error


def _damage(line: bytes, n: int) -> CorruptLog:
    """What is wrong with a line that is not what was written. Raises DecodeError or UnicodeDecodeError."""
    parts = _line_decoder.decode(line)
    _event_decoder.decode(parts.event)
    if parts.n != n:
        return CorruptLog(
            f"line {n + 1} of the log holds event {parts.n}: a line was removed, moved or repeated", n + 1
        )
    return CorruptLog(f"line {n + 1} of the log does not match its digest: it was edited or damaged", n + 1)


def read(lines: Iterable[bytes]) -> Iterator[tuple[Event, str]]:
    """Every event with the digest after it. Raises CorruptLog at the first damaged line."""
    digest = GENESIS
    for n, line in enumerate(lines):
        event, digest = decode(line, n, digest)
        yield event, digest
