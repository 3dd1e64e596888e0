"""The cache of responses: hits cost nothing, failures are not kept, and the file is nobody else's."""

from __future__ import annotations

import asyncio
import os
import pickle
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentdescent import CallFailed, EvolutionResult, MemoryLog, Usage, UsageError, evolve, replay
from agentdescent.engine.event import RolledOut
from agentdescent_adapters.llm import LLMAgent
from agentdescent_adapters.llm.schemas import choice_schema, encoded
from agentdescent_adapters.providers.cache import Store, cached, connect
from agentdescent_adapters.providers.model import Model, Reply, Request
from tests.adapters.scripted import TASKS, BlockingScripted, Right, Scripted

ROOT = Path(__file__).parents[2]
HIT = Usage(calls=0, hits=1)
ASKED = Request("Where is it?", "Be brief.", 50)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replies.sqlite"


def counter() -> Callable[[Request], str]:
    """Another answer each time."""
    numbers: Iterator[int] = iter(range(10**6))
    return lambda request: f"answer {next(numbers)} é\ud800"


def ask(model: Model, request: Request = ASKED) -> Reply:
    return asyncio.run(model.complete(request))


def run(model: Model, **options: Any) -> EvolutionResult:
    return evolve(TASKS, Right(), agent=LLMAgent(model), **{"rounds": 4, **options})


def test_what_was_asked_before_is_answered_from_the_file_for_nothing(path: Path) -> None:
    model = Scripted(counter())
    first = ask(cached(model, path))
    again = ask(cached(model, path))
    assert first.usage == Usage(prompt=28, completion=50)
    assert again == Reply("answer 0 é?", "stop", HIT)
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    "changes",
    [{"user": "When?"}, {"system": ""}, {"ceiling": 49}, {"ceiling": None}, {"sample": 1}, {"schema": b"{}"}],
)
def test_another_question_is_another_question(path: Path, changes: dict[str, Any]) -> None:
    model = Scripted(lambda request: "{}")
    store = cached(model, path)
    ask(store)
    other = Request(**{**{f: getattr(ASKED, f) for f in ASKED.__struct_fields__}, **changes})
    assert ask(store, other).usage != HIT
    assert ask(store, other).usage == ask(store).usage == HIT
    assert len(model.asked) == 2


def test_another_model_is_another_question_and_a_reservation_is_none(path: Path) -> None:
    ask(cached(Scripted(), path), Request("topic"))
    assert ask(cached(Scripted(name="other"), path), Request("topic")).usage != HIT
    assert ask(cached(Scripted(), path), Request("topic", prompt_limit=9)).usage == HIT


@pytest.mark.parametrize(
    ("text", "finish", "schema"),
    [
        ("", "stop", None),
        (" \n", "stop", None),
        ("half an", "length", None),
        ("<think>hm", "unknown", None),
        ("I must not", "filter", None),
        ('{"answer": "c"}', "stop", encoded(choice_schema(["a", "b"]), "choices")),
        ("a", "stop", encoded(choice_schema(["a", "b"]), "choices")),
    ],
)
def test_what_is_no_answer_is_not_kept(path: Path, text: str, finish: Any, schema: bytes | None) -> None:
    model = Scripted(lambda request: text, finish=finish)
    store = cached(model, path)
    assert [ask(store, Request("q", schema=schema)).usage == HIT for _ in range(2)] == [False, False]
    assert len(model.asked) == 2


def test_a_call_that_failed_is_not_kept(path: Path) -> None:
    """Field case 16."""
    failures = [CallFailed("provider", "500", Usage(prompt=3))]

    def answer(request: Request) -> str:
        if failures:
            raise failures.pop()
        return "fine"

    model = BlockingScripted(answer)
    store = cached(model, path)
    with pytest.raises(CallFailed, match="500"):
        ask(store)
    assert [ask(store).usage == HIT for _ in range(2)] == [False, True]


def test_without_the_cache_nothing_is_read_or_written(path: Path) -> None:
    """Field case 38."""
    model = Scripted(counter())
    ask(cached(model, path))
    before = path.read_bytes()
    plain = cached(model, path, cache=False)
    assert [ask(plain).text[:8] for _ in range(2)] == ["answer 1", "answer 2"]
    assert path.read_bytes() == before
    missing = path.with_name("none")
    ask(cached(model, missing, cache=False))
    assert not missing.exists()
    assert ask(cached(model, path)).text.startswith("answer 0")


DAMAGES = {
    "truncated": "UPDATE replies SET reply = substr(reply, 1, 5)",
    "flipped": "UPDATE replies SET reply = replace(reply, x'6e', x'6d')",
    "no digest": "UPDATE replies SET digest = NULL",
    "text": "UPDATE replies SET reply = 'hello'",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_row_is_fetched_again_and_replaced(path: Path, damage: str) -> None:
    """Field case 39."""
    model = Scripted(counter())
    ask(cached(model, path))
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(DAMAGES[damage]).rowcount == 1
    assert ask(cached(model, path)).text.startswith("answer 1")
    assert ask(cached(model, path)) == Reply("answer 1 é?", "stop", HIT)


def test_a_file_of_something_else_is_named_and_left_as_it_is(path: Path) -> None:
    for content in (b"a,b\n1,2\n", b"\0" * 4096, b"SQLite format 3\0" + b"x" * 200):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=r"replies\.sqlite: no(t a)? cache of responses"):
            cached(Scripted(), path)
        assert path.read_bytes() == content
    path.unlink()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE other (a)")
    content = path.read_bytes()
    with pytest.raises(UsageError, match="not a cache of responses of this version"):
        cached(Scripted(), path)
    assert path.read_bytes() == content
    with pytest.raises(UsageError, match="cannot be opened"):
        cached(Scripted(), path.parent / "missing" / "file")
    with pytest.raises(UsageError, match="cannot be opened"):
        cached(Scripted(), path.parent)


def test_the_files_are_private(path: Path) -> None:
    path.touch(0o644)
    ask(cached(Scripted(), path), Request("topic"))
    modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {0o600}


def test_a_file_that_breaks_later_costs_calls_and_no_run(path: Path) -> None:
    model = Scripted(counter())
    store = cached(model, path)
    with closing(connect(str(path))) as other:
        other.execute("DROP TABLE replies")
    with pytest.warns(RuntimeWarning, match="not read, or not kept: no such table"):
        assert ask(store).text.startswith("answer 0")
    assert len(model.asked) == 1


def test_many_threads_share_one_file(path: Path) -> None:
    models = [BlockingScripted(lambda request: f"to {request.user}") for _ in range(4)]
    stores = [cached(model, path) for model in models]

    def work(number: int) -> set[str]:
        return {ask(stores[number % 4], Request(f"q{i}")).text for i in range(20)}

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    assert found == [{f"to q{i}" for i in range(20)}] * 8
    assert all(ask(stores[0], Request(f"q{i}")).usage == HIT for i in range(20))


PROCESS = """
import asyncio, sys
from agentdescent_adapters.providers.cache import cached
from agentdescent_adapters.providers.model import Request
from tests.adapters.scripted import Scripted

model = cached(Scripted(lambda request: f"to {request.user}"), sys.argv[1])
texts = [asyncio.run(model.complete(Request(f"q{i}"))).text for i in range(100)]
assert texts == [f"to q{i}" for i in range(100)], texts
"""


def test_many_processes_make_and_share_one_file(path: Path) -> None:
    where = os.pathsep.join((str(ROOT), str(ROOT / "adapters")))
    command = [sys.executable, "-W", "error", "-c", PROCESS, str(path)]
    started = [subprocess.Popen(command, env={**os.environ, "PYTHONPATH": where}) for _ in range(4)]
    assert [process.wait(timeout=120) for process in started] == [0] * 4
    assert ask(cached(Scripted(), path), Request("q99")) == Reply("to q99", "stop", HIT)


def test_a_cached_model_can_be_sent_to_another_process(path: Path) -> None:
    store, asked = cached(BlockingScripted(), path), Request("topic1")
    ask(store, asked)
    again = pickle.loads(pickle.dumps(store))
    assert ask(again, asked).usage == HIT
    assert (again.name, again.repeat, again.terms) == (store.name, "charged", store.terms)


@pytest.mark.parametrize("kind", [Scripted, BlockingScripted])
def test_a_second_run_costs_nothing_and_says_why(path: Path, kind: type[Scripted]) -> None:
    model = kind()
    first, second = run(cached(model, path)), MemoryLog()
    assert first.spend.total.tokens == model.billed > 0
    again = run(cached(model, path), log=second, max_tokens=100_000)
    assert (again.spend.total.tokens, again.spend.total.calls, again.rendered) == (0, 0, first.rendered)
    outcomes = [event for event in second.events() if isinstance(event, RolledOut)]
    assert len(outcomes) > 0
    assert all(event.usage == HIT for event in outcomes)
    assert again.state.governor.hits > len(outcomes)
    assert replay(second.events()).divergence is None


def test_a_run_is_resumed_with_the_cache_and_pays_only_for_what_is_new(path: Path) -> None:
    model, plain, log = Scripted(), Scripted(), MemoryLog()
    whole = run(cached(model, path), rounds=6)
    run(plain, log=log, rounds=1)
    paid = model.billed
    resumed = run(cached(model, path), log=log, rounds=6)
    assert model.billed == paid
    assert resumed.spend.total.tokens == plain.billed < whole.spend.total.tokens
    assert resumed.state.governor.hits > 0
    assert (resumed.rendered, resumed.final) == (whole.rendered, whole.final)


def test_a_child_that_cannot_open_the_file_asks_without_it(path: Path) -> None:
    """Where a fork has copied the connection, the child opens one of its own."""
    store = Store(path)
    store._process = -1
    for one in list(path.parent.iterdir()):
        one.rename(one.with_name(f"moved-{one.name}"))
    path.mkdir()
    with pytest.warns(RuntimeWarning, match="was not read"):
        assert store.get(b"key") is None
    with pytest.warns(RuntimeWarning, match="not kept"):
        store.put(b"key", Reply("a", "stop", None))
