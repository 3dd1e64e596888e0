"""The comparison of allocators as a bench: off, on and the controls at equal tokens, paired by seed.

    python -m bench.ab_allocator --world clusters --seeds 0..29 --max-tokens 600000 --json

As `agentdescent ab`, whose flags it takes and whose exit codes it has (0 improved or no difference, 4 worse, 5 not
measurable), and the result is kept as that of every bench, its rows as columns. Without --out the runs are not kept: a
second call measures again.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence

from agentdescent.errors import AgentDescentError, UsageError
from agentdescent_adapters.command import ab
from bench import harness


def main(argv: Sequence[str] | None = None) -> int:
    parser = harness.options(__doc__)
    ab.add_arguments(parser)
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            done = ab.performed(given, scratch)
        except (AgentDescentError, OSError) as error:
            print(f"ab_allocator: {error}", file=sys.stderr)
            return 2 if isinstance(error, UsageError) else 1
    if isinstance(done, int):
        return done
    if not given.json:
        print(done.report.text())
    result = done.report.result()
    harness.finish("ab_allocator", given, {**result, "rows": columns(result["rows"])}, met=done.code == 0)
    return done.code


def columns(rows: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    """By name, each in the order of the rows."""
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


if __name__ == "__main__":
    sys.exit(main())
