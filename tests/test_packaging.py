"""The wheel, installed in an empty environment, does what the README says, and brings no other import name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = target.glob("*.whl")
    return built


def test_the_wheel_holds_two_packages_and_no_more(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"agentdescent", "agentdescent_adapters"}
    assert {"agentdescent/py.typed", "agentdescent_adapters/py.typed"} <= set(names)
    assert "agentdescent_adapters/demo/messages.csv" in names
    assert not [name for name in names if name.endswith((".pyc", ".bak"))]


def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "env"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([python, "-m", "pip", "install", *quiet, str(wheel)], check=True, env=environment, cwd=tmp_path)
    demo = subprocess.run(
        [home / "bin" / "agentdescent", "demo", "--out", "RUN", "--json", "--quiet"],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    shown = json.loads(demo.stdout.splitlines()[-1])
    assert shown["final"] > shown["base"] + 0.4
    assert shown["spent"] <= shown["cap"]
    again = subprocess.run(
        [home / "bin" / "agentdescent", "replay", "RUN", "--check", "--json"],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    replayed = json.loads(again.stdout.splitlines()[-1])
    assert (replayed["identical"], replayed["digest"]) == (True, shown["digest"])
