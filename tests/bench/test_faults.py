"""bench.faults as a user runs it; and that it sees defects, each put where the real one could be."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentdescent import MemoryLog, Usage
from agentdescent.calls import Calls
from agentdescent.driver import Run
from agentdescent.engine import answer
from agentdescent.engine.event import Failed, Outcome
from agentdescent.inflight import Effect
from agentdescent.ports import Result
from agentdescent.record import replace
from bench import faults
from bench.fault_plan import draw
from bench.faulty import Fate
from bench.faulty_ports import AsyncAgent

TARGETS = {"violations": 0, "stuck": 0, "over_cap": 0, "lost": 0}
SEEDS = range(16)


def bench(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "bench.faults", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_few_runs(tmp_path: Path) -> None:
    code, out, err = bench("--runs", "12", "--json", "--results", str(tmp_path))
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert {name: result[name] for name in ("runs", *TARGETS)} == {"runs": 12, **TARGETS}
    assert min(result["fates"][fate] for fate in ("failed", "odd", "retry", "hang")) > 0
    assert {"death", "requested"} <= set(result["troubles"])
    assert result["processes"] > 20
    assert json.loads((tmp_path / "faults.json").read_text(encoding="utf-8"))["met"]


def test_one_seed_is_told_in_full_and_keeps_no_result(tmp_path: Path) -> None:
    code, out, err = bench("--seed", "4", "--results", str(tmp_path))
    assert (code, out, list(tmp_path.iterdir())) == (0, "", [])
    assert err == bench("--seed", "4", "--results", str(tmp_path))[2]
    assert "Plan(seed=4," in err
    assert "Ended(found=[]," in err


def trials(root: Path) -> dict[str, Any]:
    return faults.summary([faults.trial(seed, str(root)).go() for seed in SEEDS])


def found(root: Path) -> Iterator[str]:
    """Of as many runs as are asked for."""
    return (what for seed in range(100) for what in faults.trial(seed, str(root)).go().found)


def test_every_run_is_a_function_of_its_seed(tmp_path: Path) -> None:
    first, second = trials(tmp_path / "first"), trials(tmp_path / "second")
    assert first == second
    assert {name: first[name] for name in TARGETS} == TARGETS
    assert draw(1) != draw(2)


# --- defects ----------------------------------------------------------------------------------------------------------


def test_a_settlement_that_drops_the_usage_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(governor: Any, kind: Any, purpose: Any, reserved: Any, usage: Any, *rest: Any, **more: Any) -> Any:
        return real(governor, kind, purpose, reserved, usage and Usage(calls=1), *rest, **more)

    real: Callable[..., Any] = vars(answer)["settle"]
    monkeypatch.setattr(answer, "settle", settle)
    result = trials(tmp_path)
    assert result["violations"] > 100
    assert any("tokens were billed, and the log knows of" in what for what in found(tmp_path / "again"))


def test_a_driver_that_skips_the_journal_loses_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def arrive(run: Run, effect: Effect, result: Result, seconds: float, refused: int) -> None:
        run._wake()
        run._arrived[result[0].id] = result[0]
        run._keep_output(effect.decided, result[1])

    monkeypatch.setattr(Run, "_arrive", arrive)
    assert trials(tmp_path)["lost"] > 10


def test_a_log_that_forgets_its_journal_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryLog, "recall", lambda log, ids: {})
    result = trials(tmp_path)
    assert result["lost"] > 0
    assert any("is asked again" in what for what in found(tmp_path / "again"))


def test_a_run_without_deadlines_is_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Calls, "_expire", lambda calls: None)
    result = trials(tmp_path)
    assert result["stuck"] >= 8


def test_a_run_that_is_given_up_is_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def spin(agent: AsyncAgent, fate: Fate, latency: float) -> None:
        for _ in range(1_000):  # simulated time stands still
            await asyncio.sleep(0)
        one.give_up("too long")
        await asyncio.sleep(0)

    one = faults.trial(next(seed for seed in SEEDS if draw(seed).port == "async"), str(tmp_path))
    monkeypatch.setattr(AsyncAgent, "_wait", spin)
    ended = one.go()
    assert (ended.stuck, ended.found) == (1, ["stuck: Stuck: too long"])


def test_a_governor_that_lets_everything_through_is_over_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("asking", "merge_needs", "path", "scoring", "turn_decision"):
        monkeypatch.setattr(f"agentdescent.engine.{module}.fits", lambda governor, amount: True)
    assert trials(tmp_path)["over_cap"] > 0


def test_calls_after_a_stop_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "_give_up_pending", lambda run: None)
    assert any("is asked after the run was to stop" in what for what in found(tmp_path))


def test_failures_that_are_not_charged_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def arrive(run: Run, effect: Effect, result: Result, seconds: float, refused: int) -> None:
        outcome: Outcome = result[0]
        if isinstance(outcome, Failed):
            outcome = replace(outcome, usage=Usage())
        real(run, effect, (outcome, result[1]), seconds, refused)

    real: Callable[[Run, Effect, Result, float, int], None] = Run._arrive
    monkeypatch.setattr(Run, "_arrive", arrive)
    assert any("tokens were billed, and the log knows of" in what for what in found(tmp_path))
