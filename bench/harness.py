"""What the benches share: options, the file of results, and a process that counts what was billed from outside.

Every bench is `python -m bench.NAME --json`: the last line of stdout is one JSON object, the exit code is 0 when the
targets were met, and bench/results/NAME.json keeps the object with the command and the versions that gave it.

This file, run as a script, is the counting process. It shares no code with what it counts, imports nothing but the
standard library, and outlives every process that is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import IO, NamedTuple

RESULTS = Path(__file__).parent / "results"
_PLACES = ("--results", "--out")


# --- the counting process ---------------------------------------------------------------------------------------------
#
# It reads lines. "ACCOUNT TOKENS KEY" is a bill; "ACCOUNT ?" asks for all of an account, as JSON, and closes it.


class Bills(NamedTuple):
    """What the counting process was told of one account: a sum, and the key of every bill in order of arrival."""

    tokens: int
    keys: tuple[str, ...]


def _count(lines: IO[bytes], replies: IO[bytes]) -> None:
    tokens: defaultdict[str, int] = defaultdict(int)
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for line in lines:
        account, *bill = line.decode().split()
        if bill == ["?"]:
            reply = {"tokens": tokens.pop(account, 0), "keys": keys.pop(account, [])}
            replies.write(json.dumps(reply).encode() + b"\n")
            replies.flush()
        else:
            tokens[account] += int(bill[0])
            keys[account].append(bill[1])


class Counter:
    """The counting process, seen from those that bill. A context manager; forked children may bill too.

    `bill` hands the line to the operating system in one piece, so that it is counted even when the process that wrote
    it is killed at the next instruction.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise OSError("the counting process has no pipes")
        self._bills, self._replies = self._process.stdin, self._process.stdout

    def bill(self, account: str, tokens: int, key: object = "-") -> None:
        """Any thread. A line is shorter than a pipe's atomic write, so lines of several writers never mix."""
        os.write(self._bills.fileno(), f"{account} {tokens} {key}\n".encode())

    def take(self, account: str) -> Bills:
        """Everything billed to the account before this call; the account begins anew."""
        os.write(self._bills.fileno(), f"{account} ?\n".encode())
        line = bytearray()
        while not line.endswith(b"\n"):
            more = os.read(self._replies.fileno(), 65_536)
            if not more:
                raise OSError("the counting process is gone: nothing was measured")
            line += more
        reply = json.loads(line)
        return Bills(reply["tokens"], tuple(reply["keys"]))

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *_: object) -> None:
        self._bills.close()
        self._process.wait()
        self._replies.close()


# --- options and results ----------------------------------------------------------------------------------------------


def options(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options of every bench."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the result as one line, without a table before it")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where NAME.json is written")
    return parser


def versions() -> dict[str, str]:
    from agentdescent import __version__  # not above: the counting process knows nothing of what it counts

    return {
        "agentdescent": __version__,
        "python": platform.python_version(),
        "msgspec": metadata.version("msgspec"),
        "system": f"{platform.system()} {platform.machine()}",
    }


def finish(
    name: str,
    given: argparse.Namespace,
    result: Mapping[str, object],
    *,
    met: bool,
    rows: Sequence[Mapping[str, object]] = (),
    kept: str | None = None,
) -> int:
    """Keep the result and print it; the exit code. `rows`: details that are kept beside it, and shown as a table.
    `kept`: the name of the file, where a bench has several."""
    command = " ".join(("python", "-m", f"bench.{name}", *_typed()))
    whole = {"command": command, "versions": versions(), "met": met, "result": result, "rows": list(rows)}
    given.results.mkdir(parents=True, exist_ok=True)
    (given.results / f"{kept or name}.json").write_text(compact(whole) + "\n", encoding="utf-8")
    if not given.json:
        for row in rows:
            print("  ".join(f"{key} {value}" for key, value in row.items()))
    print(json.dumps(result))
    return 0 if met else 1


def compact(value: object, margin: str = "") -> str:
    """JSON with an entry a line, but a list of numbers and words on one line, however long it is."""
    inner = margin + " "
    if isinstance(value, dict) and value:
        parts = [f"{inner}{json.dumps(key)}: {compact(entry, inner)}" for key, entry in value.items()]
        return "\n".join(("{", ",\n".join(parts), f"{margin}}}"))
    if isinstance(value, list | tuple) and any(isinstance(entry, dict | list | tuple) for entry in value):
        parts = [f"{inner}{compact(entry, inner)}" for entry in value]
        return "\n".join(("[", ",\n".join(parts), f"{margin}]"))
    return json.dumps(value)


def _typed() -> Iterator[str]:
    """The options as they were typed, but for where anything is written."""
    words = iter(sys.argv[1:])
    for word in words:
        if word in _PLACES:
            next(words, None)
        elif word.partition("=")[0] not in _PLACES:
            yield word


def progress(text: str) -> None:
    """A line for whoever waits; never on stdout."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    _count(sys.stdin.buffer, sys.stdout.buffer)
