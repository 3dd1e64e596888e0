"""The pages about runs: what they hold, that nothing of a run is markup, and how a browser sees them."""

from __future__ import annotations

import html
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent.artifact.strategy import AppendRules
from agentdescent.engine.event import Event, StopReason
from agentdescent.engine.spec import TaskInfo
from agentdescent.history.report import report
from agentdescent.record import replace
from agentdescent_adapters.command.config import RunConfig
from agentdescent_adapters.command.main import main
from agentdescent_adapters.command.pages import command_line, names_of, write_comparison, write_report
from agentdescent_adapters.page import build, chart, comparison, view
from bench import browser
from tests.strategies import Job, any_job
from tests.world import World, any_order, jobs, play

HOSTILE = '"><script>alert(1)</script>&amp;{{ 7*7 }}</style></pre>'
VOID = {"meta", "link", "path", "br", "img"}


class Reader(HTMLParser):
    """Keeps what is open, and every tag with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open = list[str]()
        self.tags = list[tuple[str, dict[str, str | None]]]()
        self.ids = list[str]()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.tags.append((tag, found))
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def page_of(log: list[Event]) -> str:
    return build.page(report(log), run="RUN", digest="d" * 32, commands="agentdescent run", whatif=())


def a_log() -> list[Event]:
    spec, setup = jobs(24, workers=3)
    return play(replace(spec, caps=replace(spec.caps, rounds=6)), setup, World(seed=1, solved=0.2))[1]


@settings(max_examples=20)
@given(any_job(), st.integers(0, 9_999), st.floats(0, 1))
def test_every_run_has_a_page_at_every_moment(job: Job, seed: int, share: float) -> None:
    _, log = play(*job, order=any_order(seed))
    page = page_of(log[: max(1, round(share * len(log)))])
    reader = read(page)
    assert len(set(reader.ids)) == len(reader.ids)
    assert {name for name, _ in build.SECTIONS} <= set(reader.ids)
    links = [str(found["href"]) for tag, found in reader.tags if tag == "a"]
    assert all(link.startswith("#") and link[1:] in reader.ids for link in links)


def test_it_needs_nothing_else() -> None:
    page = page_of(a_log())
    reader = read(page)
    assert not [tag for tag, _ in reader.tags if tag in {"script", "iframe", "img", "object"}]
    assert [found for tag, found in reader.tags if tag == "link"] == [{"rel": "icon", "href": "data:,"}]
    assert not re.search(r"https?://|@import|url\(", page)


def test_nothing_of_a_run_is_markup() -> None:
    spec, setup = jobs(24, workers=3)
    tasks = tuple(TaskInfo(f"{HOSTILE} {task.id}", task.size, task.digest, task.cluster) for task in setup.tasks)
    setup = replace(setup, tasks=tasks, agent=HOSTILE, artifact=(("k", HOSTILE),))
    spec = replace(spec, caps=replace(spec.caps, rounds=4), strategy=AppendRules(title=HOSTILE))
    _, log = play(spec, setup, World(seed=1, solved=0.2))
    name = f"RUN {HOSTILE}"
    found = report(log)
    for page in (
        build.page(found, run=name, digest=HOSTILE, commands=HOSTILE, whatif=[(HOSTILE, [(HOSTILE,) * 3])]),
        comparison.page([(name, found), (name, found)]),
    ):
        assert "<script" not in page
        assert page.count("</style>") == 1
        assert "49" not in re.findall(r"\{\{.*?\}\}|49(?=&lt;)", page)
        assert html.escape(HOSTILE, quote=False) in page.replace("&#34;", '"')
        read(page)


def test_the_numbers_are_those_of_the_report() -> None:
    log = a_log()
    found, page = report(log), page_of(a_log())
    assert view.sentence(found) in html.unescape(page)
    assert f"{found.spend.total.tokens:,}" in page
    for commit in found.commits:
        assert f'id="v{commit.version}"' in page
    rows = re.findall(r'<th class="n" scope="row" title="made of', page)
    assert len(rows) == len(found.gates) > 0
    for line in view.lines(found):
        assert html.escape(line.text, quote=False) in page


def test_of_a_long_run_the_commits_and_the_last_gates_have_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "GATES", 3)
    found = report(a_log())
    shown = view.matrix(found)
    assert len(shown.rows) == 3 < len(found.gates)
    assert shown.left_out == len(found.gates) - 3
    assert shown.rows[-1].gate == found.gates[-1]


def test_a_commit_keeps_its_row_however_many_gates_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    found = report(a_log())
    won = next(row for row in found.gates if row.outcome == "committed")
    lost = next(row for row in found.gates if row.outcome != "committed")
    monkeypatch.setattr(view, "GATES", 4)
    shown = view.matrix(replace(found, gates=(lost, won, *[lost] * 9)))
    assert [row.gate for row in shown.rows] == [won, lost, lost, lost]
    assert shown.left_out == 7
    shown = view.matrix(replace(found, gates=(lost, *[won] * 9)))
    assert [row.gate for row in shown.rows] == [won] * 4
    shown = view.matrix(replace(found, gates=(lost, won)))
    assert [row.gate for row in shown.rows] == [lost, won]


def test_a_diff_of_a_long_artifact_takes_no_time() -> None:
    before, after = ([f"rule {i} says {word} of {i * 7}" for i in range(1_000)] for word in ("this", "that"))
    found = replace(report(a_log()), start_text="\n".join(before), final_text="\n".join(after))
    began = time.process_time()
    assert [line.text for line in view.diff(found)] == [*before, *after]
    assert time.process_time() - began < 1.0


def test_a_diff_shows_what_was_kept_added_and_taken_away() -> None:
    found = replace(report(a_log()), start_text="a\nb\nc", final_text="a\nB\nc\nd")
    assert [(line.kind, line.text) for line in view.diff(found)] == [
        *((" ", "a"), ("-", "b"), ("+", "B"), (" ", "c"), ("+", "d")),
    ]


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9), st.booleans())
def test_an_axis_covers_what_it_shows(low: float, span: float, percent: bool) -> None:
    along = chart.axis(low, low + span, percent=percent)
    slack = (along.high - along.low) * 1e-6
    assert along.low <= low + slack
    assert along.high >= low + span - slack
    assert along.ticks[0][0] == 0
    assert along.ticks[-1][0] == 100
    assert 2 <= len(along.ticks) <= 8


def test_charts_by_hand() -> None:
    x, y = chart.axis(0, 1_000), chart.axis(0, 1, percent=True)
    assert [text for _, text in x.ticks] == ["0", "250", "500", "750", "1k"]
    assert [text for _, text in y.ticks] == ["0%", "25%", "50%", "75%", "100%"]
    assert chart.steps([(100, 0.0), (500, 0.25)], 900, x, y) == "M100.0 1000.0H500.0V750.0H900.0"
    assert chart.steps([], 900, x, y) == ""
    assert chart.strip("++-.0", [4, 0, 1, 2, 3]) == [
        ("+", "M1 0h2v1h-2z"),
        ("-", "M3 0h1v1h-1z"),
        ("0", "M0 0h1v1h-1z"),
    ]
    assert chart.strip("", [0, 1]) == []


def test_the_command_that_makes_it_again() -> None:
    config = RunConfig(tasks="my file.csv", max_tokens=5_000, self_verify=False, thrifty=True)
    assert command_line(config) == (
        "agentdescent run --tasks 'my file.csv' --max-tokens 5000 --no-self-verify --thrifty"
    )


def test_runs_of_one_name_are_told_apart() -> None:
    assert names_of(["a/RUN", "b/RUN", "c/OTHER/"]) == ["a/RUN", "b/RUN", "OTHER"]


def test_what_makes_a_comparison_unfair_is_said() -> None:
    one = report(a_log())
    other = replace(one, state=replace(one.state, setup=replace(one.state.setup, scorer="another")))
    assert comparison.notes([("a", one), ("b", one)]) == ()
    assert comparison.notes([("a", one), ("b", other)]) == (
        "These runs were scored differently: their rewards are not comparable.",
    )


needs_a_browser = pytest.mark.skipif(
    browser.chromium() is None or browser.axe() is None,
    reason="needs Debian's chromium and axe-core from npm: see bench/browser.py",
)


@needs_a_browser
@pytest.mark.parametrize(("width", "dark"), [(360, False), (1600, True)])
def test_a_browser_has_no_complaint(tmp_path: Path, width: int, dark: bool) -> None:
    """axe-core finds nothing, the console is silent, and nothing reaches beyond the window."""
    run = str(tmp_path / "RUN")
    assert main(["demo", "--out", run, "--quiet", "--json"]) == 0
    written = [
        write_report(run, str(tmp_path / "report.html")),
        write_comparison([run, run], str(tmp_path / "comparison.html")),
    ]
    for one in written:
        found = browser.audit(Path(one.path), width=width, dark=dark)
        assert found.violations == ()
        assert found.console == ()
        assert found.wider <= 0


@needs_a_browser
def test_large_numbers_and_long_names_stay_within_a_narrow_window(tmp_path: Path) -> None:
    found = report(a_log())
    lines = tuple(replace(line, tokens=98_765_432_109, calls=987_654_321) for line in found.spend.by_purpose)
    subjects = tuple(replace(one, tokens=98_765_432_109) for one in found.subjects)
    large = replace(
        found,
        spend=replace(found.spend, by_purpose=lines),
        subjects=subjects,
        heldout=tuple(f"{name}-{'x' * 90}" for name in found.heldout),
        error="e" * 200,
    )
    path = tmp_path / "report.html"
    path.write_text(
        build.page(large, run="r" * 90, digest="d" * 32, commands="agentdescent " + "c" * 200, whatif=()), "utf-8"
    )
    audit = browser.audit(path, width=360)
    assert (audit.violations, audit.wider <= 0) == ((), True)


@given(st.lists(st.integers(0, 10**9), min_size=1), st.lists(st.one_of(st.none(), st.integers(1, 10**12))))
def test_an_axis_of_tokens_leaves_room_for_the_curves(spent: list[int], caps: list[int | None]) -> None:
    end = view.reach(spent, caps)
    assert max(1, *spent) <= end <= view.NEAR * max(1, *spent)
    near = [cap for cap in caps if cap is not None and cap <= view.NEAR * max(spent)]
    assert end >= max([0, *near])


def test_every_end_of_a_run_is_told_in_words() -> None:
    assert set(view.ENDINGS) == set(get_args(StopReason))
