"""The public package agentdescent 0.7.0: `evolve` with its defaults, by its public interface.

The cap is its `max_tokens`, and what calls cost is told to the `Usage` that it reads. Rounds are without a limit that
matters. Held-out tasks are the last of the sequence, as it wants them. Its ledger and, with `checkpointing=True`, its
search state are in a directory, and the same call on the same directory is how it goes on. They do not hold what was
spent: that is kept beside them after each round, and a run that goes on is given what is left. "async":
asynchronous=True, where threads never wait for one another, so that no two runs are the same.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from bench.peers.driving import Plan, drive
from bench.peers.world import HELDOUT, TRAIN, Reply, World

MANY = 100_000


def search(plan: Plan, world: World) -> str:
    public: Any = importlib.import_module("agentdescent")
    usage, kept = public.Usage(), Path(f"{plan.directory}.tokens")
    before = int(kept.read_text(encoding="ascii")) if kept.exists() else 0

    def charged(reply: Reply) -> str:
        usage.add_tokens(prompt_tokens=reply.tokens)
        return reply.text

    def run(rendered: str, task: Any) -> str:
        return charged(world.solve(rendered, task.id))

    def propose(rendered: str, task: Any, output: str, reward: float) -> str:
        return charged(world.propose(rendered, task.id))

    rules: dict[str, str] = {}

    def told(reports: Any) -> None:
        """What was committed; the interface has no other way to see a head while the run goes on."""
        for report in reports:
            if report.committed_version is not None and report.accepted is not None:
                rules.update(report.accepted.ops)
        world.show(strategy.render(rules))
        kept.write_text(str(before + world.tokens), encoding="ascii")

    strategy = public.AppendRules()
    result = public.evolve(
        [public.Task(case.id, case.prompt, {"cluster": str(case.cluster)}) for case in (*world.train, *world.heldout)],
        lambda task, output: float(output == "right"),
        run=run,
        propose=propose,
        strategy=strategy,
        rounds=MANY,
        max_tokens=max(1, plan.cap - before),
        held_out_frac=HELDOUT / (HELDOUT + TRAIN),
        seed=plan.seed,
        repo_path=plan.directory,
        checkpointing=True,
        usage=usage,
        on_reports=told,
        asynchronous=plan.variant == "async",
    )
    if result.error:
        raise RuntimeError(result.error)
    return str(result.rendered)


if __name__ == "__main__":
    drive(search, "agentdescent", "numpy")
