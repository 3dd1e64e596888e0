"""What runs of peers come to, as figures. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from agentdescent.experiment import ArmResult, paired
from agentdescent.experiment.curves import reached, reward_at, tokens_to
from agentdescent.record import Record
from bench.peers.processes import Ran

Figure = float | int | bool | str | None | list[float] | Mapping[str, str]


class Resumed(Record, frozen=True):
    """A run at one seed: undisturbed, and killed once and gone on with; None where it could not go on, for `error`."""

    undisturbed: Ran
    killed: Ran | None
    error: str = ""

    @property
    def same_candidate(self) -> bool:
        return self.killed is not None and self.killed.outcome.candidate == self.undisturbed.outcome.candidate

    @property
    def identical(self) -> bool:
        return self.same_candidate and self.extra == 0

    @property
    def extra(self) -> float | None:
        """Tokens billed beyond those of the undisturbed run, as a share of them."""
        return None if self.killed is None else self.killed.billed / self.undisturbed.billed - 1


def overshoot(ran: Ran, cap: int) -> float:
    """Tokens billed beyond the cap, as a share of it."""
    return max(0, ran.billed - cap) / cap


def row(
    name: str, runs: Mapping[str, Mapping[int, Ran]], cap: int, target: float, references: Sequence[str]
) -> dict[str, Figure]:
    """The figures of a peer over its seeds. Ratios of mean tokens to the target, the peer's over the reference's."""
    mine = runs[name]
    curves = [ran.outcome.curve for ran in mine.values()]
    ratios = {reference: to_target(runs, reference, name, cap, target) for reference in references}
    first, *others = references
    return {
        "tokens_to_target_ratio": ratios[first],
        **{f"ratio_to_{reference}": ratios[reference] for reference in others},
        "reached": share([reached(curve, target, cap) for curve in curves]),
        "tokens_to_target": round(statistics.fmean(tokens_to(curve, target, cap) for curve in curves)),
        "quality": mean([ran.outcome.quality for ran in mine.values()]),
        "quality_at_cap": mean([at for curve in curves if (at := reward_at(curve, cap)) is not None]),
        "spent": mean([ran.billed / cap for ran in mine.values()]),
        "overshoot": round(max(overshoot(ran, cap) for ran in mine.values()), 4),
        "overshoot_mean": mean([overshoot(ran, cap) for ran in mine.values()]),
        "engine_ms": mean([1000 * statistics.median(r.outcome.engine_seconds / r.calls for r in mine.values())]),
        "versions": next(iter(mine.values())).outcome.versions,
    }


def to_target(
    runs: Mapping[str, Mapping[int, Ran]], reference: str, name: str, cap: int, target: float
) -> list[float] | None:
    """[lo, mid, hi] of the paired comparison: see experiment.paired, which counts what was not reached as the cap. None
    for the reference itself, or without two seeds of both."""
    if name == reference:
        return [1.0, 1.0, 1.0]
    results = [
        ArmResult(arm, seed, quality=ran.outcome.quality, tokens=ran.billed, curve=ran.outcome.curve)
        for arm in (reference, name)
        for seed, ran in runs.get(arm, {}).items()
    ]
    found = paired(results, reference, name, cap=cap, target=target).tokens_to_target_ratio
    return None if found is None else [round(value, 4) for value in (found.lo, found.mid, found.hi)]


def resumption(resumed: Sequence[Resumed], cap: int, *, reproducible: bool) -> dict[str, Figure]:
    """How runs that were killed and gone on with differ from those that nobody disturbed. `reproducible`: whether two
    undisturbed ones are the same at all."""
    ended = [one for one in resumed if one.killed is not None]
    extra = [one.extra for one in ended if one.extra is not None]
    most = max(extra, key=abs, default=0.0)
    over = [overshoot(one.killed, cap) for one in ended if one.killed is not None]
    return {
        "reproducible": reproducible,
        "resume_identical": all(one.identical for one in resumed) if resumed else None,
        "resume_same_candidate": share([one.same_candidate for one in resumed]),
        "resume_extra_tokens": round(most, 4) if extra else None,
        "resume_overshoot": round(max(over), 4) if over else None,
        "resume_error": next((one.error for one in resumed if one.error), ""),
    }


def same(one: Ran, other: Ran) -> bool:
    return (one.outcome.candidate, one.billed) == (other.outcome.candidate, other.billed)


def share(outcomes: Sequence[bool]) -> float | None:
    return mean([float(outcome) for outcome in outcomes])


def mean(values: Sequence[float]) -> float | None:
    return round(statistics.fmean(values), 4) if values else None


def unmeasured(why: str) -> dict[str, Figure]:
    """The row of a peer that could not be measured."""
    names = ("tokens_to_target_ratio", "overshoot", "engine_ms", "resume_identical", "quality", "reached")
    return {**dict.fromkeys(names), "error": why}
