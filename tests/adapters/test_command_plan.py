"""`init`, `plan` and `run` one after the other, and agents that are models, which nobody asks anything here."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from agentdescent.budget.tariff import Prices
from agentdescent.errors import UsageError
from agentdescent_adapters.command import template
from agentdescent_adapters.command.agents import make_agent
from agentdescent_adapters.command.config import RunConfig
from agentdescent_adapters.command.config_file import parse
from agentdescent_adapters.command.job import load_tasks
from agentdescent_adapters.command.main import main
from agentdescent_adapters.command.sections import SECTIONS
from agentdescent_adapters.demo import demo_tasks
from agentdescent_adapters.llm import LLMAgent

LOCAL = "http://127.0.0.1:9/v1"
MODEL = ("--agent", "openai", "--model", "gpt-4o-mini", "--tasks", "demo", "--max-tokens", "90000000")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a directory of its own, without keys in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    code = main([*arguments, "--json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out.splitlines()[-1]) if printed.out else {}, printed.err


def test_init_plan_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "init", "demo.toml")[:2] == (0, {"file": "demo.toml"})
    code, planned, _ = command(capsys, "plan", "demo.toml")
    assert (code, planned["split"], planned["ceiling"]) == (0, {"train": 85, "heldout": 97, "test": 60}, "strict")
    assert (planned["caps"]["tokens"], planned["caps"]["rounds"]) == (250_000, 60)
    assert list(planned["path"]["stages"]) == ["rollout", "propose", "verify", "gate"]
    for unit in ("tokens", "calls"):
        assert (
            sum(stage["worst"][unit] for stage in planned["path"]["stages"].values()) == planned["path"]["worst"][unit]
        )
    assert sum(planned["run"]["by_purpose"].values()) == planned["run"]["tokens"] <= 250_000
    assert 0 < planned["candidates"]["worst"] <= planned["candidates"]["expected"] <= planned["proposals"]
    assert (planned["warnings"], planned["unknown"], planned["run"]["dollars"]) == ([], [], None)
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["demo.toml"]
    code, ended, _ = command(capsys, "run", "demo.toml", "--quiet")
    assert (code, ended["run"], ended["cap"]) == (0, "runs/demo-1", 250_000)
    assert ended["estimate"] == planned["run"]
    base = ended["by_purpose"]["base"]
    assert planned["base"]["worst"]["tokens"] >= base
    assert abs(planned["base"]["expected"]["tokens"] - base) <= 0.05 * base
    assert main(["plan", "demo.toml", "--rounds", "2"]) == 0
    shown = capsys.readouterr().out
    assert "250,000 tokens, 2 rounds (strict" in shown
    assert main(["resume", "runs/demo-1", "--quiet"]) == 0
    assert f"estimated  {planned['run']['tokens']:,} tokens before it began: base" in capsys.readouterr().out


def test_init_overwrites_only_by_force(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text("mine", encoding="utf-8")
    code, _, said = command(capsys, "init", "mine.toml")
    assert (code, "say --force to overwrite it" in said) == (2, True)
    assert Path("mine.toml").read_text(encoding="utf-8") == "mine"
    assert main(["init", "mine.toml", "--force"]) == 0
    assert "agentdescent plan mine.toml" in capsys.readouterr().out
    assert Path("mine.toml").read_text(encoding="utf-8") == template.text("mine.toml")
    for name, why in (("mine.txt", "ends in .toml"), ("nowhere/a.toml", "cannot be written")):
        code, _, said = command(capsys, "init", name)
        assert (code, why in said) == (2, True)


def test_every_line_of_a_new_config_is_one_that_may_be_said() -> None:
    lines = template.text("demo.toml").splitlines()
    section, examples = "", 0
    for line in lines:
        section = line if line.startswith("[") else section
        if line.startswith("#: "):
            examples += 1
            assert len(parse(f"{section}\n{line[3:]}", "demo.toml")) == 1
    assert examples > 20
    assert set(tomllib.loads("\n".join(lines))) == set(SECTIONS)


def test_a_run_goes_where_the_config_says(capsys: pytest.CaptureFixture[str]) -> None:
    Path("deep").mkdir()
    Path("deep/c.toml").write_text(
        '[tasks]\nfile = "demo"\n[budget]\nrounds = 1\n[output]\nrun = "r"\n', encoding="utf-8"
    )
    assert command(capsys, "run", "deep/c.toml", "--quiet")[1]["run"] == "deep/r"
    assert command(capsys, "run", "deep/c.toml", "--quiet", "--out", "s")[1]["run"] == "s"
    assert json.loads(Path("s/job.json").read_text(encoding="utf-8"))["out"] is None


MISTAKES = [
    (
        ("--agent", "opena1"),
        "agent 'opena1': it is rules, openai, anthropic, or an object as module:object: did you mean",
    ),
    (("--agent", "openai"), "no model is named: set model"),
    (("--model", "x"), "model is given, and agent 'rules' is no model of this command"),
    (("--agent", "json:loads", "--price-prompt", "1"), "price_prompt is given, and agent 'json:loads'"),
    (("--agent", "openai", "--model", "x"), "no key: the variable OPENAI_API_KEY is not set"),
    (("--agent", "anthropic", "--model", "x"), "no key: the variable ANTHROPIC_API_KEY is not set"),
    (("--agent", "openai", "--model", "x", "--api-key-env", "MY_KEY", "--base-url", LOCAL), "MY_KEY is not set"),
]
OF_A_MODEL = [
    (("--max-cost", "1"), "no price of 'x' is known: give price_prompt and price_completion"),
    (("--price-prompt", "1"), "price_completion is missing"),
    (("--price-cached", "1"), "price_prompt is missing"),
    (("--price-prompt", "-1", "--price-completion", "1"), "price prompt is -1.0"),
    (("--temperature", "hot"), "temperature"),
    (("--temperature", "-1"), "temperature is -1.0"),
    (("--solve-ceiling", "0"), "solve_ceiling is 0"),
    (("--bytes-per-token", "3"), "bytes_per_token is 3, and nothing counts the tokens"),
    (("--overhead", "-1"), "overhead is -1"),
    (("--proposer", "operator"), "it is model, operators, or an object as module:object: did you mean 'operators'?"),
    (
        ("--proposer", "operators", "--propose-ceiling", "9"),
        "propose_ceiling is given, but the proposer calls no model",
    ),
    (("--proposer", "nowhere:x"), "proposer 'nowhere:x': importing nowhere failed"),
    (("--solve-template", "absent.txt"), "solve_template absent.txt: cannot be read"),
    (("--solve-template", "empty.txt"), "the solve template has no {artifact}"),
    (("--cache", "empty.d"), "check the path of the cache"),
    (("--base-url", "ftp://x"), "base_url is 'ftp://x': give one like https://host/v1"),
    (("--base-url", "http://[::1"), "base_url is no address"),
]


def test_a_mistake_is_told_before_anything_is_spent(capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty.txt").write_text("", encoding="utf-8")
    Path("empty.d").mkdir()
    model = ("--agent", "openai", "--model", "x", "--base-url", LOCAL)
    rows = [*MISTAKES, *((("--rounds", "1", *model, *flags), message) for flags, message in OF_A_MODEL)]
    for flags, message in rows:
        code, _, said = command(capsys, "run", "--tasks", "demo", *flags)
        assert (code, len(said.splitlines()), message in said) == (2, 1, True), (flags, said)
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["empty.d", "empty.txt"]


@pytest.mark.parametrize(
    "flags",
    [
        ("--api-key-env", "sk-secret-1"),
        ("--base-url", "https://me:sk-secret-1@host/v1"),
        ("--base-url", "https://host/v1?key=sk-secret-1"),
    ],
)
def test_a_credential_in_the_wrong_place_is_refused_and_not_repeated(
    flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("run", "plan"):
        code, _, said = command(capsys, verb, *MODEL, *flags)
        assert (code, len(said.splitlines()), "secret" in said) == (2, 1, False)


def test_the_key_is_nowhere_in_a_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A server that is not there: the run ends, and what it leaves behind does not hold the key."""
    monkeypatch.setenv("MY_KEY", "sk-secret-1")
    flags = (*MODEL, "--base-url", LOCAL, "--api-key-env", "MY_KEY", "--out", "r", "--quiet", "--deadline", "2")
    code, _, said = command(capsys, "run", *flags)
    assert (code, "secret" in said) == (1, False)
    written = b"".join(path.read_bytes() for path in Path("r").rglob("*") if path.is_file())
    assert b"MY_KEY" in written
    assert b"secret" not in written


def test_a_plan_needs_no_key_and_asks_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    code, planned, _ = command(
        capsys, "plan", *MODEL, "--max-cost", "2", "--cache", "c.sqlite", "--solve-ceiling", "32"
    )
    assert (code, planned["warnings"]) == (0, ["the variable OPENAI_API_KEY is not set: a run needs it"])
    stages = planned["path"]["stages"]
    assert 0 < stages["gate"]["expected"]["dollars"] < stages["gate"]["worst"]["dollars"]
    assert planned["caps"]["dollars"] == 2.0
    assert planned["run"]["dollars"] <= 2.0
    assert list(Path.cwd().iterdir()) == []


def test_what_a_config_says_reaches_the_agent() -> None:
    Path("solve.txt").write_text("Be brief.\n{artifact}\n---\n{task}\n", encoding="utf-8")
    config = RunConfig(
        tasks="demo",
        agent="anthropic",
        model="claude-haiku-4-5",
        base_url=LOCAL,
        solve_ceiling=33,
        propose_ceiling=77,
        choices=True,
        overhead=11,
        solve_template="solve.txt",
        price_prompt=2.0,
        price_completion=3.0,
        stream=True,
    )
    agent = make_agent(config, demo_tasks())
    assert isinstance(agent, LLMAgent)
    assert (agent.tariff.solve.ceiling, agent.tariff.propose.ceiling) == (33, 77)
    assert agent.tariff.solve.prices == Prices(2_000_000, 3_000_000)
    assert agent.tariff.solve.strict
    assert "claude-haiku-4-5" in agent.name
    free = make_agent(
        RunConfig(tasks="demo", agent="openai", model="m", base_url=LOCAL, proposer="operators"), demo_tasks()
    )
    assert isinstance(free, LLMAgent)
    assert (free.tariff.propose.calls, free.tariff.propose.ceiling) == (0, 0)


def test_a_seed_is_for_those_who_take_one() -> None:
    config = RunConfig(agent="anthropic", model="m", base_url=LOCAL, model_seed=1)
    with pytest.raises(UsageError, match="model_seed is given"):
        make_agent(config, demo_tasks())


def test_a_counter_makes_the_bound_of_a_prompt_smaller() -> None:
    with pytest.raises(UsageError, match="counter is 'llama', and there is no base_url"):
        make_agent(RunConfig(agent="openai", model="m", counter="llama"), demo_tasks(), asked=False)
    counted = make_agent(RunConfig(agent="openai", model="m", base_url=LOCAL, counter="llama"), demo_tasks())
    assert isinstance(counted, LLMAgent)
    assert counted.tariff.solve.bytes_per_token == 2
    exact = make_agent(RunConfig(agent="openai", model="gpt-5-mini", counter="openai"), demo_tasks(), asked=False)
    assert isinstance(exact, LLMAgent)
    assert exact.tariff.solve.bytes_per_token == 2
    with pytest.raises(UsageError, match=r"no encoding is known for 'small'.*o200k_base"):
        make_agent(RunConfig(agent="openai", model="small", base_url=LOCAL, counter="openai"), demo_tasks())


@pytest.mark.parametrize("scorer", ["exact", "contains", "number", "regex", "choice"])
def test_scorers_are_checked_against_the_tasks(scorer: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("m.csv").write_text("text,label\n" + "".join(f"is it {i},[{i}\n" for i in range(9)), encoding="utf-8")
    code, _, said = command(capsys, "plan", "--tasks", "m.csv", "--scorer", scorer)
    assert code == (2 if scorer == "regex" else 0), said
    assert ("no regular expression" in said) == (scorer == "regex")


def test_a_data_set_on_a_hub_is_asked_of_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentdescent_adapters.tasks import hub

    asked: list[object] = []

    def load(dataset: str, **how: object) -> list[object]:
        asked.append((dataset, how))
        return []

    monkeypatch.setattr(hub, "hf", load)
    monkeypatch.setattr(hub, "modelscope", load)
    load_tasks(RunConfig(tasks="hf:a/b", split="test", subset="main", limit=7, text="t", label="l"))
    load_tasks(RunConfig(tasks="modelscope:c"))
    how = {"split": "test", "config": "main", "limit": 7, "text": "t", "label": "l", "id": None}
    plain = {"split": "train", "config": None, "limit": None, "text": "text", "label": "label", "id": None}
    assert asked == [("a/b", how), ("c", plain)]
