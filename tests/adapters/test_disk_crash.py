"""Crashes of the machine: what was synced is there, what was not may be gone, and what is there agrees."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.errors import UsageError
from bench.lossy_files import LossyFiles
from tests.adapters.disk_runs import STEPS, Errand, QuickFiles, Step

texts = st.sampled_from(("keep", "digest"))
fsyncs = st.sampled_from(("always", "interval"))
lives = st.lists(st.tuples(st.lists(st.sampled_from(STEPS), max_size=40), st.integers(0, 2**32)), max_size=4)


@pytest.fixture(name="fresh")
def _fresh() -> Iterator[Iterator[Path]]:
    with tempfile.TemporaryDirectory() as directory:
        yield (Path(directory, str(n)) for n in itertools.count())


@given(texts, fsyncs, lives)
def test_a_machine_that_crashes_again_and_again(
    texts: Literal["keep", "digest"], fsync: Literal["always", "interval"], lives: list[tuple[list[Step], int]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        files = LossyFiles(QuickFiles())
        errand = Errand(Path(directory, "run"), texts=texts, fsync=fsync)
        errand.create(files)
        for steps, seed in lives:
            luck = random.Random(seed)
            for step in steps:
                errand.take(step, luck)
            files.crash(seed)
            errand.check(files)
        assert errand.log is not None
        errand.log.close()
        errand.check(files)


def _power_fails_after(calls: int, seed: int, path: Path, texts: Literal["keep", "digest"]) -> bool:
    """Run a fixed script until the power fails; False when it ended before."""
    files = LossyFiles(QuickFiles(), calls=calls)
    errand, luck = Errand(path, texts=texts, fsync="always"), random.Random(7)
    script: list[Step] = [
        "decide",
        "decide",
        "start",
        "answer",
        "admit",
        "decide",
        "start",
        "answer",
        "admit",
        "answer",
    ]
    failure = ""
    try:
        errand.create(files)
        for step in script * 3:
            errand.take(step, luck)
    except (OSError, UsageError) as error:
        failure = str(error)
    assert not failure or "the power is gone" in failure
    files.crash(seed)
    again = LossyFiles(QuickFiles())
    if errand.log is None:
        Errand(path, texts=texts, fsync="always").create(again)
    else:
        errand.check(again)
        again.crash(seed)
        errand.check(again)
    return bool(failure)


@pytest.mark.parametrize("texts", ["keep", "digest"])
def test_power_that_fails_before_any_call(texts: Literal["keep", "digest"], fresh: Iterator[Path]) -> None:
    calls = 0
    while sum(_power_fails_after(calls, seed, next(fresh), texts) for seed in range(3)):
        calls += 1
    assert calls > 50


def test_power_that_fails_while_a_crash_is_being_repaired(fresh: Iterator[Path]) -> None:
    script: list[Step] = ["decide", "decide", "start", "answer", "later", "start", "admit", "decide", "start", "answer"]
    repaired = 0
    for seed in range(15):
        root, calls, failure = next(fresh), 0, "not tried yet"
        while failure:
            errand, luck = Errand(root / str(calls), texts="keep", fsync="interval"), random.Random(seed)
            files, shaky = LossyFiles(QuickFiles()), LossyFiles(QuickFiles(), calls=calls)
            errand.create(files)
            for step in script * 3:
                errand.take(step, luck)
            files.crash(seed)
            failure = ""
            try:
                errand.check(shaky)
            except UsageError as error:
                failure = str(error)
            assert not failure or "the power is gone" in failure
            repaired += bool(errand.log and errand.log.dropped)
            shaky.crash(seed + 1)
            errand.check(LossyFiles(QuickFiles()))
            calls += 1
    assert repaired > 0
