"""The messages that ship with the project."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files
from itertools import pairwise

from agentdescent_adapters.demo import demo_tasks
from agentdescent_adapters.rules.baseline import keyword_baseline
from agentdescent_adapters.rules.evidence import gather
from agentdescent_adapters.rules.language import words

SIZES = {
    "track_parcel": 52,
    "return_item": 44,
    "refund_status": 38,
    "change_address": 32,
    "damaged_item": 26,
    "cancel_order": 20,
    "change_plan": 16,
    "invoice_copy": 14,
}


def test_the_intents_are_of_uneven_size() -> None:
    assert Counter(task.meta["label"] for task in demo_tasks()) == SIZES


def test_ids_are_row_numbers_and_clusters_labels() -> None:
    tasks = demo_tasks()
    assert [task.id for task in tasks] == [str(n) for n in range(1, 243)]
    assert [task.cluster for task in tasks] == [task.meta["label"] for task in tasks]


def test_every_message_is_one_of_its_kind() -> None:
    said = Counter(" ".join(words(task.prompt)) for task in demo_tasks())
    assert len(said) == 242
    assert all(2 <= len(message.split()) <= 30 for message in said)


def test_the_intents_are_mixed() -> None:
    labels = [task.meta["label"] for task in demo_tasks()]
    runs = 1 + sum(left != right for left, right in pairwise(labels))
    assert runs >= 180


def test_some_messages_speak_of_two_things() -> None:
    evidence = gather(demo_tasks())
    spoken = {
        word: sum(rows & evidence.phrases[f" {word} "] > 0 for rows in evidence.labels.values())
        for word in ("parcel", "return", "refund", "address", "order", "money", "invoice", "delivery")
    }
    assert all(intents >= 2 for intents in spoken.values())
    assert spoken["parcel"] >= 4


def test_a_keyword_for_each_intent_is_not_enough() -> None:
    tasks = demo_tasks()
    train = [task for n, task in enumerate(tasks) if n % 5 < 3]
    test = [task for n, task in enumerate(tasks) if n % 5 >= 3]
    assert 0.2 <= keyword_baseline(train, test) <= 0.6
    assert 0.2 <= keyword_baseline(train, test, "balanced") <= 0.6


def test_the_file_is_plain_utf8() -> None:
    data = (files("agentdescent_adapters.demo") / "messages.csv").read_bytes()
    assert data.startswith(b"text,label\n")
    assert (data.count(b"\n"), data.count(b"\r"), data.count(b"\x00")) == (243, 0, 0)
    assert "Hafenstraße" in data.decode()
