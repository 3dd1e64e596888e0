"""Real data sets as they are published. Their directory is that of AGENTDESCENT_DATA."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from agentdescent_adapters.tasks.formats import load_tasks
from agentdescent_adapters.tasks.scorers import Scorer, exact, number, scorer

DATA = os.environ.get("AGENTDESCENT_DATA")
pytestmark = pytest.mark.skipif(
    DATA is None,
    reason="the project holds no data sets: AGENTDESCENT_DATA names a directory with banking77_train.csv, "
    "banking77_test.csv, clinc150.json, gsm8k_train.jsonl and gsm8k_test.jsonl",
)


@pytest.fixture(name="data")
def _data() -> Path:
    return Path(DATA or "")


@pytest.mark.parametrize(("part", "rows"), [("train", 10_003), ("test", 3_080)])
def test_banking77(data: Path, part: str, rows: int) -> None:
    tasks = load_tasks(data / f"banking77_{part}.csv", label="category")
    assert (len(tasks), len({task.cluster for task in tasks})) == (rows, 77)
    assert all(task.prompt.strip() and exact(task, f" {task.meta['label']}\n") == 1.0 for task in tasks)


def test_clinc150(data: Path) -> None:
    parts = ("train", "val", "test", "oos_train", "oos_val", "oos_test")
    counts = {part: Counter(t.cluster for t in load_tasks(data / "clinc150.json", split=part)) for part in parts}
    assert {part: len(count) for part, count in counts.items()} == dict(
        zip(parts, (150, 150, 150, 1, 1, 1), strict=True)
    )
    assert sum(count.total() for count in counts.values()) == 23_700
    assert set(counts["train"].values()) == {100}
    assert set(counts["oos_train"]) == {"oos"}


@pytest.mark.parametrize(("part", "rows"), [("train", 7_473), ("test", 1_319)])
def test_gsm8k(data: Path, part: str, rows: int) -> None:
    tasks = load_tasks(data / f"gsm8k_{part}.jsonl", text="question", label="answer")
    named = scorer("number")
    assert isinstance(named, Scorer)
    named.check(tasks)
    answers = [str(task.meta["label"]).rpartition("####")[2].strip() for task in tasks]
    assert len(tasks) == rows
    assert all(number(task, f"So it is ${answer}.") == 1.0 for task, answer in zip(tasks, answers, strict=True))
    assert all(number(task, f"{answer} or {answer}1") == 0.0 for task, answer in zip(tasks, answers, strict=True))
