"""What a run is expected to use, purpose by purpose, from what is known before it begins.

A forecast is no bound: what a call can cost at most is known (see estimate.py), how long an answer will be and how
often a proposal is worth a gate is not. Where only the run can tell, it goes by `Assumptions`.
"""

from __future__ import annotations

import math
from functools import reduce

from agentdescent.artifact.strategy import SingleSlot
from agentdescent.budget.governor import Caps, Purpose
from agentdescent.budget.tariff import Rate, Tariff, cost
from agentdescent.budget.usage import NOTHING, Amount, Usage, add
from agentdescent.engine.spec import Setup, Spec, Split
from agentdescent.record import Record

STEPS = 2_000
"""Rounds that are followed one by one; each that is left is taken to cost what the last of them did."""


class Assumptions(Record, frozen=True):
    """What a forecast takes for granted; the shares are means of runs of the rule agent (the demo, and Banking77 with
    5 to 77 labels). Of a single run they may be wrong by a factor of two.

    `bytes_per_token`: of text, unless the tariff says more. `solve_completion`, `propose_completion`: shares of the
    ceiling that an answer takes. `unsolved`: share of the first rollouts that ask for a proposal, which halves with
    every `halving` proposals for each cluster of tasks. `verified`: share of the proposals that change something.
    `gained`: of those, share that passes `screen`. `fused`: proposals to a gate, and `adaptive` those of an adaptive
    width. `asked`: share of the held-out tasks a curtailed gate asks. `kept`: share of the proposed text that is in the
    artifact in the end.
    """

    bytes_per_token: int = 4
    solve_completion: float = 0.6
    propose_completion: float = 0.2
    unsolved: float = 0.7
    halving: float = 3.0
    verified: float = 0.8
    gained: float = 0.6
    fused: float = 2.2
    adaptive: float = 8.0
    asked: float = 0.8
    kept: float = 0.75


class Use(Record, frozen=True):
    """Means, so not whole: `solves` and `proposals` are calls of either kind, the rest tokens."""

    solves: float = 0.0
    proposals: float = 0.0
    prompt: float = 0.0
    completion: float = 0.0


NO_USE = Use()


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


def times(use: Use, n: float) -> Use:
    return Use(use.solves * n, use.proposals * n, use.prompt * n, use.completion * n)


def plus(a: Use, b: Use) -> Use:
    return Use(a.solves + b.solves, a.proposals + b.proposals, a.prompt + b.prompt, a.completion + b.completion)


def amount(tariff: Tariff, use: Use) -> Amount:
    """In the units of the caps, rounded down."""
    prompt, completion = int(use.prompt), int(use.completion)
    money = cost(_rate(tariff, use).prices, Usage(prompt=prompt, completion=completion))
    calls = use.solves * tariff.solve.calls + use.proposals * tariff.propose.calls
    return Amount(prompt + completion, money, int(calls), int(use.solves))


def reply_bytes(tariff: Tariff, rules: Assumptions) -> float:
    """The text of a proposal."""
    return tariff.propose.ceiling * rules.propose_completion * rules.bytes_per_token


def solving(tariff: Tariff, rules: Assumptions, size: float) -> Use:
    """One solve whose artifact and task have so many bytes together."""
    completion = tariff.solve.ceiling * rules.solve_completion
    return Use(1.0, 0.0, _prompt(tariff.solve, rules, size), completion)


def proposing(tariff: Tariff, rules: Assumptions, size: float) -> Use:
    """One proposal; to the bytes of artifact and task come those of the output."""
    output = min(tariff.output_limit, tariff.solve.ceiling * rules.solve_completion * rules.bytes_per_token)
    completion = tariff.propose.ceiling * rules.propose_completion
    return Use(0.0, 1.0, _prompt(tariff.propose, rules, size + output), completion)


def _prompt(rate: Rate, rules: Assumptions, size: float) -> float:
    """The overhead is a bound on text too, at the ratio of the tariff."""
    return (rate.overhead * rate.bytes_per_token + size) / max(rules.bytes_per_token, rate.bytes_per_token)


class Shape(Record, frozen=True):
    """What matters of the tasks: mean bytes and number of each part, and the number of clusters."""

    tariff: Tariff
    train: float
    heldout: float
    test: float
    cheap: float
    n_heldout: int
    n_test: int
    n_cheap: int
    clusters: int


def shape_of(setup: Setup, split: Split) -> Shape:
    cheap = tuple(split.heldout[position] for position in split.cheap)
    return Shape(
        tariff=setup.tariff,
        train=_mean_size(setup, split.train),
        heldout=_mean_size(setup, split.heldout),
        test=_mean_size(setup, split.test),
        cheap=_mean_size(setup, cheap),
        n_heldout=len(split.heldout),
        n_test=len(split.test),
        n_cheap=len(cheap),
        clusters=len({task.cluster for task in setup.tasks}),
    )


def _mean_size(setup: Setup, part: tuple[int, ...]) -> float:
    return sum(setup.tasks[index].size for index in part) / len(part) if part else 0.0


def scoring(shape: Shape, rules: Assumptions, size: float) -> Use:
    """An artifact of `size` bytes on every held-out task."""
    return times(solving(shape.tariff, rules, size + shape.heldout), shape.n_heldout)


def testing(shape: Shape, rules: Assumptions, size: float) -> Use:
    """On every test task."""
    return times(solving(shape.tariff, rules, size + shape.test), shape.n_test)


def forecast(spec: Spec, shape: Shape, rules: Assumptions, size: int) -> Forecast:
    """Round after round until a limit is reached: `size`, the bytes of the start artifact, grows by what is kept."""
    lines = (Line("base", scoring(shape, rules, size)), Line("test", times(testing(shape, rules, size), 2.0)))
    done = Forecast(lines, float(size))
    most = math.inf if spec.caps.rounds is None else spec.caps.rounds
    while done.rounds < most:
        turn = one_round(spec, shape, rules, done.size, done.cards)
        share = min(_fitting(shape.tariff, spec.caps, done.lines, turn.lines), most - done.rounds)
        if done.rounds < STEPS:
            share = min(share, 1.0)
        if math.isinf(share):
            break
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


def _growth(spec: Spec, rules: Assumptions, size: float, cards: float, reply: float) -> float:
    """Bytes by which the artifact grows in a round; a single slot is replaced."""
    return max(0.0, reply - size) if isinstance(spec.strategy, SingleSlot) else cards * rules.kept * reply


def one_round(spec: Spec, shape: Shape, rules: Assumptions, size: float, before: float) -> Turn:
    """`before`: proposals worth a merge so far."""
    tariff, task, reply = shape.tariff, shape.train, reply_bytes(shape.tariff, rules)
    unsolved = rules.unsolved * 0.5 ** (before / (rules.halving * max(8, shape.clusters)))
    worth = rules.verified * (rules.gained if spec.screen and spec.self_verify else 1.0)
    proposals = spec.n_workers * unsolved * sum((1.0 - worth) ** i for i in range(min(spec.samples, 64)))
    cards = proposals * worth
    gates, fused = _gates(spec, rules, cards)
    asked = gates * (rules.asked if spec.curtail else 1.0)
    growth = _growth(spec, rules, size, cards, reply)
    tested = testing(shape, rules, size + growth).prompt - testing(shape, rules, size).prompt
    verified = proposals * rules.verified if spec.self_verify else 0.0
    conflicts = cards * shape.n_cheap if isinstance(spec.strategy, SingleSlot) and cards > 1.0 else 0.0
    lines = (
        Line("rollout", times(solving(tariff, rules, size + task), spec.n_workers)),
        Line("propose", times(proposing(tariff, rules, size + task), proposals)),
        Line("verify", times(solving(tariff, rules, size + reply + task), verified)),
        Line("conflict", times(solving(tariff, rules, reply + shape.cheap), conflicts)),
        Line("gate", times(scoring(shape, rules, size + fused * reply), asked)),
        Line("test", Use(prompt=tested)),
    )
    return Turn(tuple(line for line in lines if line.use != NO_USE), proposals, cards, gates, growth)


def _gates(spec: Spec, rules: Assumptions, cards: float) -> tuple[float, float]:
    """Gates that so many proposals of a round need, and proposals to a gate. Texts of a single slot contradict each
    other: one of them is left."""
    if isinstance(spec.strategy, SingleSlot):
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
    prices = _rate(tariff, use).prices
    return 0.0 if prices is None else (use.prompt * prices.prompt + use.completion * prices.completion) / 1000


def _rate(tariff: Tariff, use: Use) -> Rate:
    return tariff.propose if use.proposals else tariff.solve
