"""What a run is configured by: one flat record, filled from a TOML file and flags, kept as job.json in the run."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from agentdescent.budget.projection import Projection
from agentdescent.budget.returns import DiminishingReturns
from agentdescent.driver import DEADLINE
from agentdescent.engine.spec import Admission, Fusion, GateOrder, Spec, Staleness
from agentdescent.errors import UsageError
from agentdescent_adapters.disk import write_atomic

JOB = "job.json"
DEMO = "demo"
SelectionName: TypeAlias = Literal["single-head", "flat-puct", "cost-efficient", "beam", "archive", "pareto", "clade"]
_DEFAULT = Spec()
_RETURNS = DiminishingReturns()


class RunConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every flag of `agentdescent run`; in TOML the same names with underscores. Defaults are those of the library."""

    tasks: str = ""
    text: str = "text"
    label: str = "label"
    id: str | None = None
    labels: int | None = None
    agent: str = "rules"
    scorer: str = "exact"
    oracle: str | None = None
    oracle_budget: int | None = None
    audit: Literal["doubtful", "always"] = "doubtful"
    strategy: Literal["append-rules", "single-slot"] = "append-rules"
    artifact: str | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_calls: int | None = None
    max_rollouts: int | None = None
    max_seconds: float | None = None
    rounds: int | None = None
    workers: int = _DEFAULT.n_workers
    concurrency: int | None = None
    seed: int = _DEFAULT.seed
    heldout_share: float = _DEFAULT.heldout_share
    heldout_limit: int = _DEFAULT.heldout_limit
    test_share: float = _DEFAULT.test_share
    test_limit: int = _DEFAULT.test_limit
    shuffle: bool = _DEFAULT.shuffle
    self_verify: bool = _DEFAULT.self_verify
    screen: bool | None = None
    acceptance: Literal["paired", "unpaired"] = "paired"
    curtail: bool = _DEFAULT.curtail
    tournament: bool | None = None
    futility: float | None = None
    finish_epsilon: float | None = None
    fusion: Fusion = _DEFAULT.fusion
    staleness: Staleness = _DEFAULT.staleness
    refresh_interval: int = _DEFAULT.refresh_interval
    gate_order: GateOrder = _DEFAULT.gate_order
    wave_min: int | None = None
    cheap_size: int = _DEFAULT.cheap_size
    thrifty: bool = False
    sampling: Literal["round-robin", "difficulty", "stakes"] | None = None
    samples: int | None = None
    selection: SelectionName = "single-head"
    population: int = _DEFAULT.population
    fusion_width: int | Literal["all", "adaptive"] | None = None
    asynchronous: bool = False
    merge_size: int | None = None
    async_ratio: int = _DEFAULT.async_ratio
    window: int = _DEFAULT.window
    admission: Admission = _DEFAULT.admission
    soft_floor: float = _DEFAULT.soft_floor
    hard_floor: float = _DEFAULT.hard_floor
    projection: Projection = _DEFAULT.projection
    diminishing_returns: bool = False
    efficiency_floor: float = _RETURNS.efficiency_floor
    efficiency_samples: int = _RETURNS.min_efficiency_samples
    call_budget: int | None = None
    call_floor: int | None = None
    allocator: str = "off"
    solved_threshold: float = _DEFAULT.solved_threshold
    open_gates: int = _DEFAULT.open_gates
    attempts: int = _DEFAULT.attempts
    deadline: float = DEADLINE
    executor: str = "threads"
    target_reward: float | None = None
    patience: int | None = None
    texts: Literal["keep", "digest"] = "keep"
    path: str = ""


HELP = {
    "tasks": "CSV or JSONL file of tasks (or `demo`)",
    "text": "column or field with the message",
    "label": "column or field with the right answer",
    "id": "column or field with a unique id (default: the row number)",
    "labels": "keep the tasks of the N most frequent labels only",
    "agent": "`rules` (needs no model), or module:object",
    "scorer": "exact, contains, number, or module:function",
    "oracle": "a second scorer that may veto a commit (see --audit): as --scorer",
    "oracle_budget": "calls of the oracle at most",
    "audit": "doubtful: ask the oracle while gates contradict their cheap subset; always: before every commit",
    "strategy": "what evolves: a list of rules, or one text",
    "artifact": "file with the text to start from (rules: one a line)",
    "max_tokens": "token ceiling: not one token over",
    "max_cost": "ceiling in dollars",
    "max_calls": "ceiling of calls",
    "max_rollouts": "ceiling of rollouts",
    "max_seconds": "stop taking new work after so many seconds",
    "rounds": "rounds to run (default: 15, or no limit when another one is given)",
    "workers": "workers a round",
    "concurrency": "calls in flight at once (default: workers)",
    "seed": "seed of every random choice",
    "heldout_share": "share of the tasks that decides what is kept",
    "heldout_limit": "held-out tasks at most",
    "test_share": "share of the tasks that no decision reads",
    "test_limit": "test tasks at most",
    "shuffle": "seeded stratified shuffle of the tasks",
    "self_verify": "try a proposal on the task that prompted it",
    "screen": "merge only verified proposals that gained (default: with --thrifty or --asynchronous)",
    "acceptance": "a gate compares task by task, or the candidate's mean with the head's",
    "curtail": "stop a gate the moment rejection is certain",
    "tournament": "compare fused proposals with each alone on the cheap tasks first, until --soft-floor",
    "futility": "stop a gate whose predicted probability of acceptance is below this (default: never; thrifty: 0.2)",
    "finish_epsilon": "chance that such a gate is completed all the same, which measures what is lost (default: 0.1)",
    "fusion": "put what does not contradict forward together",
    "staleness": "what becomes of proposals made for an older head",
    "refresh_interval": "rounds for which a worker keeps its copy",
    "gate_order": "which held-out tasks a gate asks first",
    "cheap_size": "held-out tasks on which proposals are compared, and the oracle is asked",
    "thrifty": "what makes a commit cheap: screen, sampling by stakes, 10 samples a rollout, adaptive width, futility",
    "sampling": "which train task is next: in turn, by difficulty, or where most is to be won",
    "samples": "proposals a rollout may lead to while none is worth merging (default: 1; thrifty: 10)",
    "selection": "what a turn starts from: the head, or one of the kept artifacts",
    "population": "artifacts that are kept to select from (not with single-head)",
    "fusion_width": "proposals to a gate: all, adaptive or a number (default: all; thrifty: adaptive)",
    "asynchronous": "workers never wait for a round; turns go on beside the merge",
    "merge_size": "asynchronous: proposals a merge waits for (default: half the workers, at most 16)",
    "async_ratio": "asynchronous: merges that the workers may be ahead",
    "window": "asynchronous, ordered: effects per worker decided ahead of the answers",
    "admission": "ordered: the log does not know latencies; arrival: fastest",
    "soft_floor": "share of the token cap at which fusion tournaments stop",
    "hard_floor": "share of the token cap at which self-verify stops",
    "projection": "round: end before a round that is not expected to fit; verdict: use the budget to its end",
    "diminishing_returns": "stop when a token buys far less than it once did (needs --max-tokens)",
    "efficiency_floor": "diminishing returns: how much less, as a share of the peak",
    "efficiency_samples": "diminishing returns: rounds that are looked at together",
    "call_budget": "completion tokens of one proposal at most, fewer where less is to be expected",
    "call_floor": "completion tokens that a proposal is given at least (default: a quarter, but 256)",
    "allocator": "who decides on optional spends: off, value, always, never, lineage, random:RATE, or module:object",
    "solved_threshold": "score from which a task is solved",
    "wave_min": "outcomes a gate asks for at once, at least (default: 1; asynchronous: four times the workers)",
    "open_gates": "gates open at once",
    "attempts": "commands per slot, failures included",
    "deadline": "seconds one call may take",
    "executor": "where calls that block are made: threads, processes or dask://HOST:PORT",
    "target_reward": "stop at this held-out mean",
    "patience": "stop after so many rounds without improvement",
    "path": "directory in which modules are looked for (default: here)",
    "texts": "digest: keep outputs out of the run directory",
}


def merge(file: str | None, flags: dict[str, Any]) -> RunConfig:
    """A config of a TOML file (if any) with flags on top. Raises UsageError that names the key and the remedy."""
    values: dict[str, Any] = {}
    if file is not None:
        try:
            values = tomllib.loads(Path(file).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise UsageError(f"{file}: cannot be read ({error.strerror}): check the path") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: {error}: write it as TOML, `key = value` a line") from error
        known = RunConfig.__struct_fields__
        for key in values:
            if key not in known:
                raise UsageError(f"{file}: unknown key {key!r}: the keys are {', '.join(known)}")
        for key in ("tasks", "artifact"):
            if isinstance(values.get(key), str) and values[key] != DEMO:
                values[key] = str(Path(file).parent / values[key])
    try:
        return msgspec.convert({**values, **flags}, RunConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"{file or 'flags'}: {error}: `agentdescent run --help` says what each takes") from error


def save(run: str, config: RunConfig) -> None:
    """Keep the job beside its log, so that `resume` needs nothing but the directory."""
    tasks = config.tasks if config.tasks == DEMO else str(Path(config.tasks).resolve())
    artifact = None if config.artifact is None else str(Path(config.artifact).resolve())
    config = msgspec.structs.replace(config, tasks=tasks, artifact=artifact, path=str(Path(config.path).resolve()))
    write_atomic(Path(run) / JOB, msgspec.json.format(msgspec.json.encode(config), indent=1))


def load(run: str) -> RunConfig:
    """The job of a run directory. Raises UsageError when there is none."""
    path = Path(run) / JOB
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunConfig)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}): is {run} a run of this command?") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: {error}: it was changed by hand; start a new run") from error
