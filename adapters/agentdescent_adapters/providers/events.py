"""Server-sent events: the data of each, out of chunks of bytes cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator


class Events:
    """Lines end with LF or CRLF, an event with an empty line; what is not `data` says nothing here."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The events that this chunk completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line:
                data, self._data = b"\n".join(self._data), []
                if data:  # one without any says that the connection is alive
                    yield data

    def end(self) -> Iterator[bytes]:
        """What came last, where the final empty line is missing."""
        yield from self.feed(b"\n\n")
