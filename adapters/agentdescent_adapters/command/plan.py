"""What a config would cost, as text and as JSON; nothing is spent, and no agent is asked."""

from __future__ import annotations

from agentdescent.budget.usage import Amount
from agentdescent.engine.state import State
from agentdescent.history.estimate import Estimate, Item, estimate
from agentdescent.record import replace
from agentdescent_adapters.command.agents import missing_key
from agentdescent_adapters.command.config import RunConfig
from agentdescent_adapters.command.job import make_job

NANO = 1_000_000_000


def make(config: RunConfig) -> tuple[Estimate, tuple[str, ...]]:
    """The estimate and the warnings of the job. Raises UsageError for whatever `run` would refuse,
    but for a key that is not there."""
    job, _ = make_job(config, asked=False)
    variable = missing_key(config)
    missing = () if variable is None else (f"the variable {variable} is not set: a run needs it",)
    return estimate(job.spec, job.setup), (*job.warnings, *missing)


def of_run(state: State) -> Estimate:
    """What was to be expected of a run, under the caps in force."""
    return estimate(replace(state.spec, caps=state.governor.caps), state.setup)


def summary(made: Estimate) -> dict[str, object]:
    """What `plan --json` prints. Dollars are null where no prices are known."""
    caps = made.caps
    return {
        "split": {"train": made.train, "heldout": made.heldout, "test": made.test},
        "ceiling": made.ceiling,
        "caps": {
            "tokens": caps.tokens,
            "dollars": None if caps.cost is None else caps.cost / NANO,
            "calls": caps.calls,
            "rollouts": caps.rollouts,
            "seconds": caps.seconds,
            "rounds": caps.rounds,
        },
        "base": _item(made, made.base),
        "path": {
            **_item(made, made.path),
            "stages": {stage.purpose: _item(made, stage.item) for stage in made.stages},
        },
        "testing": _item(made, made.testing),
        "run": expected(made),
        "candidates": {"worst": made.candidates_worst, "expected": round(made.candidates, 1)},
        "gates": round(made.gates, 1),
        "proposals": round(made.proposals, 1),
        "rounds": round(made.rounds, 1),
        "assumptions": {name: getattr(made.assumptions, name) for name in made.assumptions.__struct_fields__},
        "unknown": made.unknown,
    }


def expected(made: Estimate) -> dict[str, object]:
    """What the whole run is expected to use, and by purpose."""
    return {**_amount(made, made.total), "by_purpose": {one.purpose: one.amount.tokens for one in made.run}}


def _item(made: Estimate, item: Item) -> dict[str, object]:
    return {
        "worst": None if item.worst is None else _amount(made, item.worst),
        "expected": _amount(made, item.expected),
    }


def _amount(made: Estimate, amount: Amount) -> dict[str, object]:
    return {"tokens": amount.tokens, "dollars": amount.cost / NANO if made.priced else None, "calls": amount.calls}


def report(made: Estimate, warnings: tuple[str, ...]) -> str:
    """The same for people: a line an item, at most and as expected."""
    parts = f"{made.train:,} to train on, {made.heldout:,} held out, {made.test:,} to test on"
    lines = ["", f"tasks      {parts}", f"limits     {_limits(made)}", ""]
    lines.append(_row("", "at most", "expected", "calls"))
    lines.append(_line(made, "base", made.base))
    lines.append(_line(made, "one proposal to its verdict", made.path))
    lines += [_line(made, f"  {stage.purpose}", stage.item) for stage in made.stages]
    if made.test:
        lines.append(_line(made, "testing", made.testing))
    at_most = "not limited" if made.caps.tokens is None else f"{made.caps.tokens:,}"
    lines.append(_row("the run", at_most, _money(made, made.total), f"{made.total.calls:,}"))
    lines += [_row(f"  {one.purpose}", "", _money(made, one.amount), f"{one.amount.calls:,}") for one in made.run]
    lines += ["", f"candidates {_verdicts(made)}"]
    lines += [f"not known: {what}" for what in made.unknown]
    lines += [f"warning: {warning}" for warning in warnings]
    return "\n".join(lines)


def _limits(made: Estimate) -> str:
    caps = made.caps
    words = [
        f"{value:,} {unit}"
        for value, unit in (
            (caps.tokens, "tokens"),
            (None if caps.cost is None else caps.cost / NANO, "dollars"),
            (caps.calls, "calls"),
            (caps.rollouts, "rollouts"),
            (caps.seconds, "seconds"),
            (caps.rounds, "rounds"),
        )
        if value is not None
    ]
    kind = "a promise: every port declares a bound" if made.ceiling == "strict" else "by what was observed"
    return f"{', '.join(words)} ({made.ceiling}: {kind})"


def _verdicts(made: Estimate) -> str:
    worst = "" if made.candidates_worst is None else f"{made.candidates_worst:,} if each costs all it can; "
    return f"{worst}about {made.candidates:,.0f}, in {made.gates:,.0f} gates and {made.rounds:,.0f} rounds"


def _line(made: Estimate, name: str, item: Item) -> str:
    most = "unknown" if item.worst is None else _money(made, item.worst)
    return _row(name, most, _money(made, item.expected), f"{item.expected.calls:,}")


def _money(made: Estimate, amount: Amount) -> str:
    return f"{amount.tokens:,}" + (f" ${amount.cost / NANO:.4f}" if made.priced else "")


def _row(name: str, most: str, expected: str, calls: str) -> str:
    return f"{name:<28}{most:>22}{expected:>22}{calls:>10}".rstrip()


def short(made: Estimate) -> str:
    """One line: what was expected, for the report of a run."""
    parts = ", ".join(f"{one.purpose} {one.amount.tokens:,}" for one in made.run if one.amount.tokens)
    return f"estimated  {made.total.tokens:,} tokens before it began: {parts}"
