"""Unpaired acceptance in whole runs: the prior that completed gates leave, frozen when a gate opens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Caps, apply, initial, replay
from agentdescent.artifact.diff import Ops
from agentdescent.engine.event import Committed, Event, GateOpened, Judged
from agentdescent.engine.state import State
from agentdescent.merge.acceptance import MILLION, Acceptance, Paired, Unpaired
from agentdescent.merge.unpaired import Counts, Prior, learn, probability
from agentdescent.merge.verdict import GateEvidence
from agentdescent.record import replace
from tests.engine.test_merge_life import Script, a
from tests.strategies import Job, any_job
from tests.world import World, calls, jobs, play

RULES: tuple[Acceptance, ...] = (Paired(), Unpaired())


def gates(log: list[Event]) -> list[tuple[GateOpened, Judged]]:
    """Every gate with its verdict."""
    opened: dict[int, GateOpened] = {}
    both = []
    for event in log:
        if isinstance(event, GateOpened):
            opened[event.subject] = event
        elif isinstance(event, Judged) and event.subject in opened:
            both.append((opened.pop(event.subject), event))
    return both


def taught(state: State) -> tuple[Prior, float]:
    return state.prior, state.trust


@given(any_job(failing=False), st.integers(1, 9), st.sampled_from(RULES))
def test_what_is_learned_does_not_depend_on_curtailment(job: Job, wave_min: int, rule: Acceptance) -> None:
    """Nor does any verdict, or what the oracle is asked, on rounds with one gate at a time and no cap that binds."""
    spec, setup, world = job
    spec = replace(spec, caps=Caps(rounds=3), open_gates=1, admission="ordered", schedule="rounds", acceptance=rule)
    early, first = play(replace(spec, curtail=True, wave_min=1), setup, world)
    wide, second = play(replace(spec, curtail=True, wave_min=wave_min), setup, world)
    full, third = play(replace(spec, curtail=False), setup, world)
    assert taught(early) == taught(wide) == taught(full)
    priors = [[event.prior for event in log if isinstance(event, GateOpened)] for log in (first, second, third)]
    assert priors[0] == priors[1] == priors[2]
    asked = [[(one.subject, one.command.task) for one in calls(log, "audit")] for log in (first, second, third)]
    assert asked[0] == asked[1] == asked[2]


@given(any_job(failing=False), st.integers(0, 99))
def test_a_prior_is_what_gates_before_it_taught(job: Job, seed: int) -> None:
    """From the log alone: commits always, rejections at most when they are complete, and nothing else."""
    spec, setup, world = job
    spec = replace(spec, caps=Caps(rounds=4), open_gates=1, acceptance=Unpaired(), self_verify=False)
    state, log = play(spec, setup, replace(world, menu=("good", "good", "bad", "pair"), seed=seed))
    low = high = Prior()
    for opened, event in gates(log):
        found = event.evidence
        assert opened.prior is not None
        assert low.up <= opened.prior.up <= high.up
        assert low.down <= opened.prior.down <= high.down
        if not isinstance(found, GateEvidence):
            continue
        won = event.outcome == "committed"
        if won:
            low = learn(low, found.gain, found.loss, found.total, committed=True)
        if found.answered == found.total:
            high = learn(high, found.gain, found.loss, found.total, committed=won)
        if found.answered == found.total and won:
            assert found.p == round(MILLION * _p(opened, opened.prior, log, found))
    assert low.up <= state.prior.up <= high.up
    assert low.down <= state.prior.down <= high.down


def _p(opened: GateOpened, prior: Prior, log: list[Event], found: GateEvidence) -> float:
    """Of a commit: the base is what it was before, which the commit's own total gives away."""
    total = next(event.total for event in log if isinstance(event, Committed) and event.subject == opened.subject)
    base = Counts(total - found.gain + found.loss, found.total)
    return probability(prior, base, found.gain, found.loss, opened.weight_gain, opened.weight_loss)


class Flatterer(World, frozen=True):
    """Every change helps on the task that prompted it, and does nothing to the held-out tasks."""

    heldout: tuple[int, ...] = ()

    def score(self, task: int, rendered: str) -> int:
        if task in self.heldout:
            return (task % 2) * MILLION
        return MILLION // 4 * min(3, rendered.count("meh"))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("curtail", [True, False])
def test_a_change_that_alters_no_outcome_never_commits(rule: Acceptance, curtail: bool) -> None:
    """Although self-verify likes it."""
    spec, setup = jobs(10, workers=2)
    spec = replace(spec, acceptance=rule, curtail=curtail, caps=Caps(rounds=4), shuffle=False, heldout_share=0.5)
    world = Flatterer(menu=("meh",), heldout=tuple(range(5)))
    _, log = play(spec, setup, world)
    opened = [event for event in log if isinstance(event, GateOpened)]
    assert opened
    assert all(event.weight_gain > 0 for event in opened)
    assert not any(isinstance(event, Committed) for event in log)
    assert {event.outcome for event in log if isinstance(event, Judged)} <= {"below-threshold", "duplicate"}


def tell(rule: Acceptance, *proposals: Ops, curtail: bool = True) -> tuple[State, list[Event]]:
    """Tasks 0 to 3 decide, of which none is solved at the start; one worker, one proposal a round."""
    spec, setup = jobs(8, workers=1)
    spec = replace(spec, shuffle=False, heldout_share=0.5, self_verify=False, acceptance=rule, curtail=curtail)
    spec = replace(spec, caps=Caps(rounds=len(proposals)))
    return play(spec, setup, Script(proposals=proposals, solved_first=(3,)))


def test_by_hand() -> None:
    """Two tasks gained until the last is lost: complete, and a mean difference of a quarter. Then nothing, which is
    certain after the failing tasks and teaches nothing. Then a commit."""
    state, log = tell(Unpaired(start=0.2), a("up0 up1 down3"), a("nothing", "b"), a("up0 up1", "c"), curtail=False)
    verdicts = [(opened.prior, event.outcome) for opened, event in gates(log)]
    assert verdicts == [
        (Prior(), "below-threshold"),
        (Prior(MILLION), "below-threshold"),
        (Prior(MILLION), "committed"),
    ]
    assert state.prior == Prior(3 * MILLION)
    evidence = gates(log)[0][1].evidence
    assert isinstance(evidence, GateEvidence)
    assert evidence.p == round(MILLION * probability(Prior(), Counts(MILLION, 4), 2 * MILLION, MILLION))
    assert replay(log).divergence is None


def test_a_paired_run_keeps_no_prior_and_a_log_says_which_rule_it_was() -> None:
    state, log = tell(Paired(), a("up0"))
    assert state.prior == Prior()
    assert [event.prior for event in log if isinstance(event, GateOpened)] == [None]
    _, other = tell(Unpaired(), a("up0"))
    number = next(n for n, event in enumerate(other) if isinstance(event, GateOpened))
    opened = other[number]
    assert isinstance(opened, GateOpened)
    for changed in (None, Prior(1), Prior(0, 1)):
        found = replay([*other[:number], replace(opened, prior=changed), *other[number + 1 :]])
        assert found.divergence is not None
        assert found.divergence.number == number


def test_two_gates_on_one_head_keep_the_priors_they_were_opened_with() -> None:
    """The second opens before the first is judged, so what the first teaches is not held against it."""
    spec, setup = jobs(8, workers=2)
    spec = replace(spec, shuffle=False, heldout_share=0.5, self_verify=False, acceptance=Unpaired())
    spec = replace(spec, caps=Caps(rounds=1), fusion="none", open_gates=2, curtail=False)
    state, log = play(spec, setup, Script(proposals=(a("up0 down3"), a("down3", "b")), solved_first=(3,)))
    assert [opened.prior for opened, _ in gates(log)] == [Prior(), Prior()]
    assert [event.outcome for _, event in gates(log)] == ["below-threshold", "regression"]
    folded = initial(spec, setup)
    for event in log:
        folded = apply(folded, event)
    assert folded == state
