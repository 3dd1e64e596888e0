"""What a notebook shows of a result."""

from __future__ import annotations

import msgspec

from agentdescent import Answer, Task, Usage, evolve
from agentdescent.history.lineage import lineage
from agentdescent.search import Archive

TASKS = [Task(f"t{i}", f"message {i}", {"cluster": f"topic{i % 4}"}) for i in range(24)]


def run(rendered: str, task: Task) -> Answer:
    return Answer("right" if task.cluster in rendered else "wrong", Usage(prompt=10, completion=2))


def propose(rendered: str, task: Task, output: str, score: float) -> Answer:
    return Answer(f"<b>know {task.cluster}</b>", Usage(prompt=10, completion=8))


def reward(task: Task, output: str) -> float:
    return 1.0 if output == "right" else 0.0


def test_the_numbers_and_the_artifact_and_no_markup_of_theirs() -> None:
    result = evolve(TASKS, reward, run=run, propose=propose, max_tokens=9_000, test_share=0.25)
    shown = result._repr_html_()
    assert result.version > 0
    assert "&lt;b&gt;know topic" in shown
    assert "<b>" not in shown
    assert f"<td>{result.spend.total.tokens:,} of 9,000 (observed ceiling)</td>" in shown
    assert f"<td>{result.base:.1%} → {result.final:.1%}</td>" in shown
    assert result.test_interval is not None
    assert f"95 % interval {result.test_interval[0]:.1%}" in shown


def test_a_test_part_that_was_half_scored_is_shown_as_far_as_it_is_known() -> None:
    result = evolve(TASKS, reward, run=run, propose=propose, max_tokens=9_000, test_share=0.25)
    half = msgspec.structs.replace(result, test_final=None, test_interval=None)
    assert f"<td>{result.test_base:.1%} → –</td>" in half._repr_html_()


def test_the_commits_of_a_population_are_those_of_all_its_heads() -> None:
    result = evolve(TASKS, reward, run=run, propose=propose, rounds=8, selection=Archive())
    shown = result._repr_html_()
    _, commits = lineage(result.log.events())
    assert result.commits == len(commits) > 0
    assert f"<th style='text-align:left'>commits</th><td>{len(commits)}</td>" in shown
