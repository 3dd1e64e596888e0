"""What is wrong with a job, found before anything is spent. Every message names the offender and the remedy."""

from __future__ import annotations

import math
from collections import Counter
from typing import assert_never

import msgspec

from agentdescent.allocation import validation as allocation
from agentdescent.allocation.config import DEFAULT_STARTS, ValueBudgetAllocator, start_of
from agentdescent.allocation.own import Own
from agentdescent.allocation.policies import Always, Lineage, Never, Randomly
from agentdescent.artifact.strategy import Components, SingleSlot
from agentdescent.budget import call_budget, returns
from agentdescent.budget.governor import Caps
from agentdescent.budget.tariff import Rate
from agentdescent.budget.usage import Amount, add, scale
from agentdescent.engine.oracle import audit_calls
from agentdescent.engine.path import cheapest_path, sizes_of, sweep_cost
from agentdescent.engine.spec import RULES, Setup, Spec, TaskInfo
from agentdescent.engine.split import part_sizes
from agentdescent.engine.state import initial
from agentdescent.errors import UsageError
from agentdescent.merge.acceptance import Unpaired
from agentdescent.merge.audit import check as check_audit
from agentdescent.record import replace
from agentdescent.search.sampling import Stakes
from agentdescent.search.selection import SingleHead
from agentdescent.search.selection import check as check_selection

MIN_TASKS = 4


def check(spec: Spec, setup: Setup) -> tuple[str, ...]:
    """Raises UsageError when the run cannot be what was asked for; returns warnings."""
    _check_types(spec, setup)
    check_caps(spec.caps)
    _check_spec(spec)
    _check_economy(spec, setup.tariff.propose)
    _check_tasks(spec, setup)
    for kind, rate in (("solve", setup.tariff.solve), ("propose", setup.tariff.propose)):
        _check_rate(kind, rate, setup.agent, priced=spec.caps.cost is not None)
    return _check_affordable(spec, setup)


def _check_types(spec: Spec, setup: Setup) -> None:
    """What is written to the log must be readable from it: constructors do not check, decoding does."""
    for value in (spec, setup):
        try:
            msgspec.json.decode(msgspec.json.encode(value), type=type(value))
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise UsageError(f"a choice has the wrong type: {error}") from error


def check_caps(caps: Caps) -> None:
    """Raises UsageError unless every cap is a positive number of its unit."""
    for name, value in (
        ("max_tokens", caps.tokens),
        ("max_cost", caps.cost),
        ("max_calls", caps.calls),
        ("max_rollouts", caps.rollouts),
        ("rounds", caps.rounds),
    ):
        if value is not None and (type(value) is not int or value < 1):
            raise UsageError(f"{name} is {value!r}: it must be a positive whole number, or left out for no limit")
    seconds = caps.seconds
    if seconds is not None and not (type(seconds) in (int, float) and math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"max_seconds is {seconds!r}: it must be a positive number, or left out for no limit")
    if all(value is None for value in (caps.tokens, caps.cost, caps.calls, caps.rollouts, caps.seconds, caps.rounds)):
        raise UsageError("nothing limits the run: set rounds, max_tokens or another limit")


def _check_spec(spec: Spec) -> None:
    if spec.rules != RULES:
        raise UsageError(f"rules {spec.rules} are not known here (this version decides by rules {RULES})")
    for name, number, least in (
        ("n_workers", spec.n_workers, 1),
        ("heldout_limit", spec.heldout_limit, 1),
        ("test_limit", spec.test_limit, 1),
        ("refresh_interval", spec.refresh_interval, 1),
        ("wave_min", spec.wave_min, 1),
        ("merge_size", spec.merge_size, 1),
        ("async_ratio", spec.async_ratio, 1),
        ("window", spec.window, 1),
        ("open_gates", spec.open_gates, 1),
        ("cheap_size", spec.cheap_size, 1),
        ("attempts", spec.attempts, 1),
        ("samples", spec.samples, 1),
        ("fusion_width", 1 if spec.fusion_width in ("all", "adaptive") else spec.fusion_width, 1),
        ("oracle_budget", spec.oracle_budget, 0),
        ("population", spec.population, 2),
    ):
        if type(number) is not int or number < least:
            raise UsageError(f"{name} is {number!r}: it must be a whole number of at least {least}")
    for name, share, top in (("heldout_share", spec.heldout_share, False), ("test_share", spec.test_share, True)):
        if not (0 <= share < 1) or (share == 0 and not top):
            raise UsageError(f"{name} is {share!r}: it must be a share of the tasks, from 0 to below 1")
    for name, fraction in (
        ("solved_threshold", spec.solved_threshold),
        ("soft_floor", spec.soft_floor),
        ("hard_floor", spec.hard_floor),
    ):
        if not 0 < fraction <= 1:
            raise UsageError(f"{name} is {fraction!r}: it must be in (0, 1]")
    if isinstance(spec.sampling, Stakes) and not 0 <= spec.sampling.pending < 1:
        raise UsageError(f"sampling.pending is {spec.sampling.pending!r}: it must be in [0, 1)")
    if spec.fusion_width != "all" and not isinstance(spec.selection, SingleHead):
        policy = type(spec.selection).__name__
        raise UsageError(f"fusion_width waits for proposals on one head, and {policy} keeps several: leave one out")
    if spec.fusion == "none" and spec.fusion_width not in ("all", 1):
        raise UsageError(f'fusion_width is {spec.fusion_width!r} and fusion "none": leave one of them out')
    _check_stages(spec)
    for name, chance in (("futility", spec.futility), ("finish_epsilon", spec.finish_epsilon)):
        if not 0 <= chance < 1:
            raise UsageError(f"{name} is {chance!r}: it must be a probability from 0 to below 1")
    rule = spec.acceptance
    if not (0 < rule.floor <= 1 and 0 < rule.start <= 1 and rule.half_life > 0):
        raise UsageError(f"acceptance is {rule!r}: start and floor must be in (0, 1], half_life above 0")
    check_audit(spec.audit)
    predicted = spec.futility > 0 or (spec.allocator is not None and "finish" in spec.allocator.stages)
    if predicted and isinstance(rule, Unpaired):
        raise UsageError("gates are stopped by predicting the paired rule: leave out futility, or Unpaired()")
    if type(spec.seed) is not int:
        raise UsageError(f"seed is {spec.seed!r}: it must be a whole number")
    if spec.target is not None and not 0 < spec.target <= 1:
        raise UsageError(f"target_reward is {spec.target!r}: rewards are in (0, 1]")
    if spec.patience is not None and spec.patience < 1:
        raise UsageError(f"patience is {spec.patience!r}: it must be a number of rounds, at least 1")
    check_selection(spec.selection)
    if spec.refresh_interval > 1 and not isinstance(spec.selection, SingleHead):
        policy = type(spec.selection).__name__
        raise UsageError(
            f"refresh_interval is {spec.refresh_interval}, and {policy} picks anew for every turn: leave one out"
        )


def _check_stages(spec: Spec) -> None:
    """Raises UsageError for a spend, or a say in one, that no decision of this run would come to."""
    if spec.tournament and spec.fusion == "none":
        raise UsageError('tournament compares a union with its parts, and fusion is "none": leave one of them out')
    stages = () if spec.allocator is None else spec.allocator.stages
    for stage, possible, remedy in (
        ("tournament", spec.tournament, "set tournament=True"),
        ("verify", spec.self_verify, "set self_verify=True"),
    ):
        if stage in stages and not possible:
            raise UsageError(f"the allocator decides {stage}, which this run never does: {remedy}, or leave it out")


def check_asked(spec: Spec) -> None:
    """Raises UsageError for an allocator that waits for a token cap to become tight, where there is none."""
    allocator = spec.allocator
    if allocator is None or spec.caps.tokens is not None:
        return
    starts = allocator.budget_start if isinstance(allocator, ValueBudgetAllocator | Own) else DEFAULT_STARTS
    if all(start_of(starts, stage) <= 1 for stage in allocator.stages):
        raise UsageError(
            "the allocator decides once less than a part of the token cap is left, and there is no cap: it would "
            "never be asked: set max_tokens, or give it a budget_start above 1"
        )


def _check_economy(spec: Spec, rate: Rate) -> None:
    tokens, budget = spec.caps.tokens, spec.call_budget
    if spec.diminishing_returns is not None:
        returns.check(spec.diminishing_returns, tokens)
    if spec.projection == "round":
        if spec.schedule == "continuous":
            raise UsageError("projection is 'round': the continuous schedule has no rounds to project; leave it out")
        if tokens is None:
            raise UsageError("projection is 'round', and no token cap says what has to fit: set max_tokens")
    if budget is not None:
        call_budget.check(budget)
        if rate.strict and budget.base > rate.ceiling:
            raise UsageError(
                f"call_budget.base is {budget.base}, and tariff.propose allows {rate.ceiling} completion tokens: lower "
                "the base, or raise that ceiling"
            )
    match spec.allocator:
        case ValueBudgetAllocator():
            allocation.check(spec.allocator)
        case Randomly(chance):
            if not 0 <= chance <= 1:
                raise UsageError(f"allocator: the rate is {chance!r}: it must be a probability, from 0 to 1")
        case Lineage(kin):
            if not 0 <= kin < math.inf:
                raise UsageError(f"allocator: kin is {kin!r}: it must be a weight of at least 0")
        case Always() | Never() | Own() | None:
            pass
        case _:
            assert_never(spec.allocator)


def _check_tasks(spec: Spec, setup: Setup) -> None:
    if spec.oracle_budget and not setup.oracle:
        raise UsageError(
            f"oracle_budget is {spec.oracle_budget}, and there is no oracle: give oracle=, a second scorer"
        )
    n = len(setup.tasks)
    if n < MIN_TASKS:
        raise UsageError(f"{n} tasks: at least {MIN_TASKS} are needed, to train on some and decide on others")
    counts = Counter(task.id for task in setup.tasks)
    keys = [key for key, _ in setup.artifact]
    if len(set(keys)) < len(keys):
        raise UsageError("the start artifact has a key twice: keys must be unique")
    slot = spec.strategy.key if isinstance(spec.strategy, SingleSlot) else None
    if slot is not None and any(key != slot for key in keys):
        raise UsageError(f"the start artifact of a single slot has one entry, with the key {slot!r}, not {keys}")
    if isinstance(spec.strategy, Components) and not keys:
        raise UsageError(
            "Components() changes the texts of the start artifact: give artifact=, a (name, text) for each"
        )
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise UsageError(f"task id {twice!r} occurs {counts[twice]} times: ids must be unique")
    train, _, test = part_sizes(spec, n)
    if train < 1:
        raise UsageError(f"no task is left to train on: lower heldout_share or test_share ({n} tasks, {test} test)")


def _check_rate(kind: str, rate: Rate, agent: str, *, priced: bool) -> None:
    if not 1 <= rate.bytes_per_token <= 64:
        raise UsageError(f"tariff.{kind}.bytes_per_token is {rate.bytes_per_token}: it must be from 1 to 64")
    calls = 1 if rate.strict and kind == "solve" else 0
    if min(rate.overhead, rate.ceiling, rate.calls - calls) < 0:
        raise UsageError(f"tariff.{kind} has a negative bound: {rate}")
    if priced and rate.strict and rate.calls and rate.prices is None:
        raise UsageError(f"max_cost is set, but tariff.{kind} has no prices for {agent}: give them, or use max_tokens")


def _check_affordable(spec: Spec, setup: Setup) -> tuple[str, ...]:
    """A strict tariff says what the base and one candidate can cost; the largest tasks stand for all."""
    warnings = []
    _, heldout, test = part_sizes(spec, len(setup.tasks))
    if heldout < MIN_TASKS:
        warnings.append(f"only {heldout} held-out tasks decide what is kept: a change can win by luck; use more tasks")
    state = initial(spec, setup)
    largest = sorted(range(len(setup.tasks)), key=lambda index: -setup.tasks[index].size)
    cheap = largest[: min(heldout, spec.cheap_size)]
    state = replace(state, split=replace(state.split, train=(0,), cheap=tuple(range(len(cheap)))))
    if not (setup.tariff.solve.strict and setup.tariff.propose.strict):
        # Nothing is known of what a call costs, but that it takes a token.
        calls = 2 * heldout + 2 * test + 2 + (audit_calls(state, state.head.version.artifact) or 0)
        _check_covered(spec.caps, Amount(calls, 0, calls, calls - 1))
        return tuple(warnings)
    sizes = sizes_of(setup, tuple(largest[:heldout]))
    smallest: TaskInfo = min(setup.tasks, key=lambda task: task.size)
    size = state.head.version.size
    base = sweep_cost(state.governor, sizes, size)
    tests = scale(sweep_cost(state.governor, sizes_of(setup, tuple(largest[:test])), size), 2)
    state = replace(
        state,
        setup=replace(setup, tasks=(smallest,)),
        heldout=sizes,
        cheap=sizes_of(setup, tuple(cheap)),
    )
    path = cheapest_path(state)
    caps = spec.caps
    _check_covered(caps, add(add(base, tests), path))
    if caps.tokens is not None:
        turn = path.tokens - base.tokens
        rounds = (caps.tokens - base.tokens - tests.tokens) / (spec.n_workers * turn + base.tokens)
        if rounds < 1:
            warnings.append(
                f"max_tokens {caps.tokens} may buy only {rounds:.1f} rounds of {spec.n_workers} workers in the worst "
                "case: use fewer workers, or a higher cap"
            )
    return tuple(warnings)


def _check_covered(caps: Caps, need: Amount) -> None:
    for name, cap, needed in (
        ("max_tokens", caps.tokens, need.tokens),
        ("max_cost", caps.cost, need.cost),
        ("max_calls", caps.calls, need.calls),
        ("max_rollouts", caps.rollouts, need.rollouts),
    ):
        if cap is not None and cap < needed:
            raise UsageError(
                f"{name} is {cap}, and scoring the start and one candidate may need {needed}: raise it to that, "
                "or use fewer held-out or test tasks"
            )
