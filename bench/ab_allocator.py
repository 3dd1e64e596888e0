"""The comparison of allocators as a bench: off, on and the controls at equal tokens, paired by seed.

    python -m bench.ab_allocator --world clusters --seeds 0..29 --max-tokens 600000 --json

As `agentdescent ab`, whose flags it takes and whose exit codes it has (0 improved or no difference, 4 worse, 5 not
measurable), and the result is kept as that of every bench. Without --out the runs are not kept: a second call measures
again.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence

from agentdescent.errors import AgentDescentError, UsageError
from agentdescent_adapters.command import ab
from bench import harness


def main(argv: Sequence[str] | None = None) -> int:
    parser = harness.options(__doc__)
    ab.add_arguments(parser)
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        given.out = given.out or scratch
        try:
            done = ab.compared(given)
        except AgentDescentError as error:
            print(f"ab_allocator: {error}", file=sys.stderr)
            return 2 if isinstance(error, UsageError) else 1
    if not given.json:
        print(done.report.text())
    harness.finish("ab_allocator", given, done.report.result(), met=done.code == 0)
    return done.code


if __name__ == "__main__":
    sys.exit(main())
