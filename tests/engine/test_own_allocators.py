"""Allocators of one's own in arbitrary runs: decided again from the log, resumed anywhere, told everything once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentdescent.allocation import Features, Stage
from agentdescent.allocation.features import STAGES
from agentdescent.allocation.own import Own
from agentdescent.engine.event import Event
from agentdescent.history.allocations import summarise
from agentdescent.history.replay import replay
from agentdescent.own import Elder
from agentdescent.record import replace
from tests.own_allocators import Older
from tests.strategies import Job, any_job, trouble
from tests.world import any_order, chance, lines, play

SEEDS = st.integers(0, 9_999)
POLICY, OLDER = Own("nowhere", "policy", STAGES, 2.0), Own("nowhere", "older", STAGES, 2.0)


class Hashed:
    """Any function of what it is asked."""

    def probability(self, stage: Stage, features: Features) -> float:
        return chance("own", stage, features)


@given(any_job(), SEEDS)
def test_a_policy_is_decided_again_whether_it_is_found_or_not(job: Job, seed: int) -> None:
    spec, setup, world = job
    spec = replace(spec, allocator=POLICY, self_verify=True)
    _, log = play(spec, setup, world, order=any_order(seed), meddle=trouble(seed), policy=Hashed())
    lost, found = replay(log), replay(log, find=lambda own: Hashed())
    assert (lost.divergence, lost.finished, lost.unasked) == (None, True, "nowhere")
    assert (found.divergence, found.finished, found.unasked) == (None, True, "")


def older(job: Job, seed: int, log: list[Event] | None = None) -> tuple[Elder, Older, list[Event]]:
    spec, setup, world = job
    mine = Older()
    elder = Elder(mine, OLDER)
    spec = replace(spec, allocator=OLDER, self_verify=True)
    order, meddle = any_order(seed), trouble(seed)
    _, events = play(spec, setup, world, order=order, meddle=meddle, log=log or (), policy=elder)
    return elder, mine, events


@given(any_job(), SEEDS, st.floats(0.0, 1.0))
def test_an_older_object_is_told_everything_once_also_after_a_crash(job: Job, seed: int, share: float) -> None:
    elder, mine, log = older(job, seed)
    found = replay(log)
    assert (found.divergence, found.finished, found.unasked) == (None, True, "nowhere")
    summary = summarise(log)
    assert summary is not None
    assert elder.counts.n_observed == len(mine.told) == summary.n_observed
    assert elder.counts.n_committed == sum(committed for _, committed in mine.told) == summary.n_committed
    _, again, resumed = older(job, seed, log[: int(share * len(log))])
    assert lines(resumed) == lines(log)
    assert again.told == mine.told
