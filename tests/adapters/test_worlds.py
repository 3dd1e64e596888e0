"""The worlds say what they do, and do it whoever asks and in whatever order."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent.artifact.strategy import AppendRules, render
from agentdescent.ports import CallFailed, Task
from agentdescent_adapters.worlds.calls import MILLION, WorldAgent, stated
from agentdescent_adapters.worlds.clairvoyant import clairvoyant
from agentdescent_adapters.worlds.clusters import CLUSTERS, ClusterAgent, Clusters, cluster_tasks, right
from agentdescent_adapters.worlds.suite import NAMES, setting

RULE = st.tuples(st.sampled_from(["mend", "gem", "stir"]), st.integers(0, 9), st.integers(1, 99))


def rules(*made: tuple[str, int, int]) -> str:
    lines = (f"{kind} {cluster} for train-{number} ({number})" for kind, cluster, number in made)
    return render(AppendRules(), tuple((str(i), line) for i, line in enumerate(lines)))


def clusters(seed: int = 0, noise: float = 0.0, failing: float = 0.0, hanging: float = 0.0) -> ClusterAgent:
    world = Clusters(seed, noise=noise, failing=failing, hanging=hanging)
    return ClusterAgent(world, cluster_tasks(seed, train=0))


# --- all worlds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_world_is_a_function_of_its_seed(name: str) -> None:
    def seen(seed: int, order: int) -> list[object]:
        world = setting(name, seed)
        rendered = render(world.strategy, world.start)
        train = world.tasks[len(world.agent.heldout) :][:30]
        asked = [(task, sample) for task in train for sample in (1, 2)][::order]
        found: list[object] = []
        for task, sample in asked:
            said = world.agent.output(rendered, task)
            reply = world.agent.reply(rendered, task, sample)
            found.append((task, sample, said, reply, world.agent.solve_tokens(rendered, task)))
        return [world.agent.true_scores(rendered), *found[::order]]

    assert seen(3, 1) == seen(3, -1)
    assert seen(3, 1) != seen(4, 1)


@pytest.mark.parametrize("name", NAMES)
def test_what_an_agent_says_is_what_it_scores(name: str) -> None:
    world = setting(name, 5)
    if name == "noisy":
        return
    rendered = render(world.strategy, world.start)
    scored = [round(MILLION * world.scorer(task, world.agent.output(rendered, task))) for task in world.agent.heldout]
    assert tuple(scored) == world.agent.true_scores(rendered)


@pytest.mark.parametrize("name", NAMES)
def test_a_clairvoyant_gates_only_what_gains(name: str) -> None:
    cap = 400_000
    known = clairvoyant(setting(name, 1), 1, cap)
    qualities = [quality for _, quality in known.path]
    spent = [tokens for tokens, _ in known.path]
    assert qualities == sorted(set(qualities))
    assert spent == sorted(set(spent))
    assert known.proposals > 0
    assert cap <= known.tokens < cap + 500_000 or qualities[-1] == 1.0
    assert known == clairvoyant(setting(name, 1), 1, cap)
    assert (len(known.path) == 1) == (name == "barren")
    stopped = clairvoyant(setting(name, 1), 1, cap, qualities[1]) if name != "barren" else known
    assert stopped.path == known.path[:2]


def test_a_clairvoyant_pays_for_the_start_and_for_every_turn() -> None:
    world = setting("barren", 0)
    agent, rendered = world.agent, render(world.strategy, world.start)
    start = sum(agent.solve_tokens(rendered, task) for task in agent.heldout)
    known = clairvoyant(world, 0, start + 1)
    assert known.path[0][0] == start
    assert known.proposals == 1
    costs = {
        agent.solve_tokens(rendered, task) + agent.propose_tokens(rendered, task, 1)
        for task in world.tasks[len(agent.heldout) :]
    }
    assert known.tokens - start in costs


# --- calls ------------------------------------------------------------------------------------------------------------


def test_what_calls_cost() -> None:
    agent, heavy = clusters(), ClusterAgent(Clusters(heavy=True), cluster_tasks(0))
    used = [agent.tokens("solve", key) for key in range(4_000)]
    assert statistics.median(used) == pytest.approx(1_800, rel=0.03)
    assert statistics.fmean(used) == pytest.approx(1_800 * math.exp(0.08), rel=0.03)
    assert statistics.fmean(agent.tokens("propose", key) for key in range(4_000)) == pytest.approx(2_730, rel=0.03)
    tail = [heavy.tokens("solve", key) for key in range(4_000)]
    assert min(tail) >= 700
    assert max(tail) == 10_000
    assert 0.01 < sum(tokens == 10_000 for tokens in tail) / 4_000 < 0.03


def test_calls_fail_and_hang_at_their_rates_and_are_counted() -> None:
    agent = clusters(failing=0.1, hanging=0.02)
    fates: Counter[str] = Counter()
    for task in agent.heldout * 50:
        try:
            agent.answer("# Playbook", task)
            fates["answered"] += 1
        except CallFailed as failed:
            fates["failed" if failed.usage is not None else "free"] += 1
        except TimeoutError:
            fates["hung"] += 1
    assert agent.calls == fates.total() == 2_000
    assert 150 < fates["failed"] < 250
    assert 20 < fates["hung"] < 65


def test_what_hangs_never_comes() -> None:
    agent = clusters(hanging=1.0)

    async def main() -> None:
        async with asyncio.timeout(0.01):
            await agent.propose("# Playbook", Task("train-1", ""), "", 0.0, 1)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


# --- clusters ---------------------------------------------------------------------------------------------------------


def test_tasks_follow_the_law_of_the_world() -> None:
    total = sum(1 / k for k in range(1, CLUSTERS + 1))
    train = Counter(task.cluster for task in cluster_tasks(7) if task.id.startswith("train-"))
    assert all(abs(train[str(k)] - 2_000 / (k + 1) / total) <= 5 for k in range(CLUSTERS))
    heldout = Counter(task.cluster for seed in range(100) for task in cluster_tasks(seed, train=0))
    assert all(abs(heldout[str(k)] - 4_000 / (k + 1) / total) <= 4 * math.sqrt(4_000) / 2 for k in range(CLUSTERS))


def test_a_train_task_fails_until_a_rule_made_for_it_is_tried() -> None:
    tried: dict[str, list[bool]] = {"mend": [], "stir": [], "gem": []}
    tasks = cluster_tasks(0)
    agent, other = ClusterAgent(Clusters(jewels=0.2), tasks), tasks[1_600]
    for task in tasks[40:1_540]:
        assert agent.output("# Playbook", task) == "wrong"
        reply = agent.reply("# Playbook", task, 1)
        assert reply is not None
        kind, cluster, *_ = reply.split()
        assert cluster == task.cluster
        rendered = f"# Playbook\n- {reply}"
        tried[kind].append(right(task, agent.output(rendered, task)) == 1.0)
        assert agent.output(rendered, other) == "wrong"
    for kind, passes in (("mend", 0.8), ("gem", 0.8), ("stir", 0.1)):
        assert statistics.fmean(tried[kind]) == pytest.approx(passes, abs=0.07)
    assert len(tried["gem"]) == pytest.approx(300, abs=60)
    assert len(tried["mend"]) == pytest.approx(0.8 * 450, abs=70)


@settings(deadline=None)
@given(st.lists(RULE, min_size=1, max_size=12), st.integers(0, 5))
def test_rules_are_executed_in_order(made: list[tuple[str, int, int]], seed: int) -> None:
    agent = clusters(seed)
    step, before = "", agent.truth(rules())
    for count in range(1, len(made) + 1):
        step, (kind, cluster, _) = rules(*made[:count]), made[count - 1]
        after = agent.truth(step)
        for task, had, has in zip(agent.heldout, before, after, strict=True):
            if has and not had:
                assert kind == "gem" or (kind == "mend" and task.cluster == str(cluster))
        before = after
    assert clusters(seed).truth(step) == before


def test_what_rules_do_on_average() -> None:
    mended = kept = lost = unsolved = 0
    for seed in range(200):
        agent = clusters(seed)
        start, gem, stir = (agent.truth(rules(*made)) for made in ((), (("gem", 0, 1),), (("stir", 0, 2),)))
        for had, with_gem, with_stir in zip(start, gem, stir, strict=True):
            unsolved += not had
            mended += with_gem and not had
            kept += had
            lost += had and not with_stir
    assert mended / unsolved == pytest.approx(0.8, abs=0.03)
    assert lost / kept == pytest.approx(0.05, abs=0.02)
    assert kept / (kept + unsolved) == pytest.approx(0.3, abs=0.03)


def test_drift_turns_and_noise_flips() -> None:
    drift = ClusterAgent(Clusters(turning=60), cluster_tasks(0))
    useful: dict[tuple[bool, bool], list[bool]] = {}
    for task in cluster_tasks(0)[40:1_040]:
        for sample in (10, 70):
            reply = drift.reply("# Playbook", task, sample) or ""
            small = reply.count("\n") < 2
            useful.setdefault((small, sample < 60), []).append("mend" in reply)
    for (small, early), found in useful.items():
        assert statistics.fmean(found) == pytest.approx(0.5 if small == early else 0.1, abs=0.08)
    noisy = clusters(noise=0.1)
    flipped = [
        (noisy.output(rules(("stir", 0, n)), task) == "right") != noisy.truth(rules(("stir", 0, n)))[position]
        for n in range(50)
        for position, task in enumerate(noisy.heldout)
    ]
    assert statistics.fmean(flipped) == pytest.approx(0.1, abs=0.02)


# --- the base ---------------------------------------------------------------------------------------------------------


def test_a_score_is_stated_in_millionths() -> None:
    assert stated(Task("t", ""), "250000") == 0.25
    with pytest.raises(ValueError, match="invalid literal"):
        stated(Task("t", ""), "right")


def test_a_world_has_to_say_what_it_is() -> None:
    make: Any = WorldAgent
    with pytest.raises(TypeError, match=r"abstract .*output.*reply.*true_scores"):
        make("bare", 0, [Task("t", "")])
