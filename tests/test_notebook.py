"""What a notebook shows of a result."""

from __future__ import annotations

from agentdescent import Answer, Task, Usage, evolve

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
