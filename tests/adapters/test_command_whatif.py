"""What recorded runs say of another allocator, cap or gate order, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentdescent.history.whatif import ONE_STEP
from agentdescent_adapters.command.main import main

MODULE = """
class Small:
    stages = ("gate",)
    budget_start = 2.0
    def probability(self, stage, features):
        return 0.5

class Refuses:
    stages = ("verify",)
    budget_start = 2.0
    def probability(self, stage, features):
        return 0.0

class Learns:
    def decide(self, context):
        return None
    def observe(self, context, committed):
        pass
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A directory with two runs of the rule agent, `a` and `b`, without curtailment, and a module of the user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / f"what_{tmp_path.name}.py").write_text(MODULE, encoding="utf-8")
    topics = ("refund", "parcel", "password")
    rows = [f"please help with my {topics[i % 3]} number {i},{topics[i % 3]}_help" for i in range(30)]
    (tmp_path / "messages.csv").write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    for seed, out in enumerate(("a", "b")):
        command = ["run", "--tasks", "messages.csv", "--out", out, "--rounds", "4", "--seed", str(seed), "--quiet"]
        assert main([*command, "--no-curtail", "--max-tokens", "200000"]) == 0
    capsys.readouterr()
    return tmp_path


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["whatif", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["whatif", *arguments]) == 0
    return capsys.readouterr().out


def test_another_allocator(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "a", "b", "--allocator", "never", "--stages", "gate")["allocator"]
    assert (found["runs"], found["unfinished"], found["note"]) == (2, 0, ONE_STEP)
    gate = next(stage for stage in found["stages"] if stage["stage"] == "gate")
    assert gate["recorded"]["commits"] > 0
    assert gate["support"]["unsupported"] == 0.0
    changes = {(one["quantity"], one["method"]): one for one in gate["changes"]}
    assert changes["tokens", "dr"]["kind"] == "exact"
    assert changes["tokens", "dr"]["value"] == -gate["recorded"]["tokens"]
    assert changes["commits", "ips"]["value"] == -gate["recorded"]["commits"]
    text = told(capsys, "a", "b", "--allocator", "never", "--stages", "gate")
    assert ONE_STEP in text
    assert f"tokens        {-gate['recorded']['tokens']:+,}  EXACT  n {gate['support']['n']}" in text
    refused = told(capsys, "a", "--allocator", "value", "--stages", "verify", "--budget-start", "2")
    assert "verify:" in refused


def test_what_was_never_tried_has_no_number(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("run", "--tasks", "messages.csv", "--rounds", "4", "--quiet", "--max-tokens", "3000")
    assert main([*common, "--allocator", "always", "--out", "c"]) == 0
    capsys.readouterr()
    text = told(capsys, "c", "--allocator", f"what_{place.name}:Small")
    assert "gate:" in text
    assert "NO SUPPORT" not in text  # what is skipped at a gate is known
    text = told(capsys, "c", "--allocator", "off")
    assert "+0  EXACT" in text
    never = told(capsys, "a", "--allocator", f"what_{place.name}:Refuses")
    assert "the other expects 0.0; it does what was never tried in 100.0%" in never
    assert "the log never tried 100% of what the target does (at most 10%)" in never
    assert never.count("NO SUPPORT") == 6  # of verify, and of the total


def test_another_cap(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "a", "b", "--cap", "100000000")["caps"]
    assert set(found) == {"a", "b"}
    assert found["a"]["reason"] is not None
    whole = found["a"]["tokens"]
    text = told(capsys, "a", "--cap", str(10 * whole))
    assert f"{whole:,} tokens" in text
    assert text.rstrip().endswith("EXACT")
    half = asked(capsys, "a", "--cap", str(whole // 2))["caps"]["a"]
    assert half["tokens"] <= whole // 2
    assert half["events"] < found["a"]["events"]
    assert "0 tokens, 0 commits, the start never scored, ends with max_tokens" in told(capsys, "a", "--cap", "1")


def test_gates_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = asked(capsys, "a", "--gate-order", "informative", "--curtail")["gates"]
    assert found["kind"] == "exact"
    assert found["gates"] == found["exact"] > 0
    assert found["tokens_low"] <= found["tokens"]
    text = told(capsys, "a", "b", "--curtail")
    assert text.count("every verdict is the same  EXACT") == 2
    assert "that is the change of the whole run" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a",), "what if what? give --allocator, --cap, --gate-order or --[no-]curtail"),
        (("a", "--allocator", "nobody"), "allocator 'nobody': it is one of"),
        (
            ("a", "--allocator", "never", "--stages", "gate,later"),
            "'later' is none of verify, tournament, gate, finish",
        ),
        (("a", "--allocator", "never", "--budget-start", "2"), "--budget-start is of the allocator `value`"),
        (("a", "--allocator", "off", "--stages", "gate"), "--stages: what off decides"),
        (("a", "--allocator", "{module}:Small", "--stages", "verify"), ":Small decides is not for this command to say"),
        (("a", "--allocator", "value", "--budget-start", "nan"), "--budget-start is nan: it is a share above 0"),
        (("a", "--allocator", "value", "--budget-start", "-1"), "--budget-start is -1.0: it is a share above 0"),
        (("a", "b", "../{place}/a", "--allocator", "never"), "../{place}/a and a are one run: name it once"),
        (("a", "a", "--cap", "100"), "a and a are one run"),
        (("a", "--cap", "10", "--stages", "gate"), "give --allocator too"),
        (("a", "--cap", "0"), "cap is 0"),
        (("a", "--allocator", "{module}:Learns"), "state no probabilities; write it as a policy"),
        (("nowhere", "--cap", "10"), "nowhere"),
    ],
)
def test_a_mistake_is_one_line(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    names = {"{module}": f"what_{place.name}", "{place}": place.name}
    for name, value in names.items():
        arguments, message = tuple(one.replace(name, value) for one in arguments), message.replace(name, value)
    given = list(arguments)
    assert main(["whatif", *given]) in (1, 2)
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
