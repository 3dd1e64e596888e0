"""A prompt that does not fit is not sent again: whatever slot asked for it is given up at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from agentdescent import CallFailed, EvolutionResult, Task, Usage, replay
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Decided, Failed, Stopped
from tests.test_faults import TASKS, Agent, events_of, run

TOO_LONG = "the prompt is too long"


class Narrow(Agent):
    """`fits(rendered, task)` says what it can be asked; `proposes`, whether it can be asked for a change."""

    def __init__(self, fits: Callable[[str, Task], bool], proposes: bool = True) -> None:
        super().__init__()
        self.fits, self.proposes = fits, proposes

    async def solve(self, rendered: str, task: Task) -> Any:
        if not self.fits(rendered, task):
            raise CallFailed("overflow", TOO_LONG, Usage(calls=0))
        return await super().solve(rendered, task)

    async def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Any:
        if not self.proposes and sample % 2:
            raise CallFailed("overflow", TOO_LONG, Usage(calls=0))
        return await super().propose(rendered, task, output, score, sample)


def other_than(long: str, rendered: str, task: Task) -> bool:
    return task.id != long


def purposes(result: EvolutionResult) -> Counter[str]:
    """Of the prompts that did not fit; each was asked once."""
    events = events_of(result)
    decided = {event.command.id: event for event in events if isinstance(event, Decided)}
    found = [decided[e.id] for e in events if isinstance(e, Failed) and e.kind == "overflow"]
    slots = [
        (_purpose(one), one.subject, one.worker, one.round, one.command.artifact, one.command.task) for one in found
    ]
    assert len(set(slots)) == len(slots)
    assert all(one.attempt == 0 for one in found)
    assert replay(events).divergence is None
    return Counter(_purpose(one) for one in found)


def _purpose(decided: Decided) -> str:
    return decided.command.purpose if isinstance(decided.command, Rollout) else "propose"


WAYS: dict[str, dict[str, Any]] = {
    "gate": {"self_verify": False},
    "verify": {},
    "tournament": {"tournament": True, "max_tokens": 10**7, "n_workers": 6},
}


@pytest.mark.parametrize("purpose", WAYS)
def test_an_artifact_that_became_too_long_fails_its_candidate_at_once(purpose: str) -> None:
    agent = Narrow(lambda rendered, task: rendered.count("\n- ") < 2 or int(task.id[1:]) % 3 > 0)
    if purpose == "verify":
        agent = Narrow(lambda rendered, task: rendered.count("\n- ") < 1 or int(task.id[1:]) % 3 > 0)
    result, _ = run(agent, **WAYS[purpose])
    assert purposes(result)[purpose] > 0
    assert result.spend.total.tokens == agent.billed


def test_a_task_that_is_too_long_is_asked_once_per_turn_and_named_where_the_run_cannot_do_without_it() -> None:
    split = run(Agent(), test_share=0.2)[0].state.split
    for part, purpose in ((split.heldout, "base"), (split.test, "test"), (split.train, "rollout")):
        long = TASKS[part[0]].id
        agent = Narrow(partial(other_than, long))
        result, _ = run(agent, test_share=0.2)
        assert set(purposes(result)) == {purpose}
        stopped = events_of(result)[-1]
        assert isinstance(stopped, Stopped)
        assert stopped.error == (f"the base cannot be scored: task {long}: {TOO_LONG}" if purpose == "base" else "")


def test_a_proposal_that_is_too_long_is_asked_once() -> None:
    result, _ = run(Narrow(lambda rendered, task: True, proposes=False))
    found = purposes(result)
    assert set(found) == {"propose"}
    assert found["propose"] == list(result.outcomes().values()).count("failed") > 0
