"""What a run is configured by: one flat record, filled from a TOML file and flags, kept as job.json in the run.

It never holds a credential: `api_key_env` names the variable of the environment that does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from agentdescent.budget.projection import Projection
from agentdescent.budget.returns import DiminishingReturns
from agentdescent.driver import DEADLINE
from agentdescent.engine.spec import Admission, Fusion, GateOrder, Spec, Staleness
from agentdescent.errors import UsageError
from agentdescent_adapters.disk import write_atomic

JOB = "job.json"
DEMO = "demo"
HUBS = ("hf:", "modelscope:")
SelectionName: TypeAlias = Literal["single-head", "flat-puct", "cost-efficient", "beam", "archive", "pareto", "clade"]
Counter: TypeAlias = Literal["none", "openai", "llama"]
_DEFAULT = Spec()
_RETURNS = DiminishingReturns()


class RunConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every flag of `agentdescent run`, with underscores. Defaults are those of the library. `sections` says where each
    stands in a file."""

    tasks: str = ""
    text: str = "text"
    label: str = "label"
    id: str | None = None
    labels: int | None = None
    split: str | None = None
    subset: str | None = None
    limit: int | None = None
    agent: str = "rules"
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    temperature: float | Literal["default"] | None = None
    model_seed: int | None = None
    solve_ceiling: int | None = None
    propose_ceiling: int | None = None
    choices: bool = False
    proposer: str = "model"
    solve_template: str | None = None
    propose_template: str | None = None
    stream: bool = False
    cache: str | None = None
    overhead: int | None = None
    counter: Counter = "none"
    bytes_per_token: int | None = None
    price_prompt: float | None = None
    price_cached: float | None = None
    price_completion: float | None = None
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
    out: str | None = None


FILES = ("tasks", "artifact", "solve_template", "propose_template", "cache", "out", "path")
"""Fields that name a file or a directory; in a file they are relative to it."""


def local(field: str, value: str) -> bool:
    """Whether a value of such a field is a path, and not a name like `demo` or `hf:DATASET`."""
    return bool(value) and not (field == "tasks" and (value == DEMO or value.startswith(HUBS)))


def save(run: str, config: RunConfig) -> None:
    """Keep the job beside its log, so that `resume` needs nothing but the directory."""
    given = {name: value for name in FILES if isinstance(value := getattr(config, name), str)}
    found = {name: str(Path(value).resolve()) for name, value in given.items() if local(name, value) or name == "path"}
    config = msgspec.structs.replace(config, **{**found, "out": None})
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
