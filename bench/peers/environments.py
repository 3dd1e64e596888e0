"""What is compared, and the virtual environments that the peers run in: made on first use, under build/peers."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

from agentdescent.errors import AgentDescentError

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "peers"
OURS = ""
PINS = {"public": "agentdescent==0.7.0", "gepa": "gepa==0.1.4", "optuna": "optuna==5.0.0"}
"""What each environment has, with what that requires."""


class Peer(NamedTuple):
    """`environment`: a key of PINS, or OURS for this interpreter and this tree. `module`: of the driver."""

    environment: str
    module: str
    variant: str = ""


REFERENCE = "agentdescent"
PEERS = {
    REFERENCE: Peer(OURS, "bench.peers.run_ours"),
    "agentdescent-thrifty": Peer(OURS, "bench.peers.run_ours", "thrifty"),
    "agentdescent-thrifty-blind": Peer(OURS, "bench.peers.run_ours", "blind"),
    "agentdescent-0.7.0": Peer("public", "bench.peers.run_public"),
    "agentdescent-0.7.0-async": Peer("public", "bench.peers.run_public", "async"),
    "gepa": Peer("gepa", "bench.peers.run_gepa"),
    "gepa-tuned": Peer("gepa", "bench.peers.run_gepa", "tuned"),
    "optuna-asha": Peer("optuna", "bench.peers.run_optuna", "asha"),
    "optuna-hyperband": Peer("optuna", "bench.peers.run_optuna", "hyperband"),
}


class NoEnvironment(AgentDescentError):
    """A peer could not be installed; the message says what to do."""


def interpreter(environment: str, kept: Path = KEPT) -> str:
    """The Python that a peer runs in; its environment is made when it is absent or has another pin. Raises
    NoEnvironment."""
    if environment == OURS:
        return sys.executable
    home, pin = kept / environment, PINS[environment]
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists() or ready.read_text(encoding="utf-8") != pin:
        try:
            _make(home, python, pin)
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            raise NoEnvironment(
                f"{pin} could not be installed into {home}: {said.strip()[-300:]}; with a package index that has it, "
                f"say the same again, or leave it out with --peers"
            ) from error
        ready.write_text(pin, encoding="utf-8")
    return str(python)


def _make(home: Path, python: Path, pin: str) -> None:
    venv.create(home, clear=True, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", pin]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
