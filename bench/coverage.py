"""How often the intervals of a what-if hold the truth: in scripted logs, and in logs of the engine.

A scripted log is decisions with both outcomes drawn beforehand, so that its truth is exact: two stages, 150 to 500
decisions each, in one to twelve runs, logged with probabilities from 0.1 up, by policies that look at the features or
do not. An engine log is that of eight runs in the world *clusters*, whose truth is found by forking each run at each
decision (`bench.deviation`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from agentdescent.allocation.config import ValueBudgetAllocator
from agentdescent.allocation.features import Features, Stage
from agentdescent.allocation.policies import Always, Never, Randomly
from agentdescent.engine.draw import seeded
from agentdescent.history.whatif import answered
from agentdescent.history.whatif_estimate import QUANTITIES, Change
from agentdescent.history.whatif_log import Decision, Target, decisions_of
from agentdescent.job import Options
from agentdescent.search.sampling import Stakes
from agentdescent_adapters.worlds.suite import setting
from bench.deviation import Came, recorded

RUNS, RUN_TOKENS, MAX_TOKENS = 8, 700_000, 3_000_000


class Row(NamedTuple):
    """One interval against the truth. `where`: scripted or engine; `part`: a stage, or total. `side`: 0 where it holds
    the truth, -1 where it lies below, 1 where above; None: refused."""

    where: str
    part: str
    quantity: str
    method: str
    side: int | None


def _rows(where: str, decisions: Sequence[Decision], others: Sequence[Came]) -> Iterator[Row]:
    """`others`: what each decision would have come to otherwise."""
    stages, total = answered(decisions)
    truths = [_truth(made, other) for made, other in zip(decisions, others, strict=True)]
    for part in (*stages, None):
        name = "total" if part is None else part.stage
        for one in total if part is None else part.changes:
            at = QUANTITIES.index(one.quantity)
            own = (t[at] for t, made in zip(truths, decisions, strict=True) if part is None or made.stage == name)
            if one.kind != "exact":
                yield Row(where, name, one.quantity, one.method, _side(one, math.fsum(own)))


def _truth(made: Decision, other: Came) -> tuple[float, float, float]:
    """What the target changes: (pi - mu) (Y(spend) - Y(skip))."""
    sign = (made.target - made.logged) * (1.0 if made.spent else -1.0)
    changes = made.tokens - other.tokens, made.commits - other.commits, made.gain - other.gain
    return sign * changes[0], sign * changes[1], sign * changes[2]


def _side(one: Change, truth: float) -> int | None:
    if one.low is None or one.high is None:
        return None
    return -1 if one.high < truth else 1 if one.low > truth else 0


# --- scripted ---------------------------------------------------------------------------------------------------------


def scripted(repetition: int) -> list[Row]:
    draw = seeded(repetition)
    n, runs = 150 + int(draw("n", 0) * 350), 1 + int(draw("runs", 0) * 12)
    made = [one for stage in ("verify", "gate") for one in _script(draw, stage, n, runs)]
    return list(_rows("scripted", [one for one, _ in made], [other for _, other in made]))


def _script(draw: Callable[[str, int], float], stage: Stage, n: int, runs: int) -> Iterator[tuple[Decision, Came]]:
    """A fifth to two fifths of the candidates are good; a gate costs up to 40 calls, a useless candidate's less."""
    least, rate = 0.1 + 0.4 * draw(f"{stage} least", 0), 0.2 + 0.2 * draw(f"{stage} rate", 0)
    blind = draw(f"{stage} blind", 0) < 0.5
    aim = draw(f"{stage} aim", 0)
    for i in range(n):
        u = {name: draw(f"{stage} {name}", i) for name in _NAMES}
        first, second = _normal(u["a"], u["b"]), _normal(u["c"], u["d"])
        good = u["good"] < 1.0 / (1.0 + math.exp(-(math.log(rate / (1.0 - rate)) + first)))
        spend, skip = _outcomes(stage, u, good=good)
        logged = 0.5 if blind else 1.0 - least if second + 0.5 * first > 0.0 else least
        target = 1.0 if aim < 0.3 else 0.3 if aim < 0.5 else 0.95 if first > 0.0 else 0.05
        spent = u["choice"] < logged
        came, other = (spend, skip) if spent else (skip, spend)
        x: Features = first, second
        run, number = i % runs, i // runs
        subject = number if stage == "verify" else 10_000 + number
        yield Decision(run, number, subject, stage, spent, logged, target, x, *came, number + 1), other


_NAMES = ("a", "b", "c", "d", "good", "cost", "pass", "gain", "call", "choice")


def _outcomes(stage: Stage, u: dict[str, float], *, good: bool) -> tuple[Came, Came]:
    """(spend, skip). Self-verify costs a call and keeps most useless candidates from the gate."""
    gate = Came(round(1800 * (40 if good else 10 + 30 * u["cost"])), int(good), good * (1 + int(7 * u["gain"])) / 40)
    if stage == "gate":
        return gate, Came()
    call = round(1800 * math.exp(0.4 * (u["call"] - 0.5) * 3.4))
    passes = u["pass"] < (0.8 if good else 0.1)
    return (Came(call + gate.tokens, gate.commits, gate.gain) if passes else Came(call)), gate


def _normal(u: float, v: float) -> float:
    return math.sqrt(-2.0 * math.log(max(u, 2.0**-53))) * math.cos(2.0 * math.pi * v)


# --- the engine -------------------------------------------------------------------------------------------------------


def engine(repetition: int) -> list[Row]:
    targets: tuple[Target, ...] = (
        ValueBudgetAllocator(stages=("verify", "gate"), budget_start=2.0, min_propensity=0.1),
        Always(("verify", "gate")),
        Randomly(0.4, ("gate",)),
        Never(("gate",)),
    )
    target = targets[repetition % len(targets)]
    decisions, others = list[Decision](), list[Came]()
    for run in range(RUNS):
        seed = RUNS * repetition + run
        logging = ValueBudgetAllocator(
            stages=("verify", "gate"),
            budget_start=2.0,
            min_propensity=0.25 + 0.1 * (repetition % 3),
            max_consecutive_skips=10**6,
        )
        options: Options = {
            "seed": seed,
            "n_workers": 1,
            "self_verify": True,
            "screen": True,
            "fusion": "none",
            "sampling": Stakes(),
            "max_tokens": MAX_TOKENS,
            "allocator": logging,
        }
        events, otherwise = recorded(setting("clusters", seed), options, RUN_TOKENS)
        for made in decisions_of(events, target, run).decisions:
            decisions.append(made)
            others.append(otherwise[made.number])
    return list(_rows("engine", decisions, others))


# --- summary ----------------------------------------------------------------------------------------------------------


def summary(rows: Sequence[Row], *keys: str) -> dict[str, dict[str, float]]:
    """By the named fields of a row: intervals given, their share that holds the truth, that lies below, and above;
    and the share of all that was refused."""
    groups: dict[str, list[int | None]] = {}
    for row in rows:
        groups.setdefault("/".join(str(getattr(row, key)) for key in keys), []).append(row.side)
    found = {}
    for name, sides in sorted(groups.items()):
        given = [side for side in sides if side is not None]
        n = max(1, len(given))
        found[name] = {
            "intervals": len(given),
            "coverage": round(given.count(0) / n, 4),
            "below": round(given.count(-1) / n, 4),
            "above": round(given.count(1) / n, 4),
            "refused": round(1.0 - len(given) / len(sides), 4),
        }
    return found
