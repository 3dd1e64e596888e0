"""`agentdescent whatif`: what recorded runs say of another allocator, another cap, another gate order."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

import msgspec

from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.allocation.features import STAGES, Stage
from agentdescent.allocation.policies import AllocatorPolicy, Always, Lineage, Never, Randomly
from agentdescent.engine.event import Started
from agentdescent.engine.spec import GateOrder
from agentdescent.errors import UsageError
from agentdescent.history.whatif import StageAnswer, WhatIf, what_if
from agentdescent.history.whatif_cap import UnderCap, under_cap
from agentdescent.history.whatif_estimate import Change
from agentdescent.history.whatif_gates import GatesAgain, gates_again
from agentdescent.history.whatif_log import Target
from agentdescent.own import found_again
from agentdescent_adapters.command.economy import NAMES, make_allocator
from agentdescent_adapters.command.execution import look_for_modules
from agentdescent_adapters.disk import read_events

HELP = "what another allocator, cap or gate order would have changed in recorded runs"
WORDS = {"exact": "EXACT", "estimate": "ESTIMATE", "no-support": "NO SUPPORT"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run directories")
    parser.add_argument("--allocator", metavar="NAME", help=f"estimate this allocator: {NAMES}")
    parser.add_argument("--stages", metavar="STAGE,..", help="stages it decides (default: those that were decided)")
    parser.add_argument("--budget-start", type=float, metavar="SHARE", help="of `value`: consulted below this share")
    parser.add_argument("--cap", type=int, metavar="TOKENS", help="decide anew under this cap on tokens")
    parser.add_argument("--gate-order", choices=get_args(GateOrder), help="gates in this order")
    parser.add_argument(
        "--curtail", action=argparse.BooleanOptionalAction, default=None, help="gates with or without curtailment"
    )


def run(arguments: argparse.Namespace) -> int:
    found = report(arguments)
    if arguments.json:
        print(msgspec.json.encode(found).decode())
    else:
        print("\n".join(lines(found)))
    return 0


class Gates(msgspec.Struct, frozen=True):
    """Recorded and recomputed tokens of the gates of one run. `kind`: exact, or bounds."""

    run: str
    kind: str
    tokens: int
    tokens_low: int
    tokens_high: int
    gates: int
    exact: int
    left_out: int
    whole_run: bool


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    allocator: WhatIf | None = None
    caps: dict[str, UnderCap] = {}
    gates: tuple[Gates, ...] = ()


def report(arguments: argparse.Namespace) -> Report:
    """Raises UsageError when nothing is asked, or it cannot be answered."""
    runs: list[str] = arguments.runs
    _refuse_twice(runs)
    by_gates = arguments.gate_order is not None or arguments.curtail is not None
    if arguments.allocator is None and arguments.cap is None and not by_gates:
        raise UsageError("what if what? give --allocator, --cap, --gate-order or --[no-]curtail")
    for run in runs:
        look_for_modules(run)
    answer = None
    if arguments.allocator is not None:
        stages, staged = _stages(arguments.stages, runs), arguments.stages is not None
        target = _target(arguments.allocator, stages, arguments.budget_start, staged=staged)
        answer = what_if((read_events(run) for run in runs), target)
    elif arguments.stages is not None or arguments.budget_start is not None:
        raise UsageError("--stages and --budget-start are those of an allocator: give --allocator too")
    caps = (
        {} if arguments.cap is None else {run: under_cap(read_events(run), arguments.cap, found_again) for run in runs}
    )
    again = (
        gates_of(run, gates_again(read_events(run), order=arguments.gate_order, curtail=arguments.curtail))
        for run in (runs if by_gates else ())
    )
    return Report(answer, caps, tuple(again))


def _refuse_twice(runs: Sequence[str]) -> None:
    """A run that counts twice makes every interval too narrow."""
    seen: dict[Path, str] = {}
    for run in runs:
        place = Path(run).resolve()
        if place in seen:
            raise UsageError(f"{run} and {seen[place]} are one run: name it once")
        seen[place] = run


def _target(name: str, stages: tuple[Stage, ...], budget_start: float | None, *, staged: bool) -> Target:
    """`staged`: the stages were asked for, and are not only those of the runs."""
    found = make_allocator(name)
    if staged and not isinstance(found, ValueBudgetAllocator | Always | Never | Randomly | Lineage):
        raise UsageError(f"--stages: what {name} decides is not for this command to say: leave it out")
    if budget_start is not None:
        if not isinstance(found, ValueBudgetAllocator):
            raise UsageError(f"--budget-start is of the allocator `value`, not of {name}")
        if not 0.0 < budget_start < math.inf:
            raise UsageError(f"--budget-start is {budget_start}: it is a share above 0; above 1 means always")
        found = msgspec.structs.replace(found, budget_start=budget_start)
    match found:
        case None:
            return Always(())
        case ValueBudgetAllocator() | Always() | Never() | Randomly() | Lineage():
            return msgspec.structs.replace(found, stages=stages or found.stages)
        case AllocatorPolicy():
            return found
        case _:
            raise UsageError(f"allocator {name}: `decide` and `observe` state no probabilities; write it as a policy")


def _stages(given: str | None, runs: Sequence[str]) -> tuple[Stage, ...]:
    """Those given, else all that an allocator of these runs decided."""
    if given is not None:
        wanted = tuple(given.split(","))
        unknown = [stage for stage in wanted if stage not in STAGES]
        if unknown:
            raise UsageError(f"--stages {given}: {unknown[0]!r} is none of {', '.join(STAGES)}")
        return tuple(stage for stage in STAGES if stage in wanted)
    found: set[Stage] = set()
    for run in runs:
        first = next(iter(read_events(run)), None)
        if first is None:
            raise UsageError(f"{run}: the run has not begun: `agentdescent resume {run}` starts it")
        if isinstance(first, Started) and first.spec.allocator is not None:
            found.update(first.spec.allocator.stages)
    return tuple(stage for stage in STAGES if stage in found)


def gates_of(run: str, again: GatesAgain) -> Gates:
    low, high = sum(gate.tokens_low for gate in again.gates), sum(gate.tokens_high for gate in again.gates)
    kind = "exact" if low == high else "bounds" if again.bounded else "estimated-bounds"
    tokens = sum(gate.tokens for gate in again.gates)
    return Gates(run, kind, tokens, low, high, len(again.gates), again.exact, again.left_out, again.lasting)


def lines(found: Report) -> Iterator[str]:
    """The report as text."""
    if found.allocator is not None:
        yield from _allocator(found.allocator)
    for run, shorter in found.caps.items():
        yield from _cap(run, shorter)
    for gates in found.gates:
        yield from _gate_lines(gates)


def _allocator(found: WhatIf) -> Iterator[str]:
    decisions = sum(stage.support.n for stage in found.stages)
    unfinished = f", {found.unfinished} unfinished" if found.unfinished else ""
    yield f"{found.runs} runs{unfinished}: {decisions} decisions, {found.refused} more refused by the clock"
    yield found.note
    if not found.stages:
        yield "NO SUPPORT: these runs have no decision that an allocator could take"
    for stage in found.stages:
        yield from _stage(stage)
    if len(found.stages) > 1:
        yield "all stages together, change:"
        yield from _changes(found.total, "")


def _stage(found: StageAnswer) -> Iterator[str]:
    held, recorded = found.support, found.recorded
    untried = " (counted as if it came to nothing)" if held.unsupported else ""
    yield (
        f"{found.stage}: {held.n} decisions ({held.open} still open), {recorded.spends} spends, "
        f"the other expects {found.target_spends:.1f}; it does what was never tried in {held.unsupported:.1%}{untried}"
    )
    gain = f"gain {recorded.gain:.4f}"
    yield f"  recorded: {recorded.tokens:,} tokens, {recorded.commits} commits, {gain}; change:"
    effective = "" if held.effective is None else f", ESS {held.effective:.1f}"
    largest = "" if held.largest is None else f", largest weight {held.largest:.1f}"
    yield from _changes(found.changes, f"  n {held.n}{effective}{largest}")


def _changes(changes: Sequence[Change], support: str) -> Iterator[str]:
    told: set[tuple[str, float | None, str]] = set()
    for one in changes:
        key = one.quantity, one.value, one.reason
        if one.kind != "estimate" and key in told:
            continue
        told.add(key)
        method = one.method.upper() if one.kind == "estimate" else ""
        rests = "" if one.value is None else support
        yield f"  {one.quantity:8}{method:6}{number_of(one)}  {WORDS[one.kind]}{rests}"


def number_of(one: Change) -> str:
    if one.value is None or one.low is None or one.high is None:
        return one.reason
    value, low, high = (_signed(one.quantity, number) for number in (one.value, one.low, one.high))
    if one.kind == "exact":
        return value
    per_run = ""
    if one.per_run is not None:
        mean, least, most = (_signed(one.quantity, number) for number in one.per_run)
        per_run = f"; a run of this kind {mean} ({least} to {most})"
    return f"{value} ({low} to {high}){per_run}"


def _signed(quantity: str, number: float) -> str:
    return (
        f"{number:+,.0f}" if quantity == "tokens" else f"{number:+.2f}" if quantity == "commits" else f"{number:+.4f}"
    )


def _cap(run: str, found: UnderCap) -> Iterator[str]:
    for answer, sure in cap_answers(found):
        yield f"{run} under {found.cap:,} tokens: {answer}  {sure}"


def cap_answers(found: UnderCap) -> tuple[tuple[str, str], ...]:
    """What came of it, each with how sure it is."""
    reward = "the start never scored" if found.reward is None else f"held-out {found.reward:.4f}"
    came = f"{found.tokens:,} tokens, {found.commits} commits, {reward}"
    if found.complete:
        return ((f"{came}, ends with {found.reason}", WORDS["exact"]),)
    as_far = f"as far as event {found.events}, {came}"
    return (as_far, WORDS["exact"]), (f"beyond it: {found.beyond}", WORDS["no-support"])


def _gate_lines(found: Gates) -> Iterator[str]:
    yield f"{found.run}: {found.gates} gates, {found.exact} exact, {found.left_out} left out"
    tokens, sure = gate_answer(found)
    yield f"  tokens of gates: {tokens}  {sure}"
    yield f"  every verdict is the same  {WORDS['exact']}"
    yield f"  {gate_scope(found)}"


def gate_answer(found: Gates) -> tuple[str, str]:
    """What the gates would have cost, and how sure that is."""
    if found.kind == "exact":
        return f"recorded {found.tokens:,}, then {found.tokens_low:,}", WORDS["exact"]
    word = "EXACT bounds" if found.kind == "bounds" else "ESTIMATE: the ports declared no bound"
    return f"recorded {found.tokens:,}, then {found.tokens_low:,} to {found.tokens_high:,}", word


def gate_scope(found: Gates) -> str:
    if found.whole_run:
        return "nothing else in this run depends on it: that is the change of the whole run"
    return "what this run did with the rest of its budget depends on it: gate by gate only"
