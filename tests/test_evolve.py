"""`evolve` as its users call it. Numbers in names are those of the field cases."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from typing import Any

import numpy as np
import pytest

from agentdescent import (
    Answer,
    CallFailed,
    Cancellation,
    EvolutionResult,
    MemoryLog,
    Rate,
    RunError,
    SingleSlot,
    State,
    Tariff,
    Task,
    Usage,
    UsageError,
    async_evolve,
    evolve,
    replay,
)
from agentdescent.engine.event import Outcome, Proposed, RolledOut
from agentdescent.history.rounds import RoundInfo

TOPICS = 5
TASKS = [Task(f"t{i}", f"message {i}", {"cluster": f"topic{i % TOPICS}"}) for i in range(40)]


class Meter:
    """Counts what it answers, as a provider would."""

    def __init__(self) -> None:
        self.calls = 0
        self.tokens = 0

    def bill(self, prompt: int, completion: int) -> Usage:
        self.calls += 1
        self.tokens += prompt + completion
        return Usage(prompt=prompt, completion=completion)


class Learner:
    """Solves a topic once it has been told of it; proposes the topic of the failed task, or something useless."""

    blocking = False
    repeat = "free"
    name = "learner"
    tariff = Tariff(Rate(strict=True, ceiling=10), Rate(strict=True, ceiling=20))

    def __init__(self, useless: int = 3) -> None:
        self.meter = Meter()
        self.useless = useless

    def solve(self, rendered: str, task: Task) -> Answer:
        output = "right" if task.cluster in rendered else "wrong"
        return Answer(output, self.meter.bill(len(rendered.encode()) // 2, 5))

    def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        reply = f"junk {sample}" if sample % self.useless == 0 else f"know {task.cluster}"
        return Answer(reply, self.meter.bill(len(rendered.encode()) // 2, 12))


def reward(task: Task, output: str) -> float:
    return 1.0 if output == "right" else 0.0


def learn(agent: object | None = None, **options: Any) -> EvolutionResult:
    chosen: dict[str, Any] = {"agent": agent or Learner(), "rounds": 8, **options}
    return evolve(TASKS, reward, **chosen)


def test_it_learns_and_says_what_it_cost() -> None:
    agent = Learner()
    result = learn(agent, test_share=0.2)
    assert (result.base, result.final) == (0.0, 1.0)
    assert (result.test_base, result.test_final) == (0.0, 1.0)
    assert result.test_interval is not None
    assert result.test_interval[0] > 0.5
    assert {f"- know topic{i}" for i in range(TOPICS)} <= set(result.rendered.splitlines())
    assert result.history[0] == RoundInfo(0, 0.0, rollouts=24, calls=24, tokens=result.history[0].tokens)
    assert [info.round for info in result.history] == list(range(result.rounds + 1))
    assert sum(info.tokens for info in result.history) == result.spend.total.tokens


def test_1_every_call_is_in_the_ledger() -> None:
    agent = Learner()
    result = learn(agent, test_share=0.2, refresh_interval=3, self_verify=True)
    purposes = result.spend.by_purpose
    assert {line.purpose for line in purposes} >= {"base", "rollout", "propose", "verify", "gate", "test"}
    assert sum(line.calls for line in purposes) == result.spend.total.calls == agent.meter.calls
    assert sum(line.tokens for line in purposes) == result.spend.total.tokens == agent.meter.tokens


@pytest.mark.parametrize("cap", [0, -5, float("nan"), "1000", True, 2.5])
def test_3_a_cap_that_is_none_is_refused_before_any_call(cap: Any) -> None:
    agent = Learner()
    with pytest.raises(UsageError, match="max_tokens"):
        learn(agent, max_tokens=cap)
    assert agent.meter.calls == 0


def test_3_a_cap_that_buys_nothing_states_the_estimate() -> None:
    agent = Learner()
    with pytest.raises(UsageError, match=r"max_tokens is 1, and scoring the start and one candidate may need \d{3,}"):
        learn(agent, max_tokens=1)
    with pytest.raises(UsageError, match="max_tokens is 1, and scoring the start"):
        evolve(TASKS, reward, run=agent.solve, propose=agent.propose, max_tokens=1)
    assert agent.meter.calls == 0


def test_4_a_cap_below_one_round_says_how_much_it_buys() -> None:
    result = learn(n_workers=16, max_tokens=1_800)
    assert any("may buy only 0." in warning for warning in result.warnings)
    assert result.rounds >= 1


def test_5_a_cap_that_never_binds_changes_no_decision() -> None:
    def decisions(result: EvolutionResult) -> list[str]:
        return [repr(event) for event in result.log.events() if type(event).__name__ != "Started"]

    free, capped = learn(rounds=6), learn(rounds=6, max_tokens=10**12)
    assert decisions(free) == decisions(capped)
    assert len(decisions(free)) > 100


def test_7_an_agent_that_reports_nothing_under_a_cap_is_told_how_to() -> None:
    def run(rendered: str, task: Task) -> str:
        return "wrong"

    def propose(rendered: str, task: Task, output: str, score: float) -> str:
        return "junk"

    with pytest.raises(RunError, match=r"return Answer\(value, Usage") as caught:
        evolve(TASKS, reward, run=run, propose=propose, max_tokens=10_000)
    assert isinstance(caught.value.result, EvolutionResult)
    assert caught.value.result.spend.total.calls == 3


def test_8_one_meter_for_agent_and_scorer_counts_each_call_once() -> None:
    agent = Learner()

    def judged(task: Task, output: str) -> Answer:
        return Answer(reward(task, output), agent.meter.bill(7, 1))

    result = evolve(TASKS, judged, run=agent.solve, propose=agent.propose, rounds=3)
    assert result.spend.total.tokens == agent.meter.tokens
    assert result.spend.total.calls == agent.meter.calls
    assert next(line.tokens for line in result.spend.by_purpose if line.purpose == "score") % 8 == 0


def test_9_a_second_run_with_the_same_agent_starts_at_nothing() -> None:
    agent = Learner()
    first, second = learn(agent), learn(agent)
    assert first.digest == second.digest
    assert first.spend == second.spend


def test_13_a_log_of_another_job_is_refused_with_what_differs() -> None:
    kept = learn(rounds=2).log

    def again(**options: Any) -> None:
        learn(rounds=3, log=MemoryLog(list(kept.events())), **options)

    with pytest.raises(UsageError, match=r"seed \(0 there, 1 here\)"):
        again(seed=1)
    with pytest.raises(UsageError, match="the start artifact"):
        again(artifact=(("k", "know everything"),))
    with pytest.raises(UsageError, match="the tasks"):
        evolve(TASKS[1:], reward, agent=Learner(), rounds=3, log=MemoryLog(list(kept.events())))
    other = Learner()
    other.name = "another model"
    with pytest.raises(UsageError, match="the agent"):
        again(agent=other)


def test_14_seeds() -> None:
    assert learn().digest == learn(seed=0).digest
    assert learn(seed=7).digest != learn(seed=11).digest
    assert learn(seed=7, max_concurrency=1).digest == learn(seed=7, max_concurrency=8).digest


def test_14_equal_choices_are_equal_digests() -> None:
    ten = 10  # floats that are equal to the defaults, and are other objects
    assert learn(heldout_share=4 / ten, hard_floor=9 / ten, solved_threshold=999 / 1000).digest == learn().digest


def test_15_global_randomness_is_untouched() -> None:
    random.seed(4)
    np.random.seed(4)
    learn()
    assert random.random() == random.Random(4).random()
    assert float(np.random.random()) == float(np.random.RandomState(4).random())


def test_16_a_failure_is_asked_again_and_charged() -> None:
    agent, failed = Learner(), set[str]()

    def run(rendered: str, task: Task) -> Answer:
        if task.id not in failed:
            failed.add(task.id)
            raise CallFailed("provider", "busy", agent.meter.bill(3, 0))
        return agent.solve(rendered, task)

    result = evolve(TASKS, reward, run=run, propose=agent.propose, rounds=4)
    assert result.base == 0.0
    assert result.final == 1.0
    assert result.spend.total.tokens == agent.meter.tokens
    assert len(failed) >= 16


BAD: list[Any] = [True, None, "0.5", float("nan"), float("inf"), 1.2, {"score": 1}, -0.1]


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_17_a_reward_that_is_no_number_names_the_task(value: Any) -> None:
    with pytest.raises(RunError, match=r"the reward of task 't\d+' is"):
        evolve(TASKS, lambda task, output: value, agent=Learner())


def test_17_rewards_within_the_tolerance_are_clamped() -> None:
    result = evolve(TASKS, lambda task, output: 1 + 5e-7 if output == "right" else -5e-7, agent=Learner())
    assert (result.base, result.final) == (0.0, 1.0)


def test_18_a_reward_of_nothing_is_a_score() -> None:
    result = evolve(TASKS, lambda task, output: 0.0, agent=Learner(), rounds=2)
    assert (result.base, result.final) == (0.0, 0.0)
    assert result.stop_reason == "rounds"


def test_20_when_every_proposal_fails_the_run_ends_with_the_cause() -> None:
    def propose(rendered: str, task: Task, output: str, score: float) -> str:
        raise ConnectionError("no route to the model")

    with pytest.raises(RunError, match="no route to the model") as caught:
        evolve(TASKS, reward, run=Learner().solve, propose=propose, rounds=50)
    assert isinstance(caught.value.result, EvolutionResult)
    assert caught.value.result.rounds <= 2


def test_21_a_backend_that_refuses_from_the_start_ends_quickly() -> None:
    calls = 0

    def run(rendered: str, task: Task) -> str:
        nonlocal calls
        calls += 1
        raise ConnectionRefusedError("port 11434")

    with pytest.raises(RunError, match="port 11434"):
        evolve(TASKS, reward, run=run, propose=Learner().propose, rounds=50)
    assert calls <= 16


def test_22_a_call_that_never_returns_is_a_timeout() -> None:
    agent = Learner()

    async def run(rendered: str, task: Task) -> Answer:
        if task.id == "t3" and "topic" in rendered:
            await asyncio.Event().wait()
        return agent.solve(rendered, task)

    result = evolve(TASKS, reward, run=run, propose=agent.propose, rounds=3, deadline=0.3, attempts=1)
    assert result.stop_reason == "rounds"
    assert result.state.governor.due.tokens == 0


def test_26_text_of_any_kind_goes_through_unchanged() -> None:
    odd = "北京 🚀 a\r\nb\x00c " + "é" * 500_000
    tasks = [Task(f"北{i}", odd, {"cluster": "京"}) for i in range(5)]
    seen: set[str] = set()

    def run(rendered: str, task: Task) -> str:
        seen.add(task.prompt)
        return rendered

    def propose(rendered: str, task: Task, output: str, score: float) -> str:
        assert output == rendered
        return "看 🚀\r\n\x00é"

    result = evolve(
        tasks,
        lambda task, output: float("看" in output),
        run=run,
        propose=propose,
        strategy=SingleSlot(),
        artifact="start",
        rounds=2,
    )
    assert result.rendered == "看 🚀\r\n\x00é"
    assert seen == {odd}


def test_40_what_on_round_is_given_cannot_be_changed() -> None:
    given: list[RoundInfo] = []
    result = learn(on_round=given.append)
    assert tuple(given) == result.history
    for name in RoundInfo.__struct_fields__:
        with pytest.raises(AttributeError, match="immutable"):
            setattr(given[0], name, 1)
    assert len(given) == result.rounds + 1


def test_41_memory_does_not_grow_with_the_rounds() -> None:
    text = "know " + "x" * 30_000

    def peak(rounds: int) -> int:
        tracemalloc.start()
        evolve(
            TASKS,
            lambda task, output: 0.5,
            agent=Learner(useless=1),
            artifact=(("k", text),),
            rounds=rounds,
            log=MemoryLog(keep=False),
        )
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(10)
    assert peak(120) < peak(40) + 600_000  # one artifact a round would be 2,400,000


def test_what_a_run_calls_is_checked_before_anything_is_spent() -> None:
    agent = Learner()
    with pytest.raises(UsageError, match=r"agent= .* or run= and propose="):
        evolve(TASKS, reward)
    with pytest.raises(UsageError, match=r"must accept \(rendered, task\)"):
        evolve(TASKS, reward, run=lambda rendered: "x", propose=agent.propose)
    with pytest.raises(UsageError, match=r"must accept \(task, output\)"):
        evolve(TASKS, lambda output: 1.0, agent=agent)
    with pytest.raises(UsageError, match="unknown option 'max_token'"):
        learn(max_token=5)
    with pytest.raises(UsageError, match="'t1' occurs 2 times"):
        evolve([*TASKS, TASKS[1]], reward, agent=agent)
    with pytest.raises(UsageError, match="at least 4"):
        evolve(TASKS[:3], reward, agent=agent)
    assert agent.meter.calls == 0


def test_an_interrupted_run_goes_on_with_the_same_log() -> None:
    whole = learn(rounds=6)
    log = MemoryLog()
    cut = learn(rounds=6, log=log, stop_when=lambda state: state.next_command >= 60)
    assert cut.stop_reason == "stop_when"
    assert cut.state.governor.due.tokens == 0
    rest = learn(rounds=6, log=log)
    assert rest.stop_reason == "rounds"
    assert rest.final == whole.final
    outcome = replay(log.events())
    assert (outcome.divergence, outcome.finished) == (None, True)
    assert set(rest.outcomes().values()) >= {"committed"}


def test_a_cancelled_run_settles() -> None:
    cancellation, started = Cancellation(), 0

    async def run(rendered: str, task: Task) -> str:
        nonlocal started
        started += 1
        if started == 30:
            cancellation.request()
        return "wrong"

    async def main() -> EvolutionResult:
        propose = Learner().propose
        return await async_evolve(TASKS, reward, run=run, propose=propose, cancellation=cancellation, n_workers=8)

    result = asyncio.run(main())
    assert result.stop_reason == "cancelled"
    assert result.state.governor.due.tokens == 0
    assert started < 50


def test_max_seconds_ends_a_run_between_calls() -> None:
    result = evolve(TASKS, lambda task, output: 0.5, agent=Learner(), rounds=10**6, max_seconds=0.05)
    assert result.stop_reason == "max_seconds"


def test_evolve_inside_a_running_loop() -> None:
    async def main() -> EvolutionResult:
        return learn(rounds=2)

    assert asyncio.run(main()).digest == learn(rounds=2).digest


def test_observers_see_every_event_once() -> None:
    seen: list[int] = []

    def observer(event: object, state: State) -> None:
        seen.append(state.seq)

    result = learn(rounds=2, observers=[observer])
    assert seen == list(range(1, result.state.seq + 1))


class FullDisk(MemoryLog):
    """Takes 30 answers, then no more."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 30

    def answered(self, outcome: Outcome, output: str, seconds: float, refused: int = 0) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(28, "no space left")
        super().answered(outcome, output, seconds, refused)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_44_an_answer_that_cannot_be_kept_stops_the_run_before_it_is_used(asynchronous: bool) -> None:
    agent, log = Learner(), FullDisk()

    async def run(rendered: str, task: Task) -> Answer:
        return agent.solve(rendered, task)

    solve = run if asynchronous else agent.solve
    with pytest.raises(OSError, match="no space left"):
        evolve(TASKS, reward, run=solve, propose=agent.propose, log=log, rounds=4)
    used = [event for event in log.events() if isinstance(event, RolledOut | Proposed)]
    assert 20 < len(used) <= 30


def test_what_each_candidate_cost_sums_to_what_was_spent() -> None:
    result = learn(test_share=0.2)
    spent = result.spend_by_candidate()
    assert sum(amount.tokens for amount in spent.values()) == result.spend.total.tokens
    assert set(spent) == {-1, *result.outcomes()}
    assert 0 < result.expected_junk < result.version
