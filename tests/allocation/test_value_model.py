"""The vectors that stages decide on, and the model that learns from them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.allocation.features import STAGES, AllocatorContext, Stage, columns, vector
from agentdescent.allocation.value_model import LearningValueModel, ValueModel, Weights, has_signal, observe, predict

MODEL = ValueModel()
VECTORS = st.tuples(*[st.floats(-3.0, 3.0)] * 3)
LABELS = st.lists(st.tuples(VECTORS, st.booleans(), st.floats(0.001, 1.0)), max_size=60)


def test_every_stage_has_its_own_vector() -> None:
    full = AllocatorContext(1.5, 9, 0.4, 99, -0.25, 3, 8, 0.75, 0.9, 0.125, p_improve=0.3, stable_distance=7.0)
    verify = (1.5, math.log1p(9) / math.log1p(100), 0.4)
    gate = (*verify, -0.25, 1.0, 0.4, 0.75)
    assert [vector(stage, full) for stage in STAGES] == [
        verify,
        (*verify, math.log1p(99) / math.log1p(100)),
        gate,
        (*gate, 0.9, 0.125),
    ]
    assert full.features() == verify
    assert full.features("gate") == gate
    nothing = (0.0, math.log1p(1) / math.log1p(100), 0.2)
    assert vector("finish", AllocatorContext()) == (*nothing, 0.0, 0.0, 0.5, 0.5, 0.5, 0.0)
    assert vector("verify", AllocatorContext(size=100))[1] == 1.0


@pytest.mark.parametrize("stage", STAGES)
def test_columns_are_named(stage: Stage) -> None:
    assert len(columns(stage)) == len(set(columns(stage))) == len(vector(stage, AllocatorContext()))
    assert columns(stage)[:3] == ("advantage", "size", "blast_radius")


def test_two_steps_by_hand() -> None:
    x = (1.0, 0.5, 0.25)
    first = observe(MODEL, Weights(), x, True, 1.0)
    assert first == Weights((0.1, 0.05, 0.025), 0.1, 1)
    p = 1.0 / (1.0 + math.exp(-(0.1 + 0.1 * 1.0 + 0.05 * 0.5 + 0.025 * 0.25)))
    assert predict(MODEL, first, x) == pytest.approx(p, abs=1e-15)
    second = observe(MODEL, first, x, False, 0.25)
    assert second.observed == 2
    assert second.bias == pytest.approx(0.1 + 0.2 * (4.0 * (0.0 - p) - 0.05 * 0.1), abs=1e-15)
    expected = tuple(w + 0.2 * (4.0 * (0.0 - p) * v - 0.05 * w) for w, v in zip(first.weights, x, strict=True))
    assert second.weights == pytest.approx(expected, abs=1e-15)
    assert LearningValueModel is ValueModel


@given(VECTORS, st.booleans(), st.floats(1e-9, 0.1))
def test_an_importance_weight_is_at_most_ten(x: tuple[float, ...], label: bool, propensity: float) -> None:
    assert observe(MODEL, Weights(), x, label, propensity) == observe(MODEL, Weights(), x, label, 0.1)


@given(LABELS, VECTORS)
def test_it_stays_finite_and_clipped_and_is_a_function_of_what_it_saw(
    labels: list[tuple[tuple[float, float, float], bool, float]], x: tuple[float, ...]
) -> None:
    one = two = Weights()
    for seen, label, propensity in labels:
        one = observe(MODEL, one, seen, label, propensity)
        two = observe(MODEL, two, seen, label, propensity)
    assert one == two
    assert one.observed == len(labels)
    assert all(map(math.isfinite, (*one.weights, one.bias)))
    low = 1.0 / (1.0 + math.exp(3.0))
    assert low <= predict(MODEL, one, x) <= 1.0 - low + 1e-15


def test_the_bias_alone_is_no_signal() -> None:
    learned = observe(MODEL, Weights(), (0.0, 0.0, 0.0), True, 1.0)
    assert learned == Weights((0.0, 0.0, 0.0), 0.1, 1)
    assert not has_signal(learned, 0.01)
    assert not has_signal(Weights(), 0.01)
    assert not has_signal(Weights((0.0, -0.01)), 0.01)
    assert has_signal(Weights((0.0, -0.011)), 0.01)


def test_size_does_not_drown_advantage() -> None:
    """Field case 30."""
    learned = Weights()
    for i in range(40):
        small, large = AllocatorContext(0.5 + i % 2, 1), AllocatorContext(-0.5 + i % 2, 50)
        learned = observe(MODEL, learned, vector("verify", small), True, 1.0)
        learned = observe(MODEL, learned, vector("verify", large), False, 1.0)
    low, high = (predict(MODEL, learned, vector("verify", AllocatorContext(a, 50))) for a in (0.1, 2.5))
    assert low < 0.3
    assert high > 0.5
    assert high - low > 0.3


def test_what_changes_is_learned_again() -> None:
    learned = Weights()
    for flip in (1.0, -1.0):
        for i in range(80):
            x = (1.0 if i % 2 else -1.0, 0.15, 0.2)
            learned = observe(MODEL, learned, x, x[0] * flip > 0, 1.0)
        assert predict(MODEL, learned, (flip, 0.15, 0.2)) > 0.8
        assert predict(MODEL, learned, (-flip, 0.15, 0.2)) < 0.2
