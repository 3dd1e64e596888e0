"""One TOML file for a run: what it may say, and how it is told where it is wrong."""

from __future__ import annotations

import typing
from pathlib import Path

import pytest
from hypothesis import given

from agentdescent.errors import UsageError
from agentdescent_adapters.command import config_file
from agentdescent_adapters.command.config import FILES, RunConfig
from agentdescent_adapters.command.config_file import merge, parse
from agentdescent_adapters.command.config_text import write
from agentdescent_adapters.command.help import HELP
from agentdescent_adapters.command.main import main
from agentdescent_adapters.command.sections import PLACES, SECTIONS
from tests.history.facts import values


def test_every_field_has_one_place_and_a_word_of_help() -> None:
    fields = [field for keys in SECTIONS.values() for field in keys.values()]
    assert sorted(fields) == sorted(RunConfig.__struct_fields__) == sorted(HELP)
    assert {field: SECTIONS[section][key] for field, (section, key) in PLACES.items()} == {name: name for name in HELP}


@given(values(RunConfig))
def test_what_is_written_is_read_back(config: RunConfig) -> None:
    assert RunConfig(**parse(write(config), "run.toml")) == config


def test_what_is_default_is_not_written() -> None:
    assert write(RunConfig()) == ""
    assert write(RunConfig(tasks='a\x7f"b', seed=3)) == '[tasks]\nfile = "a\\u007f\\"b"\n\n[policies]\nseed = 3\n'


def test_text_that_is_no_unicode_cannot_be_written() -> None:
    with pytest.raises(UnicodeEncodeError):
        write(RunConfig(tasks="\ud800"))


def test_sections_and_flat_keys_say_the_same() -> None:
    sections = (
        '[tasks]\nfile = "m.csv"\n[agent]\nkind = "rules"\nseed = 4\n[policies]\nseed = 5\n[prices]\nprompt = 2\n'
    )
    flat = 'tasks = "m.csv"\nagent = "rules"\nmodel_seed = 4\nseed = 5\nprice_prompt = 2.0\n'
    assert parse(sections, "f") == parse(flat, "f")
    mixed = 'max_tokens = 5\n[tasks]\nfile = "m.csv"\n'
    assert parse(mixed, "f") == {"max_tokens": 5, "tasks": "m.csv"}


MISTAKES = [
    ("taks = 1", "unknown key 'taks': did you mean 'tasks'?"),
    ("[taks]\nx = 1", "unknown section [taks]: did you mean 'tasks'?"),
    ("[zzzz]\nx = 1", "unknown section [zzzz]: the sections are tasks, artifact, strategy"),
    ("[tasks]\nfil = 'a'", "unknown key 'fil' in [tasks]: did you mean 'file'?"),
    ("[tasks]\nzzzz = 'a'", "unknown key 'zzzz' in [tasks]: the keys are file, text"),
    ("[tasks]\nmax_tokens = 5", "unknown key 'max_tokens' in [tasks]: it is 'max_tokens' in [budget]"),
    ("[tasks]\ntasks = 'a'", "unknown key 'tasks' in [tasks]: it is 'file' in [tasks]"),
    ("[budget]\nseed = 5", "it is 'seed' in [policies] or 'seed' in [agent]"),
    ("file = 'a'", "unknown key 'file': it is 'file' in [tasks] or 'file' in [artifact]"),
    ("max_token = 5", "unknown key 'max_token': did you mean 'max_tokens'?"),
    ("budget = 5", "'budget' is a section: write [budget] on a line of its own"),
    ("[seed]\nx = 1", "[seed] is no section: it is the key 'seed' in [policies]"),
    ("label = 'a'\n[tasks]\nlabel = 'b'", "label and [tasks] label are one key: leave out one of them"),
    ("tasks = 'a'\n[tasks]\nfile = 'b'", "it is given twice, leave out one of them"),
    ("seed = 1\nseed = 2", "it is given twice, leave out one of them"),
    ("[tasks]\n[tasks]", "it is given twice, leave out one of them"),
    ("seed = ", "write it as TOML, `key = value` a line"),
    ("[policies]\nseed = 'one'", "[policies] seed is 'one': it takes a whole number"),
    ("seed = 1.0", "seed is 1.0: it takes a whole number"),
    ("seed = true", "seed is true: it takes a whole number"),
    ("curtail = 1", "curtail is 1: it takes true or false"),
    ("max_cost = 'much'", "max_cost is 'much': it takes a number"),
    ("text = 1979-05-27", "it takes a text in quotes"),
    ("text = '" + "x" * 99 + "'\n[tasks]\nlabel = 7", "[tasks] label is 7: it takes a text in quotes"),
    ("labels = ['" + "x" * 99 + "']", "xxx...: it takes a whole number"),
    ("[tasks]\nfile = {a = 1}", "[tasks] file is {'a': 1}: it takes a text in quotes"),
    ("fusion_width = 'al'", "it takes a whole number or all or adaptive: did you mean 'all'?"),
    ("[strategy]\nkind = 'append-rule'", "append-rules or single-slot: did you mean 'append-rules'?"),
    ("selection = 'bean'", "did you mean 'beam'?"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES, ids=[text[:40] for text, _ in MISTAKES])
def test_a_mistake_names_the_file_the_key_and_the_remedy(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, "run.toml")
    said = str(caught.value)
    assert said.startswith("run.toml: ")
    assert message in said
    assert "\n" not in said


@pytest.mark.parametrize("name", ["api_key", "API_KEY", "token", "password"])
@pytest.mark.parametrize("section", ["", "[agent]\n", "[tasks]\n"])
def test_a_credential_is_refused_and_not_repeated(name: str, section: str) -> None:
    with pytest.raises(UsageError, match="holds no credentials") as caught:
        parse(f'{section}{name} = "sk-secret"', "run.toml")
    assert "sk-secret" not in str(caught.value)
    assert "api_key_env" in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent.toml: cannot be read \(No such file"):
        config_file.read(str(tmp_path / "absent.toml"))
    (tmp_path / "latin.toml").write_bytes(b'text = "\xe9"')
    with pytest.raises(UsageError, match=r"latin.toml: not UTF-8"):
        config_file.read(str(tmp_path / "latin.toml"))


def test_paths_are_relative_to_the_file_and_names_are_not(tmp_path: Path) -> None:
    lines = [f'{field} = "x/{field}"' for field in FILES]
    (tmp_path / "run.toml").write_text("\n".join(lines), encoding="utf-8")
    read = merge(str(tmp_path / "run.toml"), {})
    assert [getattr(read, field) for field in FILES] == [str(tmp_path / "x" / field) for field in FILES]
    for name in ("demo", "hf:PolyAI/banking77", "modelscope:a/b", ""):
        (tmp_path / "run.toml").write_text(f'tasks = "{name}"', encoding="utf-8")
        assert merge(str(tmp_path / "run.toml"), {}).tasks == name
    (tmp_path / "run.toml").write_text('tasks = "/a/b.csv"', encoding="utf-8")
    assert merge(str(tmp_path / "run.toml"), {}).tasks == "/a/b.csv"


def test_flags_win(tmp_path: Path) -> None:
    file = str(tmp_path / "run.toml")
    Path(file).write_text('[tasks]\nfile = "m.csv"\n[budget]\nmax_tokens = 5\nrounds = 9\n', encoding="utf-8")
    config = merge(file, {"tasks": "other.csv", "max_tokens": 7})
    assert (config.tasks, config.max_tokens, config.rounds) == ("other.csv", 7, 9)
    with pytest.raises(UsageError, match="run --help"):
        merge(None, {"temperature": "hot"})


def test_a_flag_for_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    shown = capsys.readouterr().out
    hints = typing.get_type_hints(RunConfig)
    assert [name for name in hints if f"--{name.replace('_', '-')}" not in shown] == []


def test_the_config_in_the_docs_is_one() -> None:
    page = Path(__file__).parents[2] / "docs" / "command-line.md"
    text = page.read_text(encoding="utf-8")
    shown = text.partition("```toml\n")[2].partition("```")[0]
    values = parse(shown, page.name)
    assert (values["tasks"], values["agent"], values["max_cost"]) == ("messages.csv", "openai", 1.5)
    table = [line for line in text.splitlines() if line.startswith("| `[")]
    named = {word for line in table for word in line.split("`") if word.isidentifier()}
    missing = {key for section, keys in SECTIONS.items() if section != "policies" for key in keys} - named
    assert missing == set()
