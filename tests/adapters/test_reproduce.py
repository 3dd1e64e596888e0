"""The command lines on the page of a run, and what it says of other choices."""

from __future__ import annotations

import html
import re
import shlex
import typing
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentdescent.engine.event import Event
from agentdescent.history.fold import folded
from agentdescent.history.whatif_cap import under_cap
from agentdescent.history.whatif_gates import gates_again
from agentdescent_adapters.command import answers
from agentdescent_adapters.command.answers import GateQuestions
from agentdescent_adapters.command.config import RunConfig
from agentdescent_adapters.command.config_file import merge
from agentdescent_adapters.command.main import main
from agentdescent_adapters.command.pages import command_line, read_report, write_report
from agentdescent_adapters.command.parser import parser
from agentdescent_adapters.disk import read_events
from tests.adapters.test_command import messages
from tests.history.facts import values
from tests.strategies import Job, any_job
from tests.world import any_order, play

HINTS = typing.get_type_hints(RunConfig)
TEXTS = [name for name, hint in HINTS.items() if str in (hint, *typing.get_args(hint))]
PARSER = parser()


def read_again(config: RunConfig) -> RunConfig:
    words = shlex.split(command_line(config))
    assert words[:2] == ["agentdescent", "run"]
    parsed = vars(PARSER.parse_args(words[1:]))
    return merge(None, {name: parsed[name] for name in HINTS if name in parsed})


@given(values(RunConfig))
def test_the_command_line_of_any_config_is_read_as_that_config(config: RunConfig) -> None:
    """But for the text `--`, which argparse of Python 3.11 reads as no value, wherever it stands."""
    assume("--" not in [getattr(config, name) for name in TEXTS])
    assert read_again(config) == config


@pytest.mark.parametrize("text", ["", "-", "---", "-1", "--json", "a b", "'", '"', "$HOME", "a\nb", "@file", "=", "%s"])
def test_so_is_that_of_text_that_means_something_elsewhere(text: str) -> None:
    config = msgspec.convert(dict.fromkeys(TEXTS, text), RunConfig)
    assert len(TEXTS) > 10
    assert read_again(config) == config


def commands_on(page: str) -> list[str]:
    found = re.search(r'<pre[^>]*aria-label="Commands">(.*?)</pre>', page, re.S)
    assert found is not None
    return html.unescape(found.group(1)).splitlines()


def test_the_commands_make_the_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one whose caps were raised, and that has a name which a shell would take apart."""
    monkeypatch.chdir(tmp_path)
    run = "a run; echo $(no)"
    tasks = messages(tmp_path / "m.csv")
    assert main(["run", "--tasks", tasks, "--rounds", "1", "--seed", "3", "--out", run, "--quiet"]) == 0
    assert main(["resume", run, "--rounds", "3", "--max-tokens", "90000", "--quiet"]) == 0
    written = write_report(run, None)
    commands = [shlex.split(line, comments=True) for line in commands_on(Path(written.path).read_text("utf-8"))]
    assert [words[1] for words in commands] == ["run", "resume", "replay"]
    for words in commands:
        assert main(words[1:]) == 0
    assert read_report(f"{run}-again")[1] == read_report(run)[1]


def test_a_job_that_cannot_be_read_does_not_keep_a_page_from_being_written(tmp_path: Path) -> None:
    run = str(tmp_path / "RUN")
    assert main(["run", "--tasks", messages(tmp_path / "m.csv"), "--rounds", "1", "--out", run, "--quiet"]) == 0
    (tmp_path / "RUN" / "job.json").write_text('{"of another": "version"}')
    commands = commands_on(Path(write_report(run, None).path).read_text("utf-8"))
    assert commands[0].startswith("# how it was started is not known: ")


def asked(log: list[Event]) -> GateQuestions:
    questions = GateQuestions()
    for event, before, after in folded(log):
        questions.fold(event, before, after)
    return questions


@given(any_job(), st.integers(0, 9_999), st.floats(0, 1))
def test_gates_are_asked_in_the_same_fold(job: Job, seed: int, share: float) -> None:
    """Of any run at any moment there are rows, and each says how sure it is."""
    _, log = play(*job, order=any_order(seed))
    rows = asked(log[: max(1, round(share * len(log)))]).rows()
    assert [question for question, _, _ in rows] == [
        "without curtailment" if job[0].curtail else "with curtailment",
        f"in {'informative' if job[0].gate_order == 'index' else 'index'} order",
    ]
    assert all(sure.split(":")[0] in ("EXACT", "EXACT bounds", "ESTIMATE", "NO SUPPORT") for _, _, sure in rows)


def whatif_of(run: str) -> dict[str, list[tuple[str, str]]]:
    """Answers and how sure they are, by question."""
    questions = GateQuestions()
    found, _ = read_report(run, questions)
    rows: dict[str, list[tuple[str, str]]] = {}
    for _, table in answers.answers(run, found, questions):
        for question, answer, sure in table:
            rows.setdefault(question, []).append((answer, sure))
    return rows


def test_the_answers_are_those_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = str(tmp_path / "RUN")
    flags = ["--rounds", "4", "--max-tokens", "90000", "--no-curtail", "--allocator", "value"]
    assert main(["run", "--tasks", messages(tmp_path / "m.csv"), *flags, "--out", run, "--quiet"]) == 0
    rows, spent = whatif_of(run), read_report(run)[0].spend.total.tokens
    again = gates_again(read_events(run), curtail=True)
    tokens = sum(gate.tokens_low for gate in again.gates)
    assert len(again.gates) == again.exact > 0
    (gates,) = rows["with curtailment"]
    assert f"then {tokens:,}, {len(again.gates)} gates" in gates[0]
    assert gates[1] == "EXACT"
    half = under_cap(read_events(run), spent // 2)
    assert f"{half.tokens:,} tokens, {half.commits} commits" in rows[f"max_tokens {spent // 2:,}"][0][0]
    assert rows[f"max_tokens {spent // 2:,}"][0][1] == "EXACT"
    told = [sure for question, found in rows.items() if question.startswith(("always", "never")) for _, sure in found]
    assert len(told) >= 2
    assert all(re.fullmatch(r"(EXACT|ESTIMATE), n \d+|NO SUPPORT", sure) for sure in told)
    page = Path(write_report(run, None).path).read_text("utf-8")
    assert all(html.escape(answer, quote=False) in page for found in rows.values() for answer, _ in found)


def test_what_would_take_long_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = str(tmp_path / "RUN")
    flags = ["--rounds", "2", "--max-tokens", "90000", "--allocator", "value"]
    assert main(["run", "--tasks", messages(tmp_path / "m.csv"), *flags, "--out", run, "--quiet"]) == 0
    monkeypatch.setattr(answers, "CAP_EVENTS", 10)
    monkeypatch.setattr(answers, "ALLOCATOR_EVENTS", 10)
    rows = whatif_of(run)
    left_out = {question for question, found in rows.items() if found[0][0].startswith("left out: ")}
    cap = next(question for question in rows if question.startswith("max_tokens"))
    assert left_out == {cap, "always spend", "never spend"}
    assert all(rows[question][0][1] == "not asked" for question in left_out)


def test_gates_that_predictions_may_stop_have_no_support(tmp_path: Path) -> None:
    run = str(tmp_path / "RUN")
    flags = ["--rounds", "2", "--futility", "0.2"]
    assert main(["run", "--tasks", messages(tmp_path / "m.csv"), *flags, "--out", run, "--quiet"]) == 0
    for question in ("without curtailment", "in index order"):
        ((answer, sure),) = whatif_of(run)[question]
        assert sure == "NO SUPPORT"
        assert "stopped by prediction" in answer
