"""Several proposals of one rollout, through a stop and a resume: each reads the output that it is about."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from agentdescent import Answer, MemoryLog, State, Task, replay
from agentdescent_adapters.disk import DiskLog
from agentdescent_adapters.disk.texts import Texts
from tests.test_evolve import Learner, learn

OPTIONS: dict[str, Any] = {"rounds": 2, "samples": 3, "n_workers": 2}


class Reader(Learner):
    """What it proposes is known already, or useless; it puts down what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        self.shown.append(output)
        return Answer("junk 0" if sample % 3 else f"know {task.cluster}", self.meter.bill(9, 12))


Kind = Literal["memory", "keep", "digest"]


def place(path: Path, kind: Kind) -> Callable[[], MemoryLog | DiskLog]:
    """Where a run can be gone on with."""
    if kind == "memory":
        memory = MemoryLog()
        return lambda: memory
    texts: Texts = kind
    return lambda: DiskLog.open(path) if path.exists() else DiskLog.create(path, texts=texts)


def is_at(number: int, state: State) -> bool:
    return state.seq >= number


@pytest.mark.parametrize("kind", ["memory", "keep", "digest"])
def test_a_resumed_run_shows_each_proposal_the_output_of_its_rollout(tmp_path: Path, kind: Kind) -> None:
    whole = learn(Reader(), screen=True, **OPTIONS)
    length = whole.state.seq
    assert sum(outcome in ("duplicate", "not-worth-gating") for outcome in whole.outcomes().values()) > 3
    for at in range(40, length, 7 if kind == "memory" else 29):
        opened = place(tmp_path / str(at), kind)
        log = opened()
        learn(Reader(), screen=True, log=log, stop_when=partial(is_at, at), **OPTIONS)
        log.close()
        agent, log = Reader(), opened()
        rest = learn(agent, screen=True, log=log, **OPTIONS)
        assert set(agent.shown) <= {"wrong"}, at
        assert rest.stop_reason == "rounds"
        assert replay(log.events()).divergence is None
        log.close()
