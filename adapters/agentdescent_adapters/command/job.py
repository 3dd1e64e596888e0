"""From a config to a job: load the tasks, make the agent and the scorer, and check everything before it costs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import AppendRules, SingleSlot, Strategy, normalise, rule_key
from agentdescent.errors import UsageError
from agentdescent.evolution import Job, Options, prepare
from agentdescent.ports import Task
from agentdescent_adapters.command.config import DEMO, RunConfig
from agentdescent_adapters.demo import demo_tasks
from agentdescent_adapters.rules import RuleAgent
from agentdescent_adapters.tasks.files import keep_labels, load_csv, load_jsonl
from agentdescent_adapters.tasks.scorers import scorer


def load_tasks(config: RunConfig) -> list[Task]:
    """The tasks of a config. Raises UsageError that names the file, the place and the remedy."""
    if not config.tasks:
        raise UsageError("no tasks: give --tasks FILE.csv or FILE.jsonl (or `--tasks demo`)")
    if config.tasks == DEMO:
        tasks = demo_tasks()
    elif config.tasks.endswith(".csv"):
        tasks = load_csv(config.tasks, text=config.text, label=config.label, id=config.id)
    elif config.tasks.endswith((".jsonl", ".ndjson")):
        tasks = load_jsonl(config.tasks, text=config.text, label=config.label, id=config.id)
    else:
        raise UsageError(f"{config.tasks}: of unknown format: give a .csv or .jsonl file")
    return keep_labels(tasks, config.labels) if config.labels is not None else tasks


def make_agent(config: RunConfig, tasks: list[Task]) -> object:
    if config.agent == "rules":
        return RuleAgent(sorted({str(task.meta["label"]) for task in tasks}), seed=config.seed)
    module, colon, attribute = config.agent.partition(":")
    if not colon:
        raise UsageError(f"agent {config.agent!r}: it is `rules` or module:object")
    try:
        agent: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"agent {config.agent!r}: {error}: it must be importable from here") from error
    return agent() if isinstance(agent, type) else agent


def make_strategy(config: RunConfig) -> Strategy:
    return SingleSlot() if config.strategy == "single-slot" else AppendRules()


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


def make_job(config: RunConfig) -> tuple[Job, Options]:
    """A checked job and the options it was made from. Raises UsageError before anything is spent."""
    if "" not in sys.path:  # modules of the user are looked for where the command is called
        sys.path.insert(0, "")
    tasks = load_tasks(config)
    options = Options(
        agent=make_agent(config, tasks),
        strategy=make_strategy(config),
        artifact=start_artifact(config),
        max_tokens=config.max_tokens,
        max_cost=config.max_cost,
        max_calls=config.max_calls,
        max_rollouts=config.max_rollouts,
        max_seconds=config.max_seconds,
        rounds=config.rounds,
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
        screen=config.screen,
        staleness=config.staleness,
        refresh_interval=config.refresh_interval,
        fusion=config.fusion,
        curtail=config.curtail,
        wave_min=config.wave_min,
        open_gates=config.open_gates,
        attempts=config.attempts,
        max_concurrency=config.concurrency,
        deadline=config.deadline,
    )
    return prepare(tasks, scorer(config.scorer), options), options
