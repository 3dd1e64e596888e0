"""What a run is expected to use, purpose by purpose, from what is known before it begins.

A forecast is no bound: what a call can cost at most is known (see estimate.py), how long an answer will be and how
often a proposal is worth a gate is not. Where only the run can tell, it goes by `Assumptions`.
"""

from __future__ import annotations

import math
from functools import reduce

from agentdescent.budget.governor import Caps, Purpose
from agentdescent.budget.tariff import Tariff
from agentdescent.budget.usage import NOTHING, Amount, add
from agentdescent.engine.spec import Spec
from agentdescent.history.assumptions import (
    NO_USE,
    Assumptions,
    Shape,
    Use,
    amount,
    plus,
    proposing,
    rate_of,
    reply_bytes,
    scoring,
    solving,
    testing,
    times,
)
from agentdescent.record import Record

STEPS = 2_000
"""Rounds that are followed one by one; each that is left is taken to cost what the last of them did."""


class Line(Record, frozen=True):
    """What one purpose is expected to use."""

    purpose: Purpose
    use: Use


class Forecast(Record, frozen=True):
    """`lines` by purpose; `rounds`, `proposals`, of those `cards`, worth a gate, and `gates` of the run; the `size` in
    bytes that the artifact is expected to come to."""

    lines: tuple[Line, ...]
    size: float
    rounds: float = 0.0
    proposals: float = 0.0
    cards: float = 0.0
    gates: float = 0.0


class Turn(Record, frozen=True):
    """One round at one size of the artifact: what it uses, what it brings, and by how much the artifact grows."""

    lines: tuple[Line, ...]
    proposals: float
    cards: float
    gates: float
    growth: float


def forecast(spec: Spec, shape: Shape, rules: Assumptions, size: int) -> Forecast:
    """Round after round until a limit is reached, of none where none can be: `size`, the bytes of the start artifact,
    grows by what is kept."""
    lines = (Line("base", scoring(shape, rules, size)), Line("test", times(testing(shape, rules, size), 2.0)))
    done = Forecast(lines, float(size))
    most = math.inf if spec.caps.rounds is None else spec.caps.rounds
    first = one_round(spec, shape, rules, size, 0.0)
    if math.isinf(most) and math.isinf(_fitting(shape.tariff, spec.caps, (), first.lines)):
        return done
    while done.rounds < most:
        turn = one_round(spec, shape, rules, done.size, done.cards)
        share = min(_fitting(shape.tariff, spec.caps, done.lines, turn.lines), most - done.rounds)
        if done.rounds < STEPS:
            share = min(share, 1.0)
        if share > 0.0:
            done = _after(done, turn, share)
        if share < 1.0 or done.rounds > STEPS:
            break
    return done


def _after(done: Forecast, turn: Turn, n: float) -> Forecast:
    """`n` such rounds later."""
    return Forecast(
        _add(done.lines, tuple(Line(line.purpose, times(line.use, n)) for line in turn.lines)),
        done.size + turn.growth * n,
        done.rounds + n,
        done.proposals + turn.proposals * n,
        done.cards + turn.cards * n,
        done.gates + turn.gates * n,
    )


def _growth(shape: Shape, rules: Assumptions, size: float, cards: float, reply: float) -> float:
    """Bytes by which the artifact grows in a round; a single slot is replaced."""
    return max(0.0, reply - size) if shape.single else cards * rules.kept * reply


def one_round(spec: Spec, shape: Shape, rules: Assumptions, size: float, before: float) -> Turn:
    """`before`: proposals worth a merge so far."""
    task, reply = shape.train, reply_bytes(shape, rules)
    unsolved = rules.unsolved * 0.5 ** (before / (rules.halving * max(8, shape.clusters)))
    worth = rules.verified * (rules.gained if spec.screen and spec.self_verify else 1.0)
    proposals = spec.n_workers * unsolved * sum((1.0 - worth) ** i for i in range(min(spec.samples, 64)))
    cards = proposals * worth
    gates, fused = _gates(spec, shape, rules, cards)
    asked = gates * (rules.asked if spec.curtail else 1.0)
    growth = _growth(shape, rules, size, cards, reply)
    tested = testing(shape, rules, size + growth).prompt - testing(shape, rules, size).prompt
    verified = proposals * rules.verified if spec.self_verify else 0.0
    conflicts = cards * shape.n_cheap if shape.single and cards > 1.0 else 0.0
    lines = (
        Line("rollout", times(solving(shape, rules, size + task), spec.n_workers)),
        Line("propose", times(proposing(shape, rules, size + task), proposals)),
        Line("verify", times(solving(shape, rules, size + reply + task), verified)),
        Line("conflict", times(solving(shape, rules, reply + shape.cheap), conflicts)),
        Line("gate", times(scoring(shape, rules, size + fused * reply), asked)),
        Line("test", Use(prompt=tested)),
    )
    return Turn(tuple(line for line in lines if line.use != NO_USE), proposals, cards, gates, growth)


def _gates(spec: Spec, shape: Shape, rules: Assumptions, cards: float) -> tuple[float, float]:
    """Gates that so many proposals of a round need, and proposals to a gate. Texts of a single slot contradict each
    other: one of them is left."""
    if shape.single:
        return min(1.0, cards), 1.0
    match spec.fusion_width:
        case int() as given:
            return cards / given, float(given)
        case "adaptive":
            return cards / rules.adaptive, rules.adaptive
        case "all":
            together = spec.merge_size if spec.schedule == "continuous" else cards
            width = 1.0 if spec.fusion == "none" else max(1.0, min(together, rules.fused))
            return cards / width, width


def _add(a: tuple[Line, ...], b: tuple[Line, ...]) -> tuple[Line, ...]:
    sums = {line.purpose: line.use for line in a}
    for line in b:
        sums[line.purpose] = plus(sums.get(line.purpose, NO_USE), line.use)
    return tuple(Line(purpose, use) for purpose, use in sums.items())


def total(tariff: Tariff, lines: tuple[Line, ...]) -> Amount:
    return reduce(add, (amount(tariff, line.use) for line in lines), NOTHING)


def _fitting(tariff: Tariff, caps: Caps, done: tuple[Line, ...], more: tuple[Line, ...]) -> float:
    """How many such rounds fit under every cap; infinite when none of them limits it."""
    limits = (caps.tokens, caps.cost, caps.calls, caps.rollouts)
    rows = zip(limits, _units(tariff, done), _units(tariff, more), strict=True)
    return min(
        (max(0.0, cap - used) / each for cap, used, each in rows if cap is not None and each > 0), default=math.inf
    )


def _units(tariff: Tariff, lines: tuple[Line, ...]) -> tuple[float, float, float, float]:
    """Tokens, nano-dollars, calls, rollouts: unrounded."""
    uses = [line.use for line in lines]
    return (
        sum(use.prompt + use.completion for use in uses),
        sum(_money(tariff, use) for use in uses),
        sum(use.solves * tariff.solve.calls + use.proposals * tariff.propose.calls for use in uses),
        sum(use.solves for use in uses),
    )


def _money(tariff: Tariff, use: Use) -> float:
    prices = rate_of(tariff, use).prices
    return 0.0 if prices is None else (use.prompt * prices.prompt + use.completion * prices.completion) / 1000
