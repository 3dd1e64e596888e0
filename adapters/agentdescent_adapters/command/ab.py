"""`agentdescent ab`: one workload, an allocator off and on and the controls, equal tokens, paired seeds.

Exit codes: 0 improved, or no difference; 4 worse; 5 not measurable: no complete pair, fewer than 10, or nothing was
skipped. 1, 2, 130 and 143 as everywhere: an error, wrong usage, stopped (the same --out goes on).
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn, get_args

import msgspec

from agentdescent.allocation.features import Stage
from agentdescent.errors import UsageError
from agentdescent.experiment.results import ArmResult
from agentdescent.experiment.verdict import Verdict
from agentdescent_adapters.command.agents import KEYS
from agentdescent_adapters.command.config import HUBS, RunConfig
from agentdescent_adapters.command.config_file import merge
from agentdescent_adapters.command.execution import next_run
from agentdescent_adapters.comparison.pool import perform_all
from agentdescent_adapters.comparison.report import Report
from agentdescent_adapters.comparison.running import Planned, prepared
from agentdescent_adapters.comparison.treatments import ARMS, OFF, ON, RANDOM, Treatment, arms_of
from agentdescent_adapters.comparison.workloads import Caps, ConfigWorkload, Stated, world_named
from agentdescent_adapters.disk import write_atomic

HELP = "compare an allocator with none, and with controls, on one workload at equal tokens"
WORSE, NOT_MEASURABLE = 4, 5
CODES: dict[Verdict, int] = {"improved": 0, "no difference": 0, "worse": WORSE, "not measurable": NOT_MEASURABLE}
PLAN = "comparison.json"
SOURCES = tuple(hub.removesuffix(":") for hub in HUBS)
VALUE = "value"
MOST_SEEDS = 100_000
UNEQUAL = {
    "cache": "the arms would be answered out of one another's calls, which then cost nothing",
    "max_seconds": "a run that the clock stops has had no equal budget, and is never finished",
}
"""Keys of a config under which runs cannot be compared."""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all runs of a comparison have in common; kept beside them. Seeds and arms may be added later."""

    workload: Stated
    treatment: Treatment
    caps: Caps


class Compared(NamedTuple):
    report: Report
    code: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arms = "; ".join(f"{name}: {what}" for name, what in ARMS.items())
    add = parser.add_argument
    add("config", nargs="?", metavar="CONFIG", help="TOML file as for `run`; flags go over it")
    add("--world", metavar="NAME", help="a world with known truth, at the seed of each run: no model, no data")
    add("--dataset", metavar="DATA", help="file of tasks, or what --source calls them (or `demo`)")
    add("--source", choices=SOURCES, help="where --dataset is from (default: a file)")
    add("--provider", metavar="NAME", help=f"who answers: rules, {', '.join(KEYS)}, or module:object (agent of CONFIG)")
    add("--model", metavar="NAME", help="the model of the provider; its address and the rest are those of CONFIG")
    add("--max-tokens", type=int, metavar="INT", help="token ceiling of every run")
    add("--budget-rollouts", type=int, metavar="INT", help="ceiling of rollouts of every run")
    add("--seeds", default="0..9", metavar="A..B|A,B,..", help="one run a seed and arm (default: 0..9)")
    add("--arms", metavar="A,B,..", help=f"beside {OFF} and {ON} (default: all). {arms}")
    add("--allocator", metavar="NAME", help="what is on: value, or module:object (default: of CONFIG, else value)")
    add("--min-observations", type=int, metavar="INT", help="outcomes before the allocator has an opinion")
    add(
        "--budget-start",
        type=float,
        metavar="SHARE",
        help="it decides while less of the budget remains; above 1: always",
    )
    add("--stages", metavar="A,B,..", help=f"what it decides: {', '.join(get_args(Stage))} (default: verify)")
    add("--thrifty", action="store_true", help="all arms with what makes a commit cheap")
    add("--target", type=float, metavar="REWARD", help="of tokens to target (default: the median reached)")
    add("--jobs", type=int, default=2, metavar="INT", help="runs at a time (default: 2)")
    add("--out", metavar="DIR", help="directory of the runs; one that exists is gone on with (default: a new one)")
    add("--yes", action="store_true", help="do not ask before spending")
    add("--quiet", action="store_true", help="no progress")


def seeds_of(text: str) -> tuple[int, ...]:
    """`0..29`, `7`, `17,42` or a mixture, each once."""
    found: list[int] = []
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        try:
            more = range(int(first), int(last) + 1) if dots else (int(first),)
        except ValueError as error:
            raise UsageError(f"seeds {text!r}: write 0..29, or 17,42") from error
        if more[MOST_SEEDS - len(found) :]:
            raise UsageError(f"seeds {text!r}: more than {MOST_SEEDS:,} runs of an arm: write fewer")
        found += more
    if not found or len(set(found)) != len(found):
        raise UsageError(f"seeds {text!r}: there is none, or one of them twice")
    return tuple(found)


def plan_of(given: argparse.Namespace) -> Plan:
    """Raises UsageError that names the flag and the remedy."""
    stages = None if given.stages is None else tuple(given.stages.split(","))
    unknown = next((stage for stage in stages or () if stage not in get_args(Stage)), None)
    if unknown is not None:
        raise UsageError(f"--stages: {unknown!r} is none of {', '.join(get_args(Stage))}")
    workload = _workload(given)
    own = workload.config if isinstance(workload, ConfigWorkload) else RunConfig()
    allocator = given.allocator or (VALUE if own.allocator == OFF else own.allocator)
    tokens = own.max_tokens if given.max_tokens is None else given.max_tokens
    if tokens is None:
        raise UsageError("no --max-tokens: without a ceiling nothing is ever tight, and all arms are the same run")
    rollouts = own.max_rollouts if given.budget_rollouts is None else given.budget_rollouts
    treatment = Treatment(allocator, given.min_observations, given.budget_start, stages)
    return Plan(workload, treatment, Caps(tokens, rollouts))


def _workload(given: argparse.Namespace) -> Stated:
    named = {name: getattr(given, name) for name in ("config", "dataset", "source", "provider", "model")}
    if given.world is not None:
        other = next((name for name, value in named.items() if value is not None), None)
        if other is not None:
            raise UsageError(f"--world brings its own tasks and agent: leave out {other}")
        return world_named(given.world, thrifty=given.thrifty)
    flags: dict[str, Any] = {"thrifty": True} if given.thrifty else {}
    flags |= {"tasks": given.dataset, "agent": given.provider, "model": given.model}
    if given.source is not None:
        if given.dataset is None:
            raise UsageError(f"--source {given.source} says where --dataset is from, and there is none: give both")
        flags["tasks"] = f"{given.source}:{given.dataset}"
    flags = {name: value for name, value in flags.items() if value is not None}
    config = merge(given.config, {"path": str(Path.cwd()), **flags})
    for name, why in UNEQUAL.items():
        if getattr(config, name) is not None:
            raise UsageError(f"{name} is set, and {why}: leave it out of a comparison")
    return ConfigWorkload(config, Path(config.tasks).stem or "job")


def _runs(plan: Plan, arms: tuple[str, ...], seeds: tuple[int, ...], out: str) -> list[Planned]:
    return [
        Planned(arm, seed, plan.workload, plan.treatment, plan.caps, str(Path(out) / f"{arm}-{seed}"))
        for seed in seeds
        for arm in arms
    ]


def _arms(given: argparse.Namespace, treatment: Treatment) -> tuple[str, ...]:
    possible = arms_of(treatment)
    if given.arms is None:
        return possible
    asked = {name.strip() for name in given.arms.split(",") if name.strip()} | {OFF, ON}
    unknown = sorted(asked - set(possible))
    if unknown:
        raise UsageError(f"--arms: {unknown[0]!r} is none of {', '.join(possible)}")
    return tuple(arm for arm in possible if arm in asked)


def compared(given: argparse.Namespace) -> Compared:
    """Perform what is not done yet, and compare; `given.out` says where. Raises UsageError before anything is spent."""
    if given.jobs < 1:
        raise UsageError(f"--jobs is {given.jobs}: it must be at least 1")
    if given.target is not None and not 0.0 < given.target <= 1.0:
        raise UsageError(f"--target is {given.target}: it is a reward above 0, at most 1")
    if "" not in sys.path:  # modules of the user are looked for where the command was started
        sys.path.insert(0, "")
    plan, seeds = plan_of(given), seeds_of(given.seeds)
    given.out = given.out or next_run(f"ab-{plan.workload.name}")
    runs = _runs(plan, _arms(given, plan.treatment), seeds, given.out)
    _consent(runs, plan.caps, yes=given.yes, quiet=given.quiet)
    remember(plan, given.out)
    done = 0

    def told(row: ArmResult) -> None:
        nonlocal done
        done += 1
        if not given.quiet:
            print(_progress(row, done, len(runs)), file=sys.stderr, flush=True)

    rows = perform_all(runs, given.jobs, told)
    report = Report(rows, plan.caps.tokens, given.target)
    return Compared(report, CODES[report.decided.verdict])


def _consent(runs: list[Planned], caps: Caps, *, yes: bool, quiet: bool) -> None:
    """Say what it can cost, and ask where somebody bills it."""
    first = prepared(next(planned for planned in runs if planned.arm == OFF)).job
    for planned in runs:
        if planned.seed == runs[0].seed and planned.arm != RANDOM:
            prepared(planned)  # what is wrong with an arm is wrong before anything is spent
    prices = [rate.prices for rate in (first.setup.tariff.solve, first.setup.tariff.propose) if rate.prices is not None]
    dearest = max((max(price.prompt, price.completion) for price in prices), default=0)
    most = len(runs) * caps.tokens
    text = f"{len(runs)} runs of at most {caps.tokens:,} tokens, {most:,} in all"
    if dearest:
        text += f", ${most * dearest / 1e12:,.2f} at most"
    billed = first.ports.repeat == "charged"
    if not quiet:
        print(f"ab: {text}{'' if billed else '; nobody bills them'}", file=sys.stderr)
    if not billed or yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{text}: give --yes to spend them")
    print("ab: go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was spent")


def remember(plan: msgspec.Struct, out: str) -> None:
    """A comparison that is gone on with is the same comparison. Raises UsageError where it is another."""
    path, written = Path(out) / PLAN, msgspec.json.encode(plan)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, written)
        return
    try:
        before = msgspec.json.decode(path.read_bytes(), type=type(plan))
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}; name another --out") from error
    if before != plan:
        differ = [name for name in plan.__struct_fields__ if getattr(before, name) != getattr(plan, name)]
        raise UsageError(f"{out} holds another comparison, whose {', '.join(differ)} differ: name another --out")


def _progress(row: ArmResult, done: int, planned: int) -> str:
    tokens = "unknown" if row.tokens is None else f"{row.tokens:,}"
    quality = row.error or ("" if row.quality is None else f"quality {row.quality:.3f}")
    return f"ab: {done}/{planned}  {row.arm} seed {row.seed}  tok={tokens}  {quality}"


def performed(given: argparse.Namespace, scratch: str | None = None) -> Compared | int:
    """`compared`, or the exit code of one that was told to stop: SIGTERM lets runs in progress settle, as Ctrl-C does.
    `scratch`: a directory that is not kept, for want of --out."""
    terminated, kept = False, given.out is not None or scratch is None
    given.out = given.out or scratch

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        nonlocal terminated
        terminated = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        return compared(given)
    except KeyboardInterrupt:
        goes_on = f"the same command goes on --out {given.out}" if kept else "nothing is kept without --out DIR"
        print(f"agentdescent: stopped; {goes_on}", file=sys.stderr)
        return 128 + (signal.SIGTERM if terminated else signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, before)


def run(given: argparse.Namespace) -> int:
    """The subcommand."""
    done = performed(given)
    if isinstance(done, int):
        return done
    print(msgspec.json.encode(done.report.result()).decode() if given.json else done.report.text())
    return done.code
