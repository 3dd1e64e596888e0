"""What a run can cost, and what it is expected to: a projection of its first fact alone.

The worst cases are those that the engine reserves, for the artifact as it starts and the text of a proposal at 4 bytes
a token; an artifact that grows costs more. What is expected goes by `Assumptions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import msgspec

from agentdescent.budget.governor import Caps, Purpose
from agentdescent.budget.tariff import worst
from agentdescent.budget.usage import NOTHING, Amount, add, subtract
from agentdescent.engine.draw import seeded
from agentdescent.engine.event import Started
from agentdescent.engine.oracle import audit_calls
from agentdescent.engine.path import sweep_cost
from agentdescent.engine.spec import Setup, Spec
from agentdescent.engine.split import make_split
from agentdescent.engine.state import Sizes, State, initial
from agentdescent.engine.transition import apply
from agentdescent.history.assumptions import (
    Assumptions,
    Shape,
    Use,
    amount,
    proposing,
    reply_bytes,
    scoring,
    shape_of,
    solving,
    testing,
    times,
)
from agentdescent.history.forecast import forecast, total
from agentdescent.history.summary import Ceiling
from agentdescent.record import Record

_BYTES_PER_TOKEN = 4


class Item(Record, frozen=True):
    """What something costs: at most, None where no port promises a bound, and as expected."""

    worst: Amount | None
    expected: Amount


class Stage(Record, frozen=True):
    """One stage on the path of a proposal, by its purpose."""

    purpose: Purpose
    item: Item


class Expected(Record, frozen=True):
    """What one purpose of a run is expected to use."""

    purpose: Purpose
    amount: Amount


class Estimate(Record, frozen=True):
    """What a run would cost; at most its `caps`. `train`, `heldout`, `test`: tasks in each part. `ceiling`: *strict*
    when every port declares a bound. `base`: scoring the start artifact. `stages`: one proposal from rollout to
    verdict, which is a `path`. `testing`: the start and the final artifact on the test tasks. `run`, `total`: what the
    run is expected to use, by purpose and in all. `rounds`, `proposals`, `gates`: how many are expected, and
    `candidates`: proposals that are put before a gate, alone or with others; `candidates_worst`: how many that is when
    each costs all it can and is committed, which makes the next dearer; None where no bound is known, or no limit.
    Without a limit that tells (only `max_seconds`) these are of no round. `priced`: money is counted. `unknown`: what
    these numbers leave out, and why.
    """

    train: int
    heldout: int
    test: int
    caps: Caps
    ceiling: Ceiling
    priced: bool
    base: Item
    stages: tuple[Stage, ...]
    path: Item
    testing: Item
    run: tuple[Expected, ...]
    total: Amount
    rounds: float
    proposals: float
    candidates: float
    gates: float
    candidates_worst: int | None
    assumptions: Assumptions
    unknown: tuple[str, ...]


class Difference(Record, frozen=True):
    """What one purpose was expected to use, and what it used."""

    purpose: Purpose
    expected: Amount
    used: Amount


def estimate(spec: Spec, setup: Setup, assumptions: Assumptions | None = None) -> Estimate:
    """Of a run that is asked for so, before it begins or from its log."""
    rules = Assumptions() if assumptions is None else assumptions
    split = make_split(spec, setup, seeded(spec.seed))
    state = apply(initial(spec, setup), Started(spec, setup, split))
    tariff, size = setup.tariff, state.head.version.size
    shape = shape_of(spec, setup, split)
    stages = _stages(state, shape, rules, size)
    base = Item(_sweep(state, state.heldout, size), amount(tariff, scoring(shape, rules, size)))
    tests = Item(
        _sum((_sweep(state, state.test, size), _sweep(state, state.test, _grown(shape, rules, size)))),
        amount(tariff, times(testing(shape, rules, size), 2.0)),
    )
    path = Item(_path(stages), reduce(add, (stage.item.expected for stage in stages), NOTHING))
    run = forecast(spec, shape, rules, size)
    return Estimate(
        len(split.train),
        len(split.heldout),
        len(split.test),
        spec.caps,
        "strict" if tariff.solve.strict and tariff.propose.strict else "observed",
        tariff.solve.prices is not None and tariff.propose.prices is not None,
        base,
        stages,
        path,
        tests,
        tuple(Expected(line.purpose, amount(tariff, line.use)) for line in run.lines),
        total(tariff, run.lines),
        run.rounds,
        run.proposals,
        run.cards,
        run.gates,
        _candidates(state, shape, rules),
        rules,
        _unknown(spec, setup),
    )


def compare(before: Estimate, state: State) -> tuple[Difference, ...]:
    """The estimate of a run beside what it used, purpose by purpose: those that were expected first."""
    expected = {one.purpose: one.amount for one in before.run}
    used = {line.purpose: line.used for line in state.governor.ledger}
    purposes = (*expected, *(purpose for purpose in used if purpose not in expected))
    return tuple(Difference(name, expected.get(name, NOTHING), used.get(name, NOTHING)) for name in purposes)


def _grown(shape: Shape, rules: Assumptions, size: int) -> int:
    """Bytes of a candidate: an artifact of `size` bytes, and as much as one proposal may say."""
    reply = _BYTES_PER_TOKEN * shape.tariff.propose.ceiling or rules.unbilled
    return max(size, reply) if shape.single else size + reply


def _sweep(state: State, sizes: Sizes, size: int) -> Amount | None:
    return sweep_cost(state.governor, sizes, size) if state.setup.tariff.solve.strict else None


def _sum(amounts: Iterable[Amount | None]) -> Amount | None:
    """None as soon as one of them is not known."""
    whole = NOTHING
    for one in amounts:
        if one is None:
            return None
        whole = add(whole, one)
    return whole


def _path(stages: tuple[Stage, ...]) -> Amount | None:
    return _sum(stage.item.worst for stage in stages)


def _stages(state: State, shape: Shape, rules: Assumptions, size: int) -> tuple[Stage, ...]:
    """One proposal, made for an artifact of `size` bytes."""
    spec, tariff, grown = state.spec, shape.tariff, _grown(shape, rules, size)
    longest = max(state.setup.tasks[index].size for index in state.split.train)
    output = min(tariff.output_limit, _BYTES_PER_TOKEN * tariff.solve.ceiling)
    candidate = size + reply_bytes(shape, rules)
    asked = rules.asked if spec.curtail else 1.0

    def solve(size: int) -> Amount | None:
        return worst(tariff.solve, size + longest, 1) if tariff.solve.strict else None

    proposal = worst(tariff.propose, size + longest + output, 0) if tariff.propose.strict else None
    rows: list[tuple[Purpose, Amount | None, Use]] = [
        ("rollout", solve(size), solving(shape, rules, size + shape.train)),
        ("propose", proposal, proposing(shape, rules, size + shape.train)),
    ]
    if spec.self_verify:
        rows.append(("verify", solve(grown), solving(shape, rules, candidate + shape.train)))
    rows.append(("gate", _sweep(state, state.heldout, grown), times(scoring(shape, rules, candidate), asked)))
    if audit_calls(state, state.head.version.artifact):
        both = times(solving(shape, rules, candidate + shape.cheap), 2.0 * shape.n_cheap)
        rows.append(("audit", _sum([_sweep(state, state.cheap, grown)] * 2), both))
    return tuple(Stage(purpose, Item(most, amount(tariff, use))) for purpose, most, use in rows)


def _candidates(state: State, shape: Shape, rules: Assumptions) -> int | None:
    """The i-th of n candidates costs `first` + i * `dearer`, and the test of the last as much more as it has grown."""
    spec, size = state.spec, state.head.version.size
    grown = _grown(shape, rules, size)
    fixed = _sum((_sweep(state, state.heldout, size), *[_sweep(state, state.test, size)] * 2))
    first, second = (_path(_stages(state, shape, rules, n)) for n in (size, grown))
    tests = _sweep(state, state.test, grown)
    if fixed is None or first is None or second is None or tests is None:
        return None
    dearer, retest = subtract(second, first), subtract(tests, _sweep(state, state.test, size) or NOTHING)
    caps = (spec.caps.tokens, spec.caps.cost, spec.caps.calls, spec.caps.rollouts)
    rows = zip(caps, *map(msgspec.structs.astuple, (fixed, add(first, retest), dearer)), strict=True)
    bought = [_most(cap - gone, each, more) for cap, gone, each, more in rows if cap is not None and each > 0]
    if spec.caps.rounds is not None:
        bought.append(spec.caps.rounds * spec.n_workers * spec.samples)
    return min(bought, default=None)


def _most(money: int, each: int, dearer: int) -> int:
    """The largest n with n * each + n (n - 1) / 2 * dearer <= money; 0 when none is."""
    low, high = 0, max(0, money // each)
    while low < high:
        n = (low + high + 1) // 2
        low, high = (n, high) if n * each + n * (n - 1) // 2 * dearer <= money else (low, n - 1)
    return low


def _unknown(spec: Spec, setup: Setup) -> tuple[str, ...]:
    said = []
    for kind, rate in (("solve", setup.tariff.solve), ("propose", setup.tariff.propose)):
        if not rate.strict:
            said.append(
                f"{kind} declares no bound: its answers, what it adds to a prompt and the calls it makes are not in "
                "these numbers; its first call runs alone, with all that is free reserved"
            )
    if setup.tariff.propose.strict and setup.tariff.propose.ceiling == 0:
        said.append("how long a proposal is: it takes no tokens, so that nothing bounds its text")
    caps = spec.caps
    if caps.tokens is None and caps.cost is None:
        said.append("what the run costs at most: neither max_tokens nor max_cost limits it")
    if all(cap is None for cap in (caps.tokens, caps.cost, caps.calls, caps.rollouts, caps.rounds)):
        said.append("how many rounds there are: only max_seconds limits them")
    return tuple(said)
