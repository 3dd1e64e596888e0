"""What a run of bench.faults is: a random job, and what becomes of its processes, drawn from one seed."""

from __future__ import annotations

import math
import random
from typing import Literal, TypeAlias

import msgspec

from agentdescent import AppendRules, Caps, Prices, Rate, SingleSlot, Tariff
from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import Strategy
from agentdescent.job import Options
from agentdescent.ports import Repeat
from agentdescent.record import Record, replace
from bench import agents
from bench.faulty import Mix

Trouble: TypeAlias = Literal["death", "full disk", "cancelled", "requested", "stop_when", "max_seconds", "executor", ""]
"""What becomes of a process; "" when nothing does. `cancelled`: its task is; `requested`: it is asked to settle."""
Port: TypeAlias = Literal["async", "executor"]

TROUBLES: tuple[Trouble, ...] = ("death", "death", "full disk", "cancelled", "requested", "stop_when", "max_seconds")


class Process(Record, frozen=True):
    """`at`: the operation of the log, event or submission that it ends at; `after`: the second. `raised`: the caps of
    the next process, as a factor. `closed`: whether a log that can be closed is. `kept`: the share of what was appended
    after the last sync that survives."""

    trouble: Trouble = ""
    at: int = 0
    after: float = 0.0
    raised: float = 1.0
    closed: bool = True
    kept: float = 1.0


class Plan(msgspec.Struct, frozen=True):
    """One run; the last of its `processes` goes on to the end. `options`: all but the caps."""

    seed: int
    port: Port
    mix: Mix
    tasks: int
    repeat: Repeat
    tariff: Tariff
    caps: Caps
    scorer_waits: bool
    on_disk: bool
    options: Options
    processes: tuple[Process, ...]

    @property
    def strict(self) -> bool:
        return self.tariff.solve.strict


def draw(seed: int) -> Plan:
    luck = random.Random(f"faults/{seed}")
    port: Port = "executor" if luck.random() < 0.25 else "async"
    strict = luck.random() < 0.75
    mix = Mix(
        seed,
        median=luck.choice([0.5, 2.0, 8.0]),
        sigma=luck.choice([0.4, 1.0, 1.5]),
        deadline=luck.choice([30.0, 120.0]),
        late=luck.choice([0.0, 0.02]),
        silent=luck.choice([0.0, 0.02]),
        broken=luck.choice([0.0, 0.0, 0.001]),
        over=luck.choice([0.0] * 9 + [0.002]),
        scorer_bills=luck.random() < 0.3,
    )
    workers = luck.choice([1, 2, 4, 8, 16, 32])
    endings = luck.choice([0, 1, 1, 2, 3])
    tariff = _tariff(luck, strict=strict)
    return Plan(
        seed,
        port,
        mix,
        tasks=luck.randint(10, 24),
        repeat=luck.choice(["free", "charged"]),
        tariff=tariff,
        caps=_caps(luck, workers, priced=tariff.solve.prices is not None),
        scorer_waits=port == "async" and luck.random() < 0.3,
        on_disk=luck.random() < 0.4,
        options=_options(luck, workers, seed),
        processes=(*(_process(luck, port) for _ in range(endings)), Process()),
    )


def _tariff(luck: random.Random, *, strict: bool) -> Tariff:
    """Twice what the script bills for a rollout, so that a scorer may bill as well."""
    prices = Prices(500_000, 1_500_000) if luck.random() < 0.2 else None
    if not strict:
        return Tariff(Rate(prices=prices), Rate(prices=prices), output_limit=4_096)
    solve, propose = agents.TARIFF.solve, agents.TARIFF.propose
    return Tariff(
        replace(solve, ceiling=2 * solve.ceiling, calls=2, prices=prices),
        replace(propose, prices=prices),
        output_limit=4_096,
    )


def _options(luck: random.Random, workers: int, seed: int) -> Options:
    strategies: tuple[Strategy, ...] = (AppendRules(), AppendRules(), AppendRules(blast_radius=0.5), SingleSlot())
    strategy = luck.choice(strategies)
    start: Entries = () if isinstance(strategy, SingleSlot) else luck.choice([(), agents.START])
    return Options(
        artifact=start,
        strategy=strategy,
        rounds=1,
        patience=luck.choice([None, None, 3]),
        seed=seed,
        n_workers=workers,
        heldout_share=luck.choice([0.3, 0.5]),
        test_share=luck.choice([0.0, 0.2]),
        self_verify=luck.random() < 0.8,
        screen=luck.random() < 0.3,
        staleness=luck.choice(["guarded", "full", "reflective"]),
        refresh_interval=luck.choice([1, 1, 2]),
        fusion=luck.choice(["union", "union", "none"]),
        gate_order=luck.choice(["informative", "index"]),
        curtail=luck.random() < 0.8,
        wave_min=luck.choice([1, workers, 2 * workers]),
        open_gates=luck.randint(1, 4),
        asynchronous=luck.random() < 0.6,
        merge_size=luck.choice([1, 2, max(1, workers // 2)]),
        async_ratio=luck.randint(1, 3),
        window=luck.choice([1, 2, 4, 8]),
        admission=luck.choice(["ordered", "arrival"]),
        attempts=luck.choice([1, 2, 3, 3, 3]),
        max_concurrency=luck.choice([None, max(1, workers // 2), 4 * workers]),
    )


def _caps(luck: random.Random, workers: int, *, priced: bool) -> Caps:
    tokens = luck.choice([None, 20_000, 40_000, 80_000])
    few = tokens is None or luck.random() < 0.5
    return Caps(
        tokens=tokens,
        cost=luck.choice([None, 25_000_000, 80_000_000]) if priced else None,
        calls=luck.choice([None, None, None, 200, 500]),
        rollouts=luck.choice([None, None, None, 150, 400]),
        rounds=luck.randint(1, max(2, 60 // workers)) if few else 40,
    )


def _process(luck: random.Random, port: Port) -> Process:
    troubles = (*TROUBLES, "executor", "executor") if port == "executor" else TROUBLES
    return Process(
        luck.choice(troubles),
        at=round(math.exp(luck.uniform(math.log(2), math.log(1_200)))),
        after=math.exp(luck.uniform(math.log(5), math.log(1_500))),
        raised=luck.choice([1.0, 1.0, 1.3, 2.0]),
        closed=luck.random() < 0.5,
        kept=luck.random(),
    )
