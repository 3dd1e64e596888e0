"""From a config to a job: load the tasks, make the agent and the scorer, and check everything before it costs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import normalise, rule_key
from agentdescent.engine.spec import Spec
from agentdescent.errors import UsageError
from agentdescent.job import Job, Options, prepare
from agentdescent.merge.acceptance import Acceptance, Unpaired
from agentdescent.merge.audit import Audit
from agentdescent.ports import Task
from agentdescent.search.archive import Archive
from agentdescent.search.beam import Beam
from agentdescent.search.clade import CladeThompson
from agentdescent.search.pareto import ParetoFrontier
from agentdescent.search.puct import CostEfficient, FlatPuct
from agentdescent.search.sampling import DifficultyWeighted, RoundRobin, Sampling, Stakes
from agentdescent.search.selection import Selection
from agentdescent_adapters.command.agents import make_agent
from agentdescent_adapters.command.config import DEMO, HUBS, RunConfig, SelectionName
from agentdescent_adapters.command.economy import call_budget, economic_stop, make_allocator
from agentdescent_adapters.command.strategies import make_strategy
from agentdescent_adapters.demo import demo_tasks
from agentdescent_adapters.executors import executor_named
from agentdescent_adapters.tasks.files import keep_labels
from agentdescent_adapters.tasks.formats import load_tasks as read_tasks
from agentdescent_adapters.tasks.scorers import Scorer, scorer

DEFAULT_ROUNDS = 15
_DEFAULT = Spec()
"""Its records stand for themselves: an equal one made elsewhere would be written to the log."""
SAMPLING: dict[str, Sampling] = {
    "round-robin": RoundRobin(),
    "difficulty": DifficultyWeighted(),
    "stakes": Stakes(),
}
SELECTION: dict[SelectionName, Selection] = {
    "single-head": _DEFAULT.selection,
    "flat-puct": FlatPuct(),
    "cost-efficient": CostEfficient(),
    "beam": Beam(4),
    "archive": Archive(),
    "pareto": ParetoFrontier(),
    "clade": CladeThompson(),
}
ACCEPTANCE: dict[str, Acceptance] = {"paired": _DEFAULT.acceptance, "unpaired": Unpaired()}
AUDIT = {"doubtful": _DEFAULT.audit, "always": Audit(blast_radius=0.0)}


def load_tasks(config: RunConfig) -> list[Task]:
    """The tasks of a config. Raises UsageError that names the file, the place and the remedy."""
    if not config.tasks:
        raise UsageError("no tasks: give --tasks FILE.csv or FILE.jsonl (or `--tasks demo`)")
    _refuse_idle(config)
    if config.tasks == DEMO:
        tasks = demo_tasks()
    elif config.tasks.startswith(HUBS):
        tasks = _from_hub(config)
    else:
        tasks = read_tasks(config.tasks, text=config.text, label=config.label, id=config.id, split=config.split)
    return keep_labels(tasks, config.labels) if config.labels is not None else tasks


def _refuse_idle(config: RunConfig) -> None:
    """Raises UsageError for what says how tasks are read and means nothing to these."""
    if config.tasks.startswith(HUBS):
        return
    idle = ("subset", "limit") if config.tasks != DEMO else ("subset", "limit", "text", "label", "id", "split")
    for name in idle:
        if getattr(config, name) != getattr(RunConfig(), name):
            what = "the tasks of the demo" if config.tasks == DEMO else f"the file {config.tasks}"
            raise UsageError(f"{name} is given, and means nothing to {what}: leave it out")


def _from_hub(config: RunConfig) -> list[Task]:
    from agentdescent_adapters.tasks.hub import hf, modelscope

    hub, _, dataset = config.tasks.partition(":")
    return (hf if hub == "hf" else modelscope)(
        dataset,
        split=config.split or "train",
        config=config.subset,
        limit=config.limit,
        text=config.text,
        label=config.label,
        id=config.id,
    )


def start_artifact(config: RunConfig) -> Entries | str:
    if config.artifact is None:
        return ()
    try:
        text = Path(config.artifact).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"artifact {config.artifact}: cannot be read as UTF-8 text: {error}") from error
    if config.strategy == "single-slot":
        return text
    rules = [normalise(line.lstrip("-* ")) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return tuple((rule_key(rule), rule) for rule in dict.fromkeys(rules))


def rounds_of(config: RunConfig) -> int | None:
    """As asked; 15 when nothing else limits the run, since a budget is there to be used to its end."""
    others = (config.max_tokens, config.max_cost, config.max_calls, config.max_rollouts, config.max_seconds)
    limited = any(cap is not None for cap in others)
    return config.rounds if config.rounds is not None or limited else DEFAULT_ROUNDS


def make_job(config: RunConfig, *, asked: bool = True) -> tuple[Job, Options]:
    """A checked job and the options it was made from; `asked` as of make_agent. Raises UsageError: nothing is spent."""
    if config.path not in sys.path:  # modules of the user are looked for where the run was started
        sys.path.insert(0, config.path)
    tasks = load_tasks(config)
    options = Options(
        agent=make_agent(config, tasks, asked=asked),
        strategy=make_strategy(config),
        artifact=start_artifact(config),
        max_tokens=config.max_tokens,
        max_cost=config.max_cost,
        max_calls=config.max_calls,
        max_rollouts=config.max_rollouts,
        max_seconds=config.max_seconds,
        rounds=rounds_of(config),
        target_reward=config.target_reward,
        patience=config.patience,
        seed=config.seed,
        n_workers=config.workers,
        heldout_share=config.heldout_share,
        heldout_limit=config.heldout_limit,
        test_share=config.test_share,
        test_limit=config.test_limit,
        shuffle=config.shuffle,
        self_verify=config.self_verify,
        staleness=config.staleness,
        refresh_interval=config.refresh_interval,
        fusion=config.fusion,
        acceptance=ACCEPTANCE[config.acceptance],
        audit=AUDIT[config.audit],
        curtail=config.curtail,
        selection=SELECTION[config.selection],
        population=config.population,
        gate_order=config.gate_order,
        cheap_size=config.cheap_size,
        thrifty=config.thrifty,
        asynchronous=config.asynchronous,
        async_ratio=config.async_ratio,
        window=config.window,
        admission=config.admission,
        soft_floor=config.soft_floor,
        hard_floor=config.hard_floor,
        projection=config.projection,
        stop_on_diminishing_returns=economic_stop(config),
        call_budget=call_budget(config),
        solved_threshold=config.solved_threshold,
        open_gates=config.open_gates,
        attempts=config.attempts,
        max_concurrency=config.concurrency,
        deadline=config.deadline,
        executor=executor_named(config.executor, config.concurrency or config.workers, config.deadline),
    )
    options.update(_chosen(config))
    reward = scorer(config.scorer)
    if isinstance(reward, Scorer):
        reward.check(tasks)
    return prepare(tasks, reward, options), options


def _chosen(config: RunConfig) -> Options:
    """What is left out unless it is given: its default is another choice's to say, or nothing at all."""
    choices: dict[str, object] = {
        "allocator": make_allocator(config.allocator),
        "finish_epsilon": config.finish_epsilon,
        "fusion_width": config.fusion_width,
        "futility": config.futility,
        "merge_size": config.merge_size,
        "oracle": None if config.oracle is None else scorer(config.oracle, "oracle"),
        "oracle_budget": config.oracle_budget,
        "sampling": None if config.sampling is None else SAMPLING[config.sampling],
        "samples": config.samples,
        "screen": config.screen,
        "tournament": config.tournament,
        "wave_min": config.wave_min,
    }
    return cast("Options", {name: choice for name, choice in choices.items() if choice is not None})
