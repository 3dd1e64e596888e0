"""README and docs are executed: every Python block runs, every link leads somewhere, every command is known."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentdescent_adapters.command.main import main
from docs import pictures, results
from docs.pictures import text_of

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")
COMMAND = re.compile(r"^agentdescent (\w+)", re.M)
BLOCKS = [(page.name, code) for page in PAGES for code in BLOCK.findall(page.read_text(encoding="utf-8"))]


def test_there_is_something_to_execute() -> None:
    assert {"README.md", "engine.md", "budget.md"} <= {name for name, _ in BLOCKS}


@pytest.mark.parametrize(("page", "code"), BLOCKS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(BLOCKS)])
def test_the_example_runs(page: str, code: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, page, "exec"), {"__name__": "example"})
    if page == "README.md":
        base, final = map(float, printed.getvalue().splitlines()[0].split(" -> "))
        assert base == 0.0
        assert final == 1.0
    if page == "engine.md":
        assert printed.getvalue().split()[0] in {"rounds", "solved"}
        assert len([line for line in code.splitlines() if line and not line.startswith(("from", "import"))]) < 30


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_is_short_and_shows_both_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
    assert len(text.splitlines()) <= 110


def test_the_picture_of_the_demo_shows_what_the_demo_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--quiet"]) == 0
    printed = ["".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    shown = text_of((pictures.PICTURES / "demo.svg").read_text(encoding="utf-8"))
    assert len([line for line in printed if line]) > 30
    assert [line for line in printed if line not in shown] == []  # else: python -m docs.pictures
    assert "docs/pictures/demo.svg" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_terminal_is_played_as_it_was_written(tmp_path: Path) -> None:
    program = r"import sys; sys.stdout.write('a\nb\n\x1b[2A\x1b[2Kc\nd\x1b[1mD\x1b[0m\n' * sys.stdout.isatty())"
    written = pictures.in_terminal([sys.executable, "-c", program], str(tmp_path))
    assert pictures.shown(written) == ["c", "bd\x1b[1mD\x1b[0m", ""]
    drawn = pictures.drawing("x", ["<&> \x1b[32mgreen\x1b[0m"])
    assert text_of(drawn).endswith("$x<&>green")
    assert "url(http" not in drawn  # no font of a server


def test_every_command_is_in_the_docs_and_exists(capsys: pytest.CaptureFixture[str]) -> None:
    named = {name for page in PAGES for name in COMMAND.findall(page.read_text(encoding="utf-8"))}
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.search(r"\{([a-z,]+)\}", capsys.readouterr().out)
    assert commands is not None
    assert named | {"demo"} == set(commands.group(1).split(","))  # the demo is `make demo` there
    for name in sorted(named):
        with pytest.raises(SystemExit) as stopped:
            main([name, "--help"])
        assert stopped.value.code == 0
        assert name in capsys.readouterr().out


def test_an_unknown_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evolv"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", ".mkdocs.yml", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    for page in (ROOT / "docs").glob("**/*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("")
        folder = name.parent if name.name == "index" else name
        text = (tmp_path / folder / "index.html").read_text(encoding="utf-8")
        assert not re.search(r"(src|href)=\"https?://[^\"]*\\.(js|css|woff2?)", text)  # it needs no other server


def test_what_is_never_the_same_is_not_said_to_resume_otherwise() -> None:
    one = {
        "quality": 0.5,
        "quality_at_cap": 0.4,
        "reached": 1.0,
        "tokens_to_target_ratio": None,
        "overshoot": 0.0,
        "engine_ms": 1.0,
    }
    kinds = {"same": (True, True), "other": (True, False), "never": (False, False)}
    peers = {name: {**one, "reproducible": sure, "resume_identical": same} for name, (sure, same) in kinds.items()}
    _, *rows = results._peers({"peers": peers})
    assert [(row[0], row[2], row[-1]) for row in rows] == [
        *(("same", "0.400", "yes"), ("other", "0.400", "no"), ("never", "0.400", "–"))
    ]


def test_the_reference_is_what_the_code_says() -> None:
    subprocess.run([sys.executable, "-m", "docs.generate", "--check"], cwd=ROOT, check=True)


def test_figures_in_the_words_about_results_are_those_of_the_results() -> None:
    """Tables are filled by a program; what is said of them by hand is held against the same files."""
    words = " ".join(results.PAGE.read_text(encoding="utf-8").split())
    calibration, ab = (results.kept(name)["result"] for name in ("calibration", "ab_allocator"))
    runs = [results.kept(f"real_model{seed}")["result"] for seed in ("", "_1", "_2")]
    rises = [f"from {run['test_base']:.2f} to {run['test_final']:.2f}" for run in runs]
    for figure in (
        f"hold the truth in {100 * calibration['whatif_coverage']:.1f} % of {calibration['whatif_repetitions']:,} ",
        f"on logs of the engine itself in {100 * calibration['whatif_by_source']['engine']:.1f} %",
        f"with itself {100 * calibration['aa_false_positives']:.2f} % call a difference",
        f"calibration error {calibration['value_model']['ece'][1]:.3f}, where chance would give "
        f"{calibration['value_model']['ece_by_chance']:.3f}",
        f"finds {ab['verdict']} in {ab['pairs']} pairs",
        f"the test part rose {rises[0]}, {rises[1]} and {rises[2]} on seeds 0, 1 and 2",
    ):
        assert figure in words, figure
