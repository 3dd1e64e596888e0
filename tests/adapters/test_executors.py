"""Executors by name, and worker processes that die, hang, and cannot be sent what they need."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentdescent import MemoryLog, RunError, Task, Usage, UsageError, evolve
from agentdescent.engine.event import Failed, RolledOut, Started
from agentdescent.ports import Executor, Item, Repeat
from agentdescent_adapters.command.main import main
from agentdescent_adapters.executors import Dask, Processes, executor_named
from tests.adapters.distant import Mortal, Solver, Told, item, performer, right

ROOT = Path(__file__).parent.parent.parent
PATH = os.pathsep.join([str(ROOT), str(ROOT / "adapters")])


def ours() -> set[int]:
    return {child.pid or 0 for child in multiprocessing.active_children()}


@contextmanager
def opened(executor: Processes, agent: object, *prompts: str) -> Iterator[Told]:
    """Nothing is left of it afterwards."""
    before = ours()
    work = performer(agent, *prompts)
    executor.open(work.remote(), work.ports.repeat)
    try:
        yield Told()
    finally:
        executor.close()
    assert ours() == before


def failed(result: Any) -> Failed:
    assert isinstance(result, tuple)
    outcome, text = result
    assert isinstance(outcome, Failed)
    assert text == ""
    return outcome


def wait_for(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


# --- names ------------------------------------------------------------------------------------------------------------


def test_executors_by_name() -> None:
    assert executor_named("threads", 4, 120.0) is None
    assert isinstance(executor_named("processes", 4, 120.0), Processes)
    assert isinstance(executor_named("dask://127.0.0.1:8786", 4, 120.0), Dask)
    assert isinstance(executor_named("processes", 4, 120.0), Executor)


@pytest.mark.parametrize("text", ["", "process", "dask", "dask://", "dask://host", "dask://:1", "tcp://127.0.0.1:8786"])
def test_another_name_is_answered_with_what_there_is(text: str) -> None:
    with pytest.raises(UsageError, match="it is threads, processes or dask://HOST:PORT"):
        executor_named(text, 4, 120.0)


def test_without_distributed_dask_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'agentdescent\[dask\]'"):
        executor_named("dask://127.0.0.1:8786", 4, 120.0)


def test_importing_executors_does_not_import_distributed() -> None:
    code = "import sys, agentdescent_adapters.executors; print('distributed' in sys.modules, 'dask' in sys.modules)"
    assert fresh(code).stdout == "False False\n"


@pytest.mark.parametrize("workers", [0, -1, 2.0, True])
def test_a_number_of_processes_is_a_number(workers: Any) -> None:
    with pytest.raises(UsageError, match="workers is"):
        Processes(workers)


# --- what cannot be sent ----------------------------------------------------------------------------------------------


class Locked(Solver):
    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_what_cannot_be_sent_is_named_and_nothing_is_spent() -> None:
    log, tasks = MemoryLog(), [Task(f"t{n}", "x") for n in range(9)]
    with pytest.raises(UsageError, match=r"the agent \(solver\) cannot be sent .*lock.*at module level"):
        evolve(tasks, right, agent=Locked(), executor=Processes(1), log=log)
    assert [type(event) for event in log.events()] == [Started]
    with pytest.raises(UsageError, match=r"the reward \(.*<lambda>\) cannot be sent"):
        evolve(tasks, lambda task, output: 1.0, agent=Solver(), executor=Processes(1))
    work = performer(Solver(), "x")
    work.tasks = [Task("odd", "x", {"lock": threading.Lock()})]
    with pytest.raises(UsageError, match="task 'odd' cannot be sent"):
        Processes(1).open(work.remote(), "free")


class Gone:
    """Pickled here, and not to be loaded elsewhere."""

    def __call__(self, item: Item) -> Any: ...

    def __reduce__(self) -> Any:
        return _only_here, (os.getpid(),)


def _only_here(pid: int) -> Gone:
    if os.getpid() != pid:
        raise ModuleNotFoundError("No module named 'mine'")
    return Gone()


def test_what_cannot_be_loaded_there_is_named() -> None:
    before, executor = ours(), Processes(2)
    with pytest.raises(UsageError, match="No module named 'mine'"):
        executor.open(Gone(), "free")
    executor.close()
    assert ours() == before


class Strange:
    """Returns what cannot be pickled, and what cannot be loaded."""

    def __call__(self, item: Item) -> Any:
        return (lambda: None) if item.command.id == 0 else Gone()


def test_results_that_cannot_be_sent_back_are_failures() -> None:
    executor, told = Processes(1), Told()
    executor.open(Strange(), "charged")
    executor.submit(item(0), told.done(0))
    executor.submit(item(1), told.done(1))
    executor.submit(item(2)._replace(value=threading.Lock(), answered=True), told.done(2))
    results = [failed(result) for result in told.wait(0, 1, 2)]
    executor.close()
    assert [(result.kind, result.usage) for result in results] == [("contract", None)] * 3
    assert "cannot be sent back" in results[0].message
    assert "cannot be read here" in results[1].message
    assert "cannot be sent to be scored" in results[2].message


# --- processes that die and hang --------------------------------------------------------------------------------------


def test_a_death_is_blamed_on_the_effect_that_was_performed(tmp_path: Path) -> None:
    agent = Mortal(tmp_path / "calls", "charged")
    executor = Processes(2)
    with opened(executor, agent, "live", "die") as told:
        for number in range(20):
            executor.submit(item(number, number % 10 == 5), told.done(number))
        results = told.wait(*range(20))
    dead = [failed(result) for number, result in enumerate(results) if number % 10 == 5]
    assert [(one.kind, one.message, one.usage) for one in dead] == [
        ("provider", "the process that performed it died (signal 9)", None)
    ] * 2
    lived = [result[1] for number, result in enumerate(results) if number % 10 != 5]
    assert all(pid.isdecimal() for pid in lived)
    assert (agent.calls().count("die"), agent.calls().count("live")) == (2, 18)


@pytest.mark.parametrize(("repeat", "times"), [("free", 3), ("charged", 1)])
def test_only_what_is_free_is_performed_again(repeat: Repeat, times: int, tmp_path: Path) -> None:
    agent, executor = Mortal(tmp_path / "calls", repeat), Processes(1)
    with opened(executor, agent, "die once", "die", "live") as told:
        for number in range(3):
            executor.submit(item(number, number), told.done(number))
        once, always, after = told.wait(0, 1, 2)
    assert isinstance(once[0], RolledOut) == (repeat == "free")
    assert failed(always).kind == "provider"
    assert isinstance(after[0], RolledOut)
    assert agent.calls().count("die") == times
    assert agent.calls().count("die once") == (2 if repeat == "free" else 1)


def test_a_process_that_was_idle_when_it_died_is_replaced_and_costs_nothing(tmp_path: Path) -> None:
    agent, executor = Mortal(tmp_path / "calls", "charged"), Processes(1)
    with opened(executor, agent, "live") as told:
        executor.submit(item(0), told.done(0))
        pid = int(told.wait(0)[0][1])
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not alive(pid))
        executor.submit(item(1), told.done(1))
        assert int(told.wait(1)[0][1]) != pid
    assert agent.calls() == ["live", "live"]


def test_a_process_that_hangs_is_killed_and_replaced(tmp_path: Path) -> None:
    agent, executor = Mortal(tmp_path / "calls", "free"), Processes(1, deadline=3.0)
    with opened(executor, agent, "hang", "live") as told:
        executor.submit(item(0, 0), told.done(0))
        hung = failed(told.wait(0)[0])
        executor.submit(item(1, 1), told.done(1))
        assert isinstance(told.wait(1)[0][0], RolledOut)
    assert (hung.kind, hung.message, hung.usage) == ("timeout", "no answer within 3 s", None)
    assert agent.calls() == ["hang", "live"]


def test_what_waited_too_long_for_a_process_is_not_begun(tmp_path: Path) -> None:
    agent, executor = Mortal(tmp_path / "calls", "free"), Processes(1, deadline=0.5)
    with opened(executor, agent, "hang", "live") as told:
        executor.submit(item(0, 0), told.done(0))
        executor.submit(item(1, 1), told.done(1))
        late = failed(told.wait(0, 1)[1])
    assert (late.kind, late.usage) == ("timeout", Usage())
    assert agent.calls() == ["hang"]


def test_a_run_goes_on_where_processes_die(tmp_path: Path) -> None:
    tasks = [Task(f"t{n}", "die" if n == 3 else f"live {n}") for n in range(12)]
    agent = Mortal(tmp_path / "calls", "charged")
    log = MemoryLog()
    with pytest.raises(RunError, match="the process that performed it died"):  # one held-out task never has a score
        evolve(tasks, right, agent=agent, executor=Processes(2), log=log, rounds=1)
    deaths = [event for event in log.events() if isinstance(event, Failed)]
    assert {event.kind for event in deaths} == {"provider"}
    assert agent.calls().count("die") == len(deaths) >= 1


# --- the end ----------------------------------------------------------------------------------------------------------


def fresh(code: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


HANGING = """
import os, sys, time
from pathlib import Path
from tests.adapters.distant import *
from agentdescent_adapters.executors import Processes

if __name__ == "__main__":
    agent, executor = Mortal(Path(sys.argv[1]), "free"), Processes(2)
    work = performer(agent, "live", "hang")
    executor.open(work.remote(), "free")
    told = Told()
    executor.submit(item(0, 0), told.done(0))
    executor.submit(item(1, 0), told.done(1))
    executor.submit(item(2, 1), told.done(2))
    pids = {result[1] for result in told.wait(0, 1)}
    while "hang" not in agent.calls():
        time.sleep(0.01)
    print(*pids, flush=True)
    END
"""


@pytest.mark.parametrize("end", ["sys.exit(0)", "os.kill(os.getpid(), 9)"])
def test_no_process_outlives_the_run(end: str, tmp_path: Path) -> None:
    """Not when the interpreter exits without `close` in the midst of a call, nor when it is killed."""
    script = tmp_path / "hanging.py"
    script.write_text(HANGING.replace("END", end), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "calls")],
        env={**os.environ, "PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode in (0, -9), done.stderr
    pids = [int(pid) for pid in done.stdout.split()]
    assert pids
    wait_for(lambda: not any(alive(pid) for pid in pids))


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from tests.adapters.distant import *\n"
        "from agentdescent_adapters.executors import Processes\n"
        "Processes(1).open(performer(Solver(), 'x').remote(), 'free')\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert 'under `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]


# --- the command line -------------------------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    code = main([*arguments, "--json", "--quiet"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out.splitlines()[-1]) if printed.out else {}, printed.err


def test_the_command_line_gives_the_same_log_in_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = ["run", "--tasks", "demo", "--max-tokens", "60000", "--workers", "2"]
    code, threads, _ = run(capsys, *job, "--executor", "threads", "--out", str(tmp_path / "THREADS"))
    assert code == 0
    out = str(tmp_path / "PROCESSES")
    code, processes, _ = run(capsys, *job, "--executor", "processes", "--out", out)
    assert code == 0
    assert processes["version"] > 0
    assert {**processes, "run": ""} == {**threads, "run": ""}
    code, more, _ = run(capsys, "resume", out, "--max-tokens", "70000", "--executor", "threads")
    assert (code, more["cap"]) == (0, 70_000)
    assert main(["replay", out, "--check"]) == 0


def test_an_executor_that_cannot_be_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "RUN"
    code, _, err = run(capsys, "run", "--tasks", "demo", "--executor", "cluster", "--out", str(out))
    assert (code, out.exists()) == (2, False)
    assert err == "agentdescent: executor 'cluster': it is threads, processes or dask://HOST:PORT\n"
