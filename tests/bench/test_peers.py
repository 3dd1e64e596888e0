"""The world of bench.peers is the world of our simulation; its drivers spend what is billed; its figures can be bad."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent import AppendRules, Task, evolve
from agentdescent.artifact.strategy import render
from agentdescent.job import Options
from agentdescent.record import replace
from agentdescent_adapters.comparison.workloads import Bounded
from agentdescent_adapters.worlds.suite import setting
from bench.peers import __main__ as peers
from bench.peers import environments, measures, processes, run_gepa, run_public
from bench.peers.driving import Plan, outcome
from bench.peers.environments import OURS, PINS, NoEnvironment, Peer
from bench.peers.measures import Resumed
from bench.peers.processes import Outcome, PeerFailed, Ran, billed, killed, perform
from bench.peers.world import MEAN_SOLVE, MOST_PROPOSE, MOST_SOLVE, World, rules_of, text_of

CAP = 400_000
OUR_OWN = Peer(OURS, "bench.peers.run_ours")
CROWDED = text_of(["mend 0 for train-0 (1)", "stir 2 for train-1 (2)", "mend 1 for train-2 (33)"])


@given(st.integers(0, 10_000), st.lists(st.tuples(st.integers(0, 199), st.integers(0, 9)), max_size=6))
@settings(max_examples=60, deadline=None)
def test_the_world_is_that_of_the_simulation(seed: int, asked: list[tuple[int, int]]) -> None:
    made, world = setting("clusters", seed), World(seed)
    theirs = Bounded(made.agent)
    cases = {case.id: case for case in (*world.heldout, *world.train)}
    assert [(task.id, task.prompt, task.cluster) for task in made.tasks] == [
        (case.id, case.prompt, str(case.cluster)) for case in cases.values()
    ]
    tasks, rules = {task.id: task for task in made.tasks}, list[str]()
    for number, sample in asked:
        text, train = text_of(rules), f"train-{number}"
        reply = theirs.propose(text, tasks[train], "wrong", 0.0, sample)
        assert reply.usage is not None
        assert tuple(world.propose(text, train, sample)) == (reply.value, reply.usage.prompt)
        rules += [reply.value] if reply.value not in rules else []
        assert world.quality(text_of(rules)) == made.agent.quality(text_of(rules))
        for id in (train, "held-0", "held-39", "train-1999"):
            answer = theirs.solve(text_of(rules), tasks[id])
            assert answer.usage is not None
            assert tuple(world.solve(text_of(rules), id)) == (answer.value, answer.usage.prompt)


def test_a_text_is_its_rules() -> None:
    assert render(AppendRules(), tuple((str(i), rule) for i, rule in enumerate(rules_of(CROWDED)))) == CROWDED
    other = f"Rules:\n(empty)\n{CROWDED}\n- be good\n"
    assert rules_of(other) == rules_of(CROWDED)
    world = World(3)
    assert [world.solve(other, f"held-{i}") for i in range(40)] == [
        world.solve(CROWDED, f"held-{i}") for i in range(40)
    ]
    assert world.tokens == 2 * sum(World(3).solve(CROWDED, f"held-{i}").tokens for i in range(40))


def test_the_mean_price_is_what_a_user_would_find() -> None:
    worlds = [World(seed) for seed in range(20)]
    prices = [world.solve("", f"train-{i}").tokens for world in worlds for i in range(200)]
    assert sum(prices) / len(prices) == pytest.approx(MEAN_SOLVE, rel=0.02)
    assert max(prices) == MOST_SOLVE
    assert max(world.propose("", f"train-{i}").tokens for world in worlds for i in range(200)) == MOST_PROPOSE


def in_process(seed: int, **more: Any) -> tuple[str, int]:
    """Text and tokens of `evolve` in the world of the simulation."""
    made = setting("clusters", seed)
    given: Options = {**made.options, "agent": Bounded(made.agent), "seed": seed, "max_tokens": CAP, "rounds": None}
    result = evolve(made.tasks, made.scorer, **{**given, **more})
    return result.rendered, result.spend.total.tokens


@pytest.mark.parametrize(("variant", "more"), [("", {}), ("thrifty", {"thrifty": True})])
def test_our_own_in_a_process(variant: str, more: dict[str, Any], tmp_path: Path) -> None:
    ran = perform(OUR_OWN._replace(variant=variant), 1, CAP, tmp_path / "run")
    assert (ran.outcome.candidate, ran.billed) == in_process(1, **more)
    assert 0 < ran.billed <= CAP
    assert ran.outcome.curve[0] == (76_815, 0.3)
    assert ran.outcome.curve[-1][1] == ran.outcome.quality == World(1).quality(ran.outcome.candidate)
    assert ran.outcome.engine_seconds > 0


def test_our_own_goes_on_exactly(tmp_path: Path) -> None:
    whole = perform(OUR_OWN, 2, CAP, tmp_path / "whole")
    parts = killed(OUR_OWN, 2, CAP, tmp_path / "parts", whole.calls // 2)
    found = measures.resumption([Resumed(whole, parts)], CAP, reproducible=True)
    assert (found["resume_identical"], found["resume_extra_tokens"], found["resume_overshoot"]) == (True, 0.0, 0.0)
    with pytest.raises(PeerFailed, match=r"to be killed after 10000 calls: exit code 0"):
        killed(OUR_OWN, 2, CAP, tmp_path / "short", 10_000)


GREEDY = """
from bench.peers.driving import Plan, drive
from bench.peers.world import HELDOUT, World


def search(plan: Plan, world: World) -> str:
    while world.tokens < plan.cap:
        for case in world.heldout:
            world.solve("", case.id)
    return "# Playbook"


if __name__ == "__main__":
    drive(search)
"""


@pytest.fixture
def greedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peer:
    """A peer that looks at its cap once in forty calls, and has no way to go on."""
    (tmp_path / "greedy.py").write_text(GREEDY, encoding="utf-8")
    launch = f"import sys; sys.path.append({str(tmp_path)!r}); {processes.LAUNCH}"
    monkeypatch.setattr(processes, "LAUNCH", launch)
    return Peer(OURS, "greedy")


def test_a_peer_that_overspends_is_seen_to(greedy: Peer, tmp_path: Path) -> None:
    runs = {seed: perform(greedy, seed, 100_000, tmp_path / f"{seed}") for seed in range(3)}
    found = measures.row("greedy", {"greedy": runs}, 100_000, 0.9, ["greedy"])
    assert found["overshoot"] == max(round(ran.billed / 100_000 - 1, 4) for ran in runs.values())
    assert isinstance(found["overshoot"], float)
    assert found["overshoot"] > 0.3
    assert (found["reached"], found["tokens_to_target"]) == (0.0, 100_000)
    broken = killed(greedy, 0, 100_000, tmp_path / "killed", 30)
    resumed = measures.resumption([Resumed(runs[0], broken)], 100_000, reproducible=True)
    assert (resumed["resume_identical"], resumed["resume_same_candidate"]) == (False, 1.0)
    assert resumed["resume_extra_tokens"] == round(broken.billed / runs[0].billed - 1, 4) > 0


def test_the_whole_bench_and_that_it_can_fail(
    greedy: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(*_: object) -> None:
        raise OSError("no index")

    monkeypatch.setattr(environments, "_make", nothing)
    monkeypatch.setattr(environments, "KEPT", tmp_path / "none")
    monkeypatch.setattr(peers, "interpreter", lambda name: environments.interpreter(name, tmp_path / "none"))
    monkeypatch.setitem(environments.PEERS, "greedy", greedy)
    monkeypatch.setitem(environments.PEERS, "absent", Peer("gepa", "bench.peers.run_gepa"))
    arguments = ["--json", "--seeds", "2", "--resumes", "1", "--cap", str(CAP), "--results", str(tmp_path)]
    scratch = ["--scratch", str(tmp_path)]
    assert peers.main([*arguments, *scratch, "--peers", "agentdescent", "greedy"]) == 0
    found = json.loads(capsys.readouterr().out)["peers"]
    assert found["agentdescent"]["tokens_to_target_ratio"] == [1.0, 1.0, 1.0]
    assert (found["agentdescent"]["overshoot"], found["agentdescent"]["resume_identical"]) == (0.0, True)
    assert (found["greedy"]["resume_identical"], found["greedy"]["reproducible"]) == (False, True)
    kept = json.loads((tmp_path / "peers.json").read_text(encoding="utf-8"))
    assert [row["peer"] for row in kept["rows"]] == ["agentdescent", "greedy"]

    assert peers.main([*arguments, *scratch, "--peers", "agentdescent", "absent"]) == 1
    said = capsys.readouterr()
    absent = json.loads(said.out)["peers"]["absent"]
    assert absent["tokens_to_target_ratio"] is absent["overshoot"] is absent["engine_ms"] is None
    assert "gepa==0.1.4 could not be installed" in absent["error"]
    assert "absent was not measured" in said.err


def ran(candidate: str, billed: int, *curve: tuple[int, float]) -> Ran:
    return Ran(Outcome(candidate, curve[-1][1], curve, 10, billed, 0.05, {}), billed, 10)


def test_figures() -> None:
    ours = {0: ran("a", 900, (10, 0.1), (200, 0.7)), 1: ran("b", 950, (10, 0.1), (400, 0.8))}
    theirs = {0: ran("a", 1_100, (10, 0.1), (600, 0.7)), 1: ran("b", 1_300, (10, 0.1), (1_200, 0.9))}
    found = measures.row("theirs", {"ours": ours, "theirs": theirs}, 1_000, 0.6, ["ours"])
    ratio = found.pop("tokens_to_target_ratio")
    assert isinstance(ratio, list)
    assert ratio[1] == round((600 + 1_000) / (200 + 400), 4)  # the second is reached beyond the cap: censored
    assert found == {
        "reached": 0.5,
        "tokens_to_target": 800,
        "quality": 0.8,
        "quality_at_cap": 0.4,
        "spent": 1.2,
        "overshoot": 0.3,
        "overshoot_mean": 0.2,
        "engine_ms": 5.0,
        "versions": {},
    }


def test_a_resumption_is_identical_in_text_and_tokens() -> None:
    whole = ran("a", 1_000, (10, 0.5))
    cases = [
        (ran("a", 1_000, (10, 0.5)), True),
        (ran("a", 1_001, (10, 0.5)), False),
        (ran("b", 1_000, (10, 0.5)), False),
    ]
    for other, identical in cases:
        assert Resumed(whole, other).identical is identical
    gone = measures.resumption([Resumed(whole, cases[0][0]), Resumed(whole, None, "it fell")], 900, reproducible=True)
    assert (gone["resume_identical"], gone["resume_error"], gone["resume_overshoot"]) == (False, "it fell", 0.1111)
    assert measures.resumption([], 900, reproducible=True)["resume_identical"] is None


def test_an_environment_is_made_once_and_anew_for_another_pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str]()

    def make(home: Path, python: Path, pin: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        made.append(pin)

    monkeypatch.setattr(environments, "_make", make)
    assert environments.interpreter(OURS) == sys.executable
    for _ in range(2):
        assert environments.interpreter("gepa", tmp_path) == str(tmp_path / "gepa" / "bin" / "python")
    (tmp_path / "gepa" / "ready").write_text("gepa==0.0", encoding="utf-8")
    environments.interpreter("gepa", tmp_path)
    assert made == [PINS["gepa"], PINS["gepa"]]

    def fail(*_: object) -> None:
        raise OSError("no index")

    monkeypatch.setattr(environments, "_make", fail)
    with pytest.raises(NoEnvironment, match=r"agentdescent==0\.7\.0 could not be installed .*: no index"):
        environments.interpreter("public", tmp_path)
    assert not (tmp_path / "public" / "ready").exists()


def test_what_was_counted_is_what_was_billed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bills = tmp_path / "bills"
    bills.write_text("100 1\n20 2\n", encoding="ascii")
    assert billed(bills) == (120, 2)
    monkeypatch.setattr(processes, "_ended", lambda peer, plan: replace(ran("a", 5, (1, 0.5)), calls=9))
    with pytest.raises(PeerFailed, match="billed"):
        perform(OUR_OWN, 0, CAP, tmp_path / "run")


@pytest.mark.parametrize("said", ["", "a farewell\n"])
def test_a_peer_that_ends_without_an_outcome_is_named(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_process", lambda peer, plan: subprocess.CompletedProcess([], 0, said, ""))
    with pytest.raises(PeerFailed, match=r"run_ours, seed 3: no outcome on its last line"):
        perform(OUR_OWN, 3, CAP, tmp_path / "run")


@pytest.mark.parametrize("variant", ["", "tuned"])
def test_the_driver_of_gepa(variant: str, tmp_path: Path) -> None:
    found = outcome(run_gepa.search, Plan(0, CAP, str(tmp_path / "run"), str(tmp_path / "bills"), variant), "gepa")
    tokens, calls = billed(tmp_path / "bills")
    assert (found["tokens"], found["calls"]) == (tokens, calls)
    assert tokens > CAP
    assert rules_of(str(found["candidate"]))
    assert found["quality"] == World(0).quality(str(found["candidate"]))


def test_the_driver_of_the_public_package_keeps_its_cap_across_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for as much of its interface as the driver calls: a round of one rollout and one proposal."""
    asked, charged = list[dict[str, Any]](), list[int]()

    def stand_in(tasks: list[Task], reward: Callable[[Task, str], float], **options: Any) -> SimpleNamespace:
        asked.append({**options, "heldout": tasks[2_000:]})
        output = options["run"]("# Playbook", tasks[0])
        rule = options["propose"]("# Playbook", tasks[0], output, reward(tasks[0], output))
        kept = SimpleNamespace(committed_version=2, accepted=SimpleNamespace(ops={"r1": rule}))
        dropped = SimpleNamespace(committed_version=None, accepted=None)
        options["on_reports"]([kept, dropped])
        return SimpleNamespace(error=None, rendered=f"# Playbook\n- {rule}")

    public = SimpleNamespace(
        evolve=stand_in,
        Task=Task,
        Usage=lambda: SimpleNamespace(add_tokens=lambda prompt_tokens: charged.append(prompt_tokens)),
        AppendRules=lambda: SimpleNamespace(render=lambda state: text_of(state.values())),
    )
    monkeypatch.setattr("bench.peers.run_public.importlib.import_module", lambda name: public)
    plan = Plan(0, CAP, str(tmp_path / "run"), str(tmp_path / "bills"))
    found = [outcome(run_public.search, plan) for _ in range(2)]
    assert [one["tokens"] for one in found] == [sum(charged[:2]), sum(charged[2:])]
    assert [options["max_tokens"] for options in asked] == [CAP, CAP - sum(charged[:2])]
    assert found[0]["curve"] == [(sum(charged[:2]), World(0).quality(str(found[0]["candidate"])))]
    assert [task.id for task in asked[0]["heldout"]] == [case.id for case in World(0).heldout]
    assert asked[0]["held_out_frac"] * 2_040 == pytest.approx(40)
