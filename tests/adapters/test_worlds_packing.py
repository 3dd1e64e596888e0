"""The worlds whose artifact is not a list of rules: k-module and circles."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent.artifact.diff import change, contradict, union
from agentdescent.artifact.strategy import parse, render
from agentdescent_adapters.worlds import circles, slots
from agentdescent_adapters.worlds.circles import CircleAgent, circle_tasks, radii
from agentdescent_adapters.worlds.slots import SlotAgent, slot_tasks
from agentdescent_adapters.worlds.suite import setting

# --- k-module ---------------------------------------------------------------------------------------------------------


def modules(values: tuple[int, ...]) -> str:
    return render(slots.STRATEGY, tuple((f"slot-{slot}", str(value)) for slot, value in enumerate(values)))


@given(st.tuples(*[st.integers(0, 4)] * 6), st.integers(0, 9))
def test_the_held_out_mean_is_the_share_of_correct_slots(values: tuple[int, ...], seed: int) -> None:
    agent = SlotAgent(seed, slot_tasks())
    alone = [agent.quality(modules(tuple(v if s == slot else -1 for s, v in enumerate(values)))) for slot in range(6)]
    assert agent.quality(modules(values)) == pytest.approx(sum(alone))
    assert {round(6 * share) for share in alone} <= {0, 1}


def test_proposals_change_one_to_three_slots_and_unions_cross_over() -> None:
    world = setting("k-module", 2)
    agent, rendered = world.agent, render(slots.STRATEGY, world.start)
    sizes: Counter[int] = Counter()
    diffs = []
    for task in world.tasks[12:200]:
        ops = parse(slots.STRATEGY, world.start, agent.reply(rendered, task, 1))
        sizes[len(ops)] += 1
        assert {op.key for op in ops} & {f"slot-{slot}" for slot in slots.pair_of(task)}
        diffs.append(ops)
    assert set(sizes) == {1, 2, 3}
    assert min(sizes.values()) > 30
    a, b = next((a, b) for a in diffs for b in diffs if {op.key for op in a}.isdisjoint({op.key for op in b}))
    assert not contradict(a, b)
    assert change(world.start, union((a, b))) == change(change(world.start, a), b)


# --- circles ----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 0.99)), min_size=2, max_size=26))
def test_circles_do_not_overlap_and_none_can_grow(centres: list[tuple[float, float]]) -> None:
    found = radii(centres)
    for i, (x, y) in enumerate(centres):
        room = [min(x, y, 1 - x, 1 - y)]
        room += [math.dist((x, y), other) - found[j] for j, other in enumerate(centres) if j != i]
        assert found[i] == pytest.approx(min(room), abs=1e-9)
        assert found[i] >= -1e-9


def test_a_proposal_is_one_of_five_mutations() -> None:
    world = setting("circles", 1)
    agent, rendered = world.agent, render(circles.STRATEGY, world.start)
    assert isinstance(agent, CircleAgent)
    before = agent.true_scores(rendered)
    moved, changed = Counter[int](), 0
    for task in circle_tasks()[26:]:
        ops = parse(circles.STRATEGY, world.start, agent.reply(rendered, task, 1))
        names = [op.key for op in ops if op.key in circles.NAMES]
        moved[len(names)] += 1
        after = agent.true_scores(render(circles.STRATEGY, change(world.start, ops)))
        changed += after != before
        assert names or after == before
        assert not names or task.cluster in names
    assert set(moved) == {0, 1, 3, 6}
    assert min(moved[1], moved[3]) > max(moved[0], moved[6]) > 0
    assert changed > 200


def test_the_quality_of_circles_is_the_sum_of_radii_over_the_best_known() -> None:
    agent = CircleAgent(0, circle_tasks())
    start = circles.circle_start(0)
    centres = [tuple(map(float, text.split())) for _, text in start]
    expected = sum(radii([(x, y) for x, y in centres])) / 2.635
    assert agent.quality(render(circles.STRATEGY, start)) == pytest.approx(expected, abs=1e-5)
