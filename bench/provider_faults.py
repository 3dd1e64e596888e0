"""Every fault of a provider, through every client: how the log names it, whether it was charged, what the server says.

A cell is a small run of the engine in which a model fails once in one way: 429 and 529 (with Retry-After), 503, 500, no
answer in time, a dropped connection, a truncated, malformed or stalled answer, a prompt too long; in the formats of
OpenAI and of Anthropic, streamed and whole; through the adapter here, and through the real clients, sync and async.
Faults are made by llmock, which also judges the client, or by bench.scripted_server where llmock cannot.

    wrong_kind       the failures in the log are not the one expected, or the run did not go on after it
    uncharged        the log has fewer tokens than the server billed, a broken answer being billed as a whole one
    verdicts_failed  errors that llmock finds in the behaviour of a client
    overhead_ms      CPU of one call through the adapter (encode, HTTP, decode), against a server in another process;
                     bare_ms of it are what the system takes to send and receive the same bytes

    python -m bench.provider_faults --json   # {"cells": .., "wrong_kind": 0, "uncharged": 0, "verdicts_failed": 0, ..}
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import cast

from agentdescent.record import Record
from bench import harness
from bench.mock_server import MockServer
from bench.provider_cells import CELLS, PAUSE, TIMEOUT, Cell, Ended, run, scripted_server
from bench.provider_overhead import Overhead, measured

AT_ONCE = 8
LIMIT_MS = 1.0
"""CPU milliseconds of a call, at most."""


class Row(Record, frozen=True):
    """One cell: what came of it, beside what the server has to say."""

    cell: Cell
    ended: Ended
    requests: int
    billed: int

    @property
    def right(self) -> bool:
        """What was turned away costs requests and leaves no failure; anything else is one, and asked anew."""
        fault = self.cell.fault
        named = self.ended.kinds == ((fault.kind,) * fault.times if fault.kind else ())
        turned_away = 0 if fault.kind else fault.times
        return named and not self.ended.error and self.requests == self.ended.outcomes + turned_away

    @property
    def charged(self) -> bool:
        return self.ended.charged >= self.billed

    def shown(self) -> dict[str, object]:
        ended = self.ended
        said = {"cell": self.cell.model, "kinds": list(ended.kinds), "requests": self.requests}
        return {**said, "charged": ended.charged, "billed": self.billed, "right": self.right, "error": ended.error}


async def _all(cells: Sequence[Cell], mock: MockServer) -> tuple[dict[str, Ended], list[Row]]:
    """How the cells ended that llmock serves, and the rows of the others."""
    room, done, rows = asyncio.Semaphore(AT_ONCE), dict[str, Ended](), list[Row]()

    async def one(cell: Cell) -> None:
        async with room:
            if not cell.fault.scripted:
                await asyncio.to_thread(mock.script, cell.model, cell.fault.mock)
                done[cell.model] = await run(cell, mock.url)
                return
            with scripted_server(cell) as server:
                ended = await run(cell, server.url)
            rows.append(Row(cell, ended, len(server.received), server.billed))

    async with asyncio.TaskGroup() as group:
        for cell in cells:
            group.create_task(one(cell))
    await asyncio.sleep(PAUSE - TIMEOUT)  # llmock puts down a call when it has ended it, not when it was given up
    return done, rows


def _name(request: Mapping[str, object]) -> str:
    return str(request["model"]).removeprefix("other-")


def _billed(mock: MockServer, cells: Sequence[Cell], done: Mapping[str, Ended]) -> list[Row]:
    """With the bill of the server: every answer that began with success, whatever became of it."""
    by_cell = defaultdict[str, list[dict[str, object]]](list)
    for request in mock.requests():
        by_cell[_name(request)].append(request)
    rows = list[Row]()
    for cell in cells:
        if cell.model in done:
            served = by_cell[cell.model]
            bill = sum(mock.bill(request) for request in served if request["status"] == 200)
            rows.append(Row(cell, done[cell.model], len(served), bill))
    return rows


def matrix(cells: Sequence[Cell]) -> tuple[list[Row], list[str]]:
    """The rows, and what llmock found: `severity code cell`."""
    with MockServer() as mock:
        done, rows = asyncio.run(_all(cells, mock))
        names = {request["seq"]: _name(request) for request in mock.requests()}
        found = [
            f"{finding['severity']} {finding['code']} {names[cast('list[int]', finding['requests'])[0]]}"
            for finding in mock.findings()
        ]
        return _billed(mock, cells, done) + rows, found


def summary(rows: Sequence[Row], findings: Sequence[str], overhead: Overhead) -> dict[str, object]:
    severities = Counter(finding.split()[0] for finding in findings)
    return {
        "cells": len(rows),
        "wrong_kind": sum(not row.right for row in rows),
        "uncharged": sum(not row.charged for row in rows),
        "verdicts_failed": severities["error"],
        "warnings": dict(Counter(finding.split()[1] for finding in findings if finding.startswith("warning"))),
        "charged": sum(row.ended.charged for row in rows),
        "billed": sum(row.billed for row in rows),
        **overhead.shown(),
    }


def main() -> int:
    parser = harness.options(__doc__)
    parser.add_argument("--only", default="", help="cells whose name contains this")
    given = parser.parse_args()
    began = time.monotonic()
    overhead = measured()
    cells = [cell for cell in CELLS if given.only in cell.model]
    rows, findings = matrix(cells)
    for row in rows:
        if not (row.right and row.charged):
            harness.progress(f"{row.shown()}")
    for finding in findings:
        harness.progress(finding)
    result = {**summary(rows, findings, overhead), "seconds": round(time.monotonic() - began, 1)}
    met = bool(rows) and not any(result[name] for name in ("wrong_kind", "uncharged", "verdicts_failed"))
    shown = [row.shown() for row in rows]
    return harness.finish("provider_faults", given, result, met=met and overhead.ms <= LIMIT_MS, rows=shown)


if __name__ == "__main__":
    sys.exit(main())
