"""Operators: functions of their arguments and the train rows, in the grammar of the strategy, for nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import AppendRules, KeyedRules, SingleSlot, Task, Usage, UsageError, evolve
from agentdescent.artifact.diff import Entries, change
from agentdescent.artifact.strategy import Strategy, parse, render
from agentdescent.testing import check_agent
from agentdescent_adapters.demo import demo_tasks
from agentdescent_adapters.llm import LLMAgent, Operators
from agentdescent_adapters.llm.operators import BECOMES, NAMES, SHOT, Change, edited, rules_of, telling
from agentdescent_adapters.providers.model import Request
from agentdescent_adapters.rules.evidence import gather
from agentdescent_adapters.rules.language import fold
from agentdescent_adapters.tasks.scorers import scorer
from tests.adapters.scripted import Scripted

ROOT = Path(__file__).parents[2]
ROWS = [
    Task(f"t{n}", text, {"label": label})
    for n, (text, label) in enumerate(
        (
            ("where is my new card", "arrival"),
            ("my card has not arrived", "arrival"),
            ("when does the card come", "arrival"),
            ("top up failed again", "top_up"),
            ("why did my top up fail", "top_up"),
            ("cannot top up\r\nwith  my card", "top_up"),
            ("change the pin", "pin"),
            ("how do i change my pin", "pin"),
        )
    )
]
STRATEGIES: tuple[Strategy, ...] = (AppendRules(), SingleSlot(), KeyedRules(("a",)))


def ready(strategy: Strategy | None = None, rows: list[Task] = ROWS) -> Operators:
    operators = Operators(strategy=strategy)
    operators.begin(rows)
    return operators


def replies(
    rendered: str,
    task: Task,
    output: str,
    samples: int = 60,
) -> set[str]:
    operators = ready()
    answers = [operators.propose(rendered, task, output, 0.0, sample) for sample in range(samples)]
    assert all(answer.usage == Usage(calls=0) for answer in answers)
    return {answer.value for answer in answers}


def test_a_label_is_described_by_words_that_tell_it() -> None:
    evidence = gather(ROWS)
    assert telling(evidence, "pin")[:2] == ["change", "pin"]
    assert telling(evidence, "top_up")[:2] == ["top", "up"]
    assert "my" not in telling(evidence, "arrival")


def test_what_is_proposed_to_an_empty_list() -> None:
    found = replies("# Playbook", ROWS[5], "arrival")
    assert found == {
        "add: Labels: arrival, pin, top_up",
        "add: top_up: " + ", ".join(telling(gather(ROWS), "top_up")[:6]),
        "add: arrival: " + ", ".join(telling(gather(ROWS), "arrival")[:6]),
        f"add: {SHOT}top up failed again{BECOMES}top_up",
        f"add: {SHOT}why did my top up fail{BECOMES}top_up",
    }


def test_the_message_itself_is_no_shot_and_white_space_is_normalised() -> None:
    assert not any("cannot top up" in reply for reply in replies("", ROWS[5], ""))
    assert f"add: {SHOT}cannot top up with my card{BECOMES}top_up" in replies("", ROWS[3], "")


def test_a_description_that_misled_loses_the_words_of_the_message_and_one_that_missed_gains_them() -> None:
    held = "# Playbook\n- arrival: card, arrived\n- top_up: fail"
    ops = [parse(AppendRules(), keyed(held), reply) for reply in replies(held, ROWS[5], "arrival")]
    texts = {render(AppendRules(), change(keyed(held), one)) for one in ops}
    assert "# Playbook\n- arrival: arrived\n- top_up: fail" in texts
    assert any("\n- arrival: card, arrived\n- top_up: fail, top" in text for text in texts)


def test_a_shot_that_speaks_for_the_wrong_answer_is_dropped_first() -> None:
    shots = [f"{SHOT}why did my top up fail{BECOMES}top_up", f"{SHOT}the pin{BECOMES}pin"]
    held = "\n- ".join(("# Playbook", NAMES + "arrival, pin, top_up", *shots))
    operators = ready()
    drops = [operators.propose(held, ROWS[0], "top_up", 0.0, sample).value for sample in range(400)]
    counts = sorted(drops.count(one) for one in set(drops) if one.startswith("drop"))
    assert len(counts) == 3
    assert counts[2] > 2 * counts[1]


def keyed(rendered: str) -> Entries:
    entries: Entries = ()
    for rule in rules_of(rendered):
        entries = change(entries, parse(AppendRules(), entries, f"add: {rule}"))
    return entries


sayings = st.lists(st.sampled_from(("card", "top", "up", "pin", "北京", "fee")), min_size=1, max_size=4).map(" ".join)
rows = st.lists(st.tuples(sayings, st.sampled_from(("a", "b", "Labels"))), min_size=1, max_size=9)
texts = st.text(st.characters(codec="utf-8"), max_size=40)
lines = st.sampled_from(("Labels: a", "a: card, top", "b: pin", "Example: top => a", "be brief", ""))


@given(rows, st.lists(lines, max_size=5, unique=True), sayings, texts | st.sampled_from(("a", "b")), st.integers(0, 99))
def test_every_proposal_has_an_effect_in_every_strategy(
    pairs: list[tuple[str, str]], held: list[str], prompt: str, output: str, sample: int
) -> None:
    train = [Task(f"r{n}", text, {"label": label}) for n, (text, label) in enumerate(pairs)]
    task = Task("r0", prompt, {"label": pairs[0][1]})
    rules = tuple((f"k{n}", text) for n, text in enumerate(filter(None, held)))
    starts: tuple[Entries, ...] = (rules, (("text", render(AppendRules(), rules)),), rules)
    for strategy, entries in zip(STRATEGIES, starts, strict=True):
        rendered = render(strategy, entries)
        operators = ready(strategy, train)
        answer = operators.propose(rendered, task, output, 0.0, sample)
        assert answer == ready(strategy, train).propose(rendered, task, output, 1.0, sample)
        if answer.value is not None:
            assert parse(strategy, entries, answer.value) != (), (rendered, answer.value)


@given(texts, st.sampled_from(("", "- new")))
def test_a_text_is_edited_by_its_bullets(text: str, new: str) -> None:
    grown = edited(text, Change("", "rule\u2028", 1))
    assert rules_of(grown)[-1] == "rule\u2028"
    assert edited(grown, Change("rule\u2028", new, 1)).startswith(text)
    assert rules_of(edited(grown, Change("rule\u2028", new, 1))) == [*rules_of(text), *([new] if new else [])]


def test_numbers_that_follow_one_another_draw_different_changes() -> None:
    operators = ready()
    found = [operators.propose("# Playbook", ROWS[0], "top_up", 0.0, sample).value for sample in range(4)]
    assert len(set(found)) >= 3


def test_it_learns_from_the_train_rows_alone() -> None:
    with pytest.raises(UsageError, match=r"before begin\(train\)"):
        Operators().propose("", ROWS[0], "", 0.0, 0)
    with pytest.raises(UsageError, match="has no label"):
        Operators().begin([Task("t", "p")])
    with pytest.raises(UsageError, match="words is 0"):
        Operators(words=0)
    secret = [*ROWS, Task("held-out", "zebra crossing", {"label": "zebra"})]
    operators = ready()
    assert not any("zebra" in str(operators.propose("", secret[0], "zebra", 0.0, n).value) for n in range(50))
    check_agent(LLMAgent(Scripted(lambda request: "pin"), proposer=Operators()), ROWS)


SCRIPT = """
from tests.adapters.test_llm_operators import ROWS, ready
print([ready().propose("# P", row, "pin", 0.0, n).value for n, row in enumerate(ROWS)])
"""


def test_another_process_proposes_the_same() -> None:
    where = os.pathsep.join((str(ROOT), str(ROOT / "adapters")))
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONPATH": where, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert len(next(iter(found))) > 200


def reader(request: Request) -> str:
    """Answers the label whose description or shots share most words with the message."""
    message, best = set(fold(request.user).split()), (0, "none")
    for rule in rules_of(request.system):
        if rule.startswith(SHOT):
            words, _, label = rule.removeprefix(SHOT).rpartition(BECOMES)
        else:
            label, _, words = rule.partition(": ")
        if label != NAMES[:-2]:
            best = max(best, (len(message & set(fold(words).split())), label))
    return best[1]


@pytest.mark.parametrize("strategy", [AppendRules(), SingleSlot()])
def test_a_solver_that_reads_gets_better_within_its_budget(strategy: Strategy) -> None:
    tasks = demo_tasks()[:150]
    model = Scripted(reader, ceiling=8)
    agent = LLMAgent(model, proposer=Operators(strategy=strategy))
    result = evolve(tasks, scorer("exact"), agent=agent, strategy=strategy, max_tokens=400_000, thrifty=True)
    assert result.spend.total.tokens == model.billed <= 400_000
    assert (result.final or 0.0) >= (result.base or 0.0) + 0.2
