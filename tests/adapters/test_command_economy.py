"""Where the budget goes, on the command line: allocators by name, call budgets, the economic stop, floors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentdescent import CallBudget, DiminishingReturns, UsageError, ValueBudgetAllocator
from agentdescent.allocation import Always, Lineage, Never, Randomly
from agentdescent.allocation.own import Own
from agentdescent.engine.event import Started
from agentdescent_adapters.command.economy import make_allocator
from agentdescent_adapters.command.main import main
from agentdescent_adapters.disk import read_events

MODULE = """
from agentdescent import Answer, Rate, Tariff, Usage

class Half:
    budget_start = 2.0
    def probability(self, stage, features):
        return 0.5

class Learns:
    budget_start = 2.0
    def __init__(self):
        self.told = 0
    def decide(self, context):
        from agentdescent import AllocateDecision
        return AllocateDecision(deep_eval=self.told % 2 == 0)
    def observe(self, context, committed):
        self.told += 1

class Thinker:
    name = "thinker"
    repeat = "free"
    blocking = False
    tariff = Tariff(Rate(strict=True, ceiling=4), Rate(strict=True, ceiling=512))
    def solve(self, rendered, task):
        return Answer("parcel_help" if "good" in rendered else "wrong", Usage(completion=1))
    def propose(self, rendered, task, output, score, sample, ceiling=None):
        return Answer(f"good {sample}" if sample % 3 else f"junk {sample}", Usage(completion=ceiling))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a module of the user and tasks, from which the command is started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / f"mine_{tmp_path.name}.py").write_text(MODULE, encoding="utf-8")
    topics = ("refund", "parcel", "password")
    rows = [f"please help with my {topics[i % 3]} number {i},{topics[i % 3]}_help" for i in range(30)]
    (tmp_path / "messages.csv").write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    code = main([*arguments, "--json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out.splitlines()[-1]) if printed.out else {}, printed.err


def started(run: Path) -> Started:
    first = next(iter(read_events(str(run))))
    assert isinstance(first, Started)
    return first


def test_every_choice_reaches_the_log_and_the_summary(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = f"mine_{place.name}:Thinker"
    code, found, _ = command(
        *(capsys, "run", "--tasks", "messages.csv", "--agent", agent, "--out", "r", "--quiet", "--rounds", "9"),
        *("--max-tokens", "30000", "--soft-floor", "0.4", "--hard-floor", "0.5", "--projection", "round"),
        *("--diminishing-returns", "--efficiency-floor", "0.1", "--efficiency-samples", "3"),
        *("--call-budget", "512", "--call-floor", "64", "--allocator", "random:0.5"),
    )
    assert code == 0
    spec = started(place / "r").spec
    assert (spec.soft_floor, spec.hard_floor, spec.projection) == (0.4, 0.5, "round")
    assert spec.diminishing_returns == DiminishingReturns(0.1, 3)
    assert spec.call_budget == CallBudget(512, 64)
    assert spec.allocator == Randomly(0.5)
    assert found["allocator"]["n_decisions"] > 0
    assert found["ceiling"] == "strict"
    assert command(capsys, "replay", "r", "--check")[1]["identical"]


def test_the_defaults_are_those_of_the_library(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = command(capsys, "run", "--tasks", "messages.csv", "--out", "r", "--quiet", "--rounds", "2")
    spec = started(place / "r").spec
    assert (spec.allocator, spec.call_budget, spec.diminishing_returns) == (None, None, None)
    assert (spec.soft_floor, spec.hard_floor, spec.projection) == (0.75, 0.9, "verdict")
    assert (code, found["allocator"], found["cap"], found["ceiling"], found["degraded"]) == (0, None, None, None, [])


def test_a_policy_of_one_s_own_is_found_again_by_replay(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"mine_{place.name}:Half"
    common = ("--tasks", "messages.csv", "--rounds", "6", "--quiet")
    assert command(capsys, "run", *common, "--allocator", name, "--out", "r")[0] == 0
    assert started(place / "r").spec.allocator == Own(name, budget_start=2.0)
    code, found, _ = command(capsys, "replay", "r", "--check")
    assert (code, found["identical"], found["unasked"]) == (0, True, None)
    again = command(capsys, "resume", "r", "--rounds", "8")[1]
    assert again["allocator"]["n_decisions"] > 0
    older = f"mine_{place.name}:Learns"
    assert command(capsys, "run", *common, "--allocator", older, "--out", "s")[0] == 0
    code, found, _ = command(capsys, "replay", "s", "--check")
    assert (code, found["identical"], found["unasked"]) == (0, True, f"mine_{place.name}.Learns")
    assert main(["replay", "s", "--check"]) == 0
    assert f"the allocator mine_{place.name}.Learns cannot be asked again" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("off", None),
        ("value", ValueBudgetAllocator()),
        ("always", Always()),
        ("never", Never()),
        ("lineage", Lineage()),
        ("random:0.25", Randomly(0.25)),
    ],
)
def test_allocators_by_name(name: str, made: object) -> None:
    assert make_allocator(name) == made


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--allocator", "clever"), "allocator 'clever': it is one of off, value, always"),
        (("--allocator", "random:often"), "allocator 'random:often': the rate is a number from 0 to 1"),
        (("--allocator", "random:2"), "the rate is 2.0: it must be a probability"),
        (("--allocator", "json:loads"), "it needs `probability(stage, features)`"),
        (("--allocator", "no_such_module:x"), "importing no_such_module failed"),
        (("--call-floor", "3"), "call_floor is 3, and there is no call_budget"),
        (("--call-budget", "64"), "does not take `ceiling`"),
        (("--diminishing-returns",), "needs a token cap"),
        (("--projection", "round"), "no token cap says what has to fit"),
        (("--soft-floor", "2"), "soft_floor is 2.0"),
    ],
)
def test_what_is_impossible_is_one_line(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, _, said = command(capsys, "run", "--tasks", "messages.csv", *arguments)
    assert code == 2
    assert message in said
    assert "Traceback" not in said


def test_what_cannot_be_made_is_named() -> None:
    with pytest.raises(UsageError, match="it cannot be made without arguments"):
        make_allocator("tests.own_allocators:Rated")
