"""Records golden logs, each once: `python -m tests.golden.record` adds those that are not there yet. A log that is
there is never written again.

A change of meaning makes them diverge: it increments `rules`, and old logs replay under the rules they name. So a new
meaning gets new scenarios under new names, and what is recorded here stays for ever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from agentdescent import Caps, Prices, Rate, Tariff
from agentdescent.budget.governor import Purpose
from agentdescent.engine.event import Amended, Committed, Decided, Event, Failed, GateOpened, Interrupted, Judged
from agentdescent.engine.state import State
from agentdescent.record import Record, replace
from tests.golden.spends import SPENDING, Spending
from tests.world import MENU, START, Kind, World, abandon, any_order, final_digest, jobs, lines, play

HERE = Path(__file__).resolve().parent
DIGESTS = HERE / "digests.json"
LIMIT = 60_000
SMALL: tuple[Kind, ...] = tuple(kind for kind in MENU if kind != "big")


class Golden(Record, frozen=True):
    """What a recorded log must replay to. `diverges`: the number of the event at which it must not."""

    name: str
    events: int
    digest: str
    diverges: int | None = None


class Recorded(NamedTuple):
    log: list[Event]
    diverges: int | None = None


def outcomes_of(log: list[Event]) -> set[str]:
    return {event.outcome for event in log if isinstance(event, Judged)}


def purposes_of(log: list[Event]) -> set[str]:
    return {getattr(event.command, "purpose", "propose") for event in log if isinstance(event, Decided)}


# --- scenarios --------------------------------------------------------------------------------------------------------


def plain() -> Recorded:
    spec, setup = jobs(10, workers=2)
    _, log = play(replace(spec, caps=Caps(rounds=3)), setup, World(seed=27, menu=SMALL))
    assert {"committed"} <= outcomes_of(log)
    return Recorded(log)


def capped() -> Recorded:
    spec, setup = jobs(10, workers=3)
    spec = replace(spec, caps=Caps(tokens=3_000, calls=60), hard_floor=0.7)
    _, log = play(spec, setup, World(seed=43, exact=0.6, menu=SMALL))
    assert getattr(log[-1], "reason", "") == "max_tokens"
    assert any(type(event).__name__ == "Skipped" for event in log)
    return Recorded(log)


def failing() -> Recorded:
    spec, setup = jobs(10, workers=2)
    spec = replace(spec, caps=Caps(tokens=12_000, rounds=3), attempts=2)
    at: tuple[tuple[Purpose, float], ...] = (("propose", 0.4), ("verify", 0.4), ("gate", 0.2))
    _, log = play(spec, setup, World(seed=46, menu=SMALL, failing_at=at, silent=0.1))
    assert {"failed", "committed"} <= outcomes_of(log)
    assert sum(isinstance(event, Failed) for event in log) > 5
    return Recorded(log)


def fused() -> Recorded:
    spec, setup = jobs(12, workers=4)
    _, log = play(replace(spec, caps=Caps(rounds=2)), setup, World(seed=12, menu=("good", "bad", "good", "pair")))
    split = [event for event in log if isinstance(event, Judged) and getattr(event.evidence, "split", False)]
    assert split
    assert any(event.contributors and event.outcome == "committed" for event in log if isinstance(event, Judged))
    return Recorded(log)


def stale() -> Recorded:
    spec, setup = jobs(10, workers=3)
    spec = replace(spec, caps=Caps(rounds=4), refresh_interval=2, cheap_size=2)
    world = World(seed=19, menu=("good", "clash", "clash", "good"), grain=250_000)
    _, log = play(spec, replace(setup, artifact=START), world)
    assert {"rebase", "conflict"} <= purposes_of(log)
    assert {"lost-conflict", "all-stale"} <= outcomes_of(log)
    return Recorded(log)


def tested() -> Recorded:
    """With a test part, orphans, an interruption in the middle and another start after the end."""
    spec, setup = jobs(12, workers=2)

    def trouble(state: State, number: int) -> Event | None:
        if number in (20, 45):
            return Interrupted("cancelled")
        if state.stopped is not None:
            return Amended(Caps(tokens=20_000, rounds=state.round + 1)) if number < 90 else None
        return abandon(state, 1, number) if number in (12, 30) else None

    _, log = play(
        replace(spec, caps=Caps(tokens=10_000, rounds=3), test_share=0.2),
        setup,
        World(seed=10, menu=SMALL),
        meddle=trouble,
    )
    assert {"test"} <= purposes_of(log)
    assert sum(isinstance(event, Amended) for event in log) >= 2
    return Recorded(log)


def gates() -> Recorded:
    spec, setup = jobs(12, workers=5)
    spec = replace(spec, caps=Caps(rounds=2), open_gates=3, fusion="none", admission="arrival", screen=True)
    _, log = play(spec, setup, World(seed=22, menu=("good", "good", "meh")), order=any_order(3))
    opened = [event.subject for event in log if isinstance(event, GateOpened)]
    assert len(set(opened)) < len(opened)
    return Recorded(log)


def observed() -> Recorded:
    """Nothing is known of what calls cost, but their prices."""
    spec, setup = jobs(10, workers=2)
    prices = Prices(prompt=1_000_000, completion=4_000_000, cached=100_000)
    setup = replace(setup, tariff=Tariff(Rate(prices=prices), Rate(prices=prices)))
    _, log = play(
        replace(spec, caps=Caps(tokens=6_000, cost=30_000_000, rounds=3)), setup, World(seed=27, silent=0.1, menu=SMALL)
    )
    assert any(isinstance(event, Committed) for event in log)
    return Recorded(log)


def edited_verdict() -> Recorded:
    """Edited by hand and chained anew: a rejected candidate is said to have been worse than it was."""
    log = plain().log
    number = next(n for n, event in enumerate(log) if isinstance(event, Judged) and event.outcome == "below-threshold")
    verdict = log[number]
    assert isinstance(verdict, Judged)
    return Recorded([*log[:number], replace(verdict, outcome="regression"), *log[number + 1 :]], number)


def edited_reservation() -> Recorded:
    """Edited by hand and chained anew: a call that reserved a token less than its worst case."""
    log = capped().log
    number = [n for n, event in enumerate(log) if isinstance(event, Decided)][17]
    decided = log[number]
    assert isinstance(decided, Decided)
    command = decided.command
    less = replace(command, reserve=replace(command.reserve, tokens=command.reserve.tokens - 1))
    return Recorded([*log[:number], replace(decided, command=less), *log[number + 1 :]], number)


def spending(one: Spending) -> Callable[[], Recorded]:
    def make() -> Recorded:
        log = one.make()
        one.shows(log)
        return Recorded(log)

    return make


SCENARIOS: dict[str, Callable[[], Recorded]] = {
    "plain": plain,
    "capped": capped,
    "failing": failing,
    "fused": fused,
    "stale": stale,
    "tested": tested,
    "gates": gates,
    "observed": observed,
    "edited-verdict": edited_verdict,
    "edited-reservation": edited_reservation,
    **{name: spending(one) for name, one in SPENDING.items()},
}


def recorded() -> list[Golden]:
    return msgspec.json.decode(DIGESTS.read_bytes(), type=list[Golden]) if DIGESTS.exists() else []


def main() -> int:
    before = recorded()
    known = {golden.name for golden in before}
    new = [name for name in SCENARIOS if name not in known]
    stray = [name for name in new if (HERE / f"{name}.jsonl").exists()]
    if stray or not new:
        print(f"in the way, and never written again: {stray}" if stray else "every scenario is recorded already")
        return 1
    added = []
    for name in new:
        log, diverges = SCENARIOS[name]()
        data = lines(log)
        assert len(data) < LIMIT, (name, len(data))
        with (HERE / f"{name}.jsonl").open("xb") as file:
            file.write(data)
        added.append(Golden(name, len(log), final_digest(log), diverges))
        print(f"{name}: {len(log)} events, {len(data)} bytes")
    DIGESTS.write_bytes(msgspec.json.format(msgspec.json.encode([*before, *added]), indent=1) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
