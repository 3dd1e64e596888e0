"""Where the budget goes and what is kept, on the command line: every choice by its flag."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from agentdescent import CallBudget, DiminishingReturns, UsageError, ValueBudgetAllocator
from agentdescent.allocation import Always, Lineage, Never, Randomly
from agentdescent.allocation.own import Own
from agentdescent.engine.event import Committed, Started
from agentdescent.engine.spec import Spec
from agentdescent.job import THRIFTY
from agentdescent.merge.acceptance import Unpaired
from agentdescent.merge.audit import Audit
from agentdescent.search import Beam
from agentdescent_adapters.command.config import RunConfig, SelectionName
from agentdescent_adapters.command.economy import make_allocator
from agentdescent_adapters.command.job import SELECTION
from agentdescent_adapters.command.main import main
from agentdescent_adapters.disk import read_events

MODULE = """
from agentdescent import Answer, Rate, Tariff, Usage

class Half:
    budget_start = 2.0
    def probability(self, stage, features):
        return 0.5

class Stops(Half):
    stages = ("finish",)

def never_sure(task, output):
    return 0.0

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
        (("--selection", "best"), "argument --selection: invalid choice: 'best'"),
        (("--selection", "beam", "--fusion-width", "3"), "fusion_width waits for proposals on one head"),
        (("--selection", "beam", "--population", "1"), "population is 1"),
        (("--futility", "1"), "futility is 1.0"),
        (("--finish-epsilon", "1.5"), "finish_epsilon is 1.5"),
        (("--futility", "0.1", "--acceptance", "unpaired"), "leave out futility, or Unpaired()"),
        (("--oracle", "exact"), "would never be asked: set oracle_budget="),
        (("--oracle", "wise", "--oracle-budget", "9"), "no oracle 'wise': name one of exact, contains, number"),
        (("--oracle", "json:nothing", "--oracle-budget", "9"), "oracle 'json:nothing'"),
        (("--oracle-budget", "9"), "there is no oracle"),
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


def test_futility_a_tournament_and_a_population(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = command(
        *(capsys, "run", "--tasks", "messages.csv", "--out", "r", "--quiet", "--rounds", "6", "--tournament"),
        *("--futility", "0.2", "--finish-epsilon", "0.25", "--selection", "beam", "--population", "7"),
    )
    spec = started(place / "r").spec
    assert (spec.tournament, spec.futility, spec.finish_epsilon) == (True, 0.2, 0.25)
    assert (spec.selection, spec.population) == (Beam(4), 7)
    lost = found["recall_loss"]
    assert (code, sorted(lost)) == (0, ["estimate", "finished", "interval", "stopped"])
    assert 0.0 <= lost["interval"][0] <= lost["interval"][1] <= 1.0
    assert found["population"] == min(7, found["commits"] + 1) > 1
    assert found["commits"] == sum(isinstance(event, Committed) for event in read_events("r"))
    assert command(capsys, "replay", "r", "--check")[1]["identical"]
    assert main(["resume", "r", "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert f"futility: {lost['stopped']} gates stopped" in printed
    assert f"population: {found['population']} artifacts" in printed


def test_an_oracle_may_veto(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("run", "--tasks", "messages.csv", "--quiet", "--rounds", "6", "--acceptance", "unpaired")
    oracle = f"mine_{place.name}:never_sure"
    free = command(capsys, *common, "--out", "r")[1]
    code, found, _ = command(
        *(capsys, *common, "--out", "s", "--oracle", oracle, "--oracle-budget", "200", "--audit", "always"),
    )
    first = started(place / "s")
    assert (first.spec.acceptance, first.spec.audit) == (Unpaired(), Audit(blast_radius=0.0))
    assert (first.spec.oracle_budget, first.setup.oracle) == (200, oracle.replace(":", "."))
    assert (code, free["version"] > 0, found["version"]) == (0, True, 0)
    assert found["by_purpose"]["audit"] > 0
    assert command(capsys, "replay", "s", "--check")[1]["identical"]


def test_what_is_not_given_is_not_in_the_log(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ("--selection", "single-head", "--acceptance", "paired", "--audit", "doubtful", "--no-tournament")
    digests = []
    for out, flags in (("r", ()), ("s", said)):
        found = command(capsys, "run", "--tasks", "messages.csv", "--rounds", "2", "--quiet", "--out", out, *flags)[1]
        digests.append(found["digest"])
        assert (found["recall_loss"], found["population"]) == (None, None)
    assert digests[0] == digests[1]
    line = (place / "r" / "events.jsonl").read_bytes().splitlines()[0]
    assert not any(name in line for name in (b"selection", b"acceptance", b"audit", b"futility", b"population"))


def test_an_allocator_that_stops_gates_reports_what_is_lost(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"mine_{place.name}:Stops"
    common = ("--tasks", "messages.csv", "--rounds", "3", "--quiet", "--out", "r")
    lost = command(capsys, "run", *common, "--allocator", name)[1]["recall_loss"]
    assert (lost["stopped"], lost["interval"][0] <= (lost["estimate"] or 0.0) <= lost["interval"][1]) == (0, True)


@pytest.mark.parametrize("name", get_args(SelectionName))
def test_every_selection_runs(name: SelectionName, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = command(
        capsys, "run", "--tasks", "messages.csv", "--rounds", "3", "--quiet", "--out", "r", "--selection", name
    )
    assert (code, started(place / "r").spec.selection) == (0, SELECTION[name])
    assert (found["population"] is None) == (name == "single-head")


def test_thrifty_sets_what_is_not_given(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("run", "--tasks", "messages.csv", "--rounds", "1", "--quiet", "--thrifty")
    command(capsys, *common, "--out", "r")
    command(capsys, *common, "--out", "s", "--futility", "0.01", "--samples", "2")
    spec, changed = started(place / "r").spec, started(place / "s").spec
    assert {name: getattr(spec, name) for name in THRIFTY} == THRIFTY
    assert (changed.futility, changed.samples, changed.fusion_width) == (0.01, 2, THRIFTY["fusion_width"])


def test_there_is_a_flag_for_every_choice() -> None:
    """Of a run; some have the name of what they set in the Spec."""
    named = {"caps": "max_tokens", "n_workers": "workers", "schedule": "asynchronous", "target": "target_reward"}
    flags = {named.get(name, name) for name in Spec.__struct_fields__} - {"rules"}
    assert flags <= set(RunConfig.__struct_fields__)
