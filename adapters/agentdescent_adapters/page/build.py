"""The page of a run, from its report: one HTML file that needs nothing else."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import metadata, resources

import jinja2
import msgspec
from markupsafe import Markup

from agentdescent.history.report import Report
from agentdescent_adapters.page import view

SECTIONS = (
    ("curve", "Curve"),
    ("artifact", "Artifact"),
    ("lineage", "Lineage"),
    ("spend", "Spend"),
    ("gates", "Gates"),
    ("allocator", "Allocator"),
    ("whatif", "What if"),
    ("reproduce", "Reproduce"),
)
KINDS = {"+": "gain", "-": "loss", "=": "same", "0": "none"}

Answers = Sequence[tuple[str, Sequence[tuple[str, str, str]]]]
"""Tables of (question, answer, how sure), each with a title."""


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def number(count: int) -> str:
    return f"{count:,}"


@functools.cache
def environment() -> jinja2.Environment:
    """Whatever a task, a rule or a message holds is text, and never markup."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("agentdescent_adapters.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    found.filters.update(percent=percent, number=number)
    return found


def style() -> Markup:
    return Markup((resources.files("agentdescent_adapters.page") / "templates/report.css").read_text("utf-8"))


def page(report: Report, *, run: str, digest: str, commands: str, whatif: Answers) -> str:
    """`run`: the name of the run. `digest`: of its log. `commands`: what makes the same run again."""
    spec = report.state.spec
    curve = report.curve
    return (
        environment()
        .get_template("report.html")
        .render(
            report=report,
            run=run,
            css=style(),
            sentence=view.sentence(report),
            sections=SECTIONS,
            kinds=KINDS,
            first=curve[0].reward if curve else None,
            last=curve[-1].reward if curve else None,
            cap=report.state.governor.caps.tokens,
            curve=view.curve(report),
            diff=view.diff(report),
            lines=view.lines(report),
            costs=view.costs(report),
            matrix=view.matrix(report),
            decisions=view.decisions(report),
            whatif=whatif,
            commands=commands,
            facts=_facts(report, digest),
            spec=msgspec.json.format(msgspec.json.encode(spec), indent=2).decode(),
        )
    )


def _facts(report: Report, digest: str) -> list[tuple[str, str]]:
    setup = report.state.setup
    return [
        ("digest of the log", digest),
        ("events", f"{report.events:,}"),
        ("seed", str(report.state.spec.seed)),
        ("agent", setup.agent),
        ("scorer", setup.scorer),
        ("tasks", f"{len(setup.tasks):,}"),
        ("agentdescent", metadata.version("agentdescent")),
    ]
