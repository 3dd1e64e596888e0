"""What a run was asked to do. Written to disk in `Started`; a diff in this file is the compatibility review."""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.allocation.policies import Always, Lineage, Never, Randomly
from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import AppendRules, Strategy
from agentdescent.budget.governor import Caps
from agentdescent.budget.tariff import Tariff
from agentdescent.merge.acceptance import Acceptance, Paired
from agentdescent.record import Record
from agentdescent.search.sampling import RoundRobin, Sampling

RULES = 1
"""The meaning of the decisions. A change of meaning increments it; logs replay under the rules they name."""

Staleness: TypeAlias = Literal["guarded", "full", "reflective"]
Fusion: TypeAlias = Literal["union", "none"]
FusionWidth: TypeAlias = int | Literal["all", "adaptive"]
GateOrder: TypeAlias = Literal["informative", "index"]
Admission: TypeAlias = Literal["ordered", "arrival"]
Allocator: TypeAlias = ValueBudgetAllocator | Always | Never | Randomly | Lineage
Schedule: TypeAlias = Literal["rounds", "continuous"]


class Spec(Record, frozen=True):
    """Every choice that changes what is decided. Shares are in [0, 1], `target` and thresholds are scores.

    `refresh_interval`: a worker keeps its copy of the head that many rounds. `wave_min`: a gate asks for at
    least so many outcomes at once. `attempts`: commands per slot. `screen`: a verified proposal that did not
    gain is not merged. Of the continuous schedule: `merge_size`, proposals that a merge waits for while turns are
    in progress; `async_ratio`, how many such merges the workers may be ahead; `window`, under ordered admission,
    effects decided ahead of the answers, in multiples of `n_workers`. `samples`: proposals that one rollout may lead
    to, one after another, while none is worth merging. `fusion_width`: proposals that a merge waits for and puts into
    one gate.
    """

    caps: Caps = Caps(rounds=15)
    seed: int = 0
    strategy: Strategy = AppendRules()
    n_workers: int = 4
    heldout_share: float = 0.4
    heldout_limit: int = 100
    test_share: float = 0.0
    test_limit: int = 200
    shuffle: bool = True
    self_verify: bool = True
    screen: bool = False
    acceptance: Acceptance = Paired()
    staleness: Staleness = "guarded"
    refresh_interval: int = 1
    fusion: Fusion = "union"
    gate_order: GateOrder = "informative"
    curtail: bool = True
    wave_min: int = 1
    open_gates: int = 1
    cheap_size: int = 8
    schedule: Schedule = "rounds"
    merge_size: int = 1
    async_ratio: int = 1
    window: int = 16
    admission: Admission = "ordered"
    attempts: int = 3
    solved_threshold: float = 0.999
    target: float | None = None
    patience: int | None = None
    hard_floor: float = 0.9
    allocator: Allocator | None = None
    sampling: Sampling = RoundRobin()
    samples: int = 1
    fusion_width: FusionWidth = "all"
    rules: int = RULES


class TaskInfo(Record, frozen=True):
    """What the core knows of a task: never its text. `size` in UTF-8 bytes of the prompt."""

    id: str
    size: int
    digest: str
    cluster: str = ""


class Setup(Record, frozen=True):
    """What the run was given: ordered tasks, the start artifact, what calls can cost, who answers.

    `agent` and `scorer` name the ports, so that a resume with others is refused.
    """

    tasks: tuple[TaskInfo, ...]
    artifact: Entries = ()
    tariff: Tariff = Tariff()
    agent: str = ""
    scorer: str = ""


class Split(Record, frozen=True):
    """Indices into `Setup.tasks`. No decision ever reads a test task. `cheap`: positions in `heldout`."""

    train: tuple[int, ...]
    heldout: tuple[int, ...]
    test: tuple[int, ...]
    cheap: tuple[int, ...]
