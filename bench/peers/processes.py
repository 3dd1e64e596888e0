"""Runs of peers, each process from start to end, and what was billed outside of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agentdescent.errors import AgentDescentError
from agentdescent.record import Record
from bench.peers.driving import Plan
from bench.peers.environments import OURS, ROOT, Peer, interpreter
from bench.peers.world import KILLED

LONGEST = 300
"""Seconds that one process may take."""
LAUNCH = (
    "import json, runpy, sys; module, front, roots = json.loads(sys.argv.pop(1)); "
    "at = 0 if front else len(sys.path); sys.path[at:at] = roots; runpy.run_module(module, run_name='__main__')"
)
"""This tree comes behind what is installed: one peer has the name of this package."""


class PeerFailed(AgentDescentError):
    """A process of a peer ended as it should not; the message has the end of what it said."""


class Outcome(Record, frozen=True):
    """What a driver printed: see driving.outcome. `curve`: (tokens, true quality of what the run would hand out)."""

    candidate: str
    quality: float
    curve: tuple[tuple[int, float], ...]
    calls: int
    tokens: int
    engine_seconds: float
    versions: Mapping[str, str]


class Ran(Record, frozen=True):
    """A run that ended. `billed`: tokens, and `calls`, of all its processes, counted outside of them."""

    outcome: Outcome
    billed: int
    calls: int


def perform(peer: Peer, seed: int, cap: int, directory: Path) -> Ran:
    """One run, undisturbed. Raises PeerFailed; also when the peer's own count is not what was billed."""
    ran = _ended(peer, _plan(peer, seed, cap, directory))
    if (ran.billed, ran.calls) != (ran.outcome.tokens, ran.outcome.calls):
        raise PeerFailed(f"{peer.module}: {ran.billed} tokens were billed, and {ran.outcome.tokens} counted")
    return ran


def killed(peer: Peer, seed: int, cap: int, directory: Path, calls: int) -> Ran:
    """One run that is killed at the call after so many, and gone on with. Raises PeerFailed."""
    plan = _plan(peer, seed, cap, directory)
    done = _process(peer, plan._replace(kill_after=calls))
    if done.returncode != KILLED:
        raise PeerFailed(f"{peer.module} was to be killed after {calls} calls: {_said(done)}")
    return _ended(peer, plan)


def _plan(peer: Peer, seed: int, cap: int, directory: Path) -> Plan:
    directory.mkdir(parents=True)
    return Plan(seed, cap, str(directory / "run"), str(directory / "bills"), peer.variant)


def _ended(peer: Peer, plan: Plan) -> Ran:
    done = _process(peer, plan)
    if done.returncode:
        raise PeerFailed(f"{peer.module}, seed {plan.seed}: {_said(done)}")
    try:
        outcome = msgspec.json.decode(done.stdout.rstrip("\n").rpartition("\n")[2], type=Outcome)
    except msgspec.MsgspecError as error:
        raise PeerFailed(f"{peer.module}, seed {plan.seed}: no outcome on its last line: {error}") from error
    return Ran(outcome, *billed(Path(plan.bills)))


def billed(bills: Path) -> tuple[int, int]:
    """Tokens and calls in a file of bills."""
    lines = bills.read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[0]) for line in lines), len(lines)


def _process(peer: Peer, plan: Plan) -> subprocess.CompletedProcess[str]:
    ours = peer.environment == OURS
    roots = [str(ROOT), str(ROOT / "adapters")] if ours else [str(ROOT)]
    command = [interpreter(peer.environment), "-P", "-c", LAUNCH, json.dumps((peer.module, ours, roots))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        return subprocess.run(
            [*command, json.dumps(plan._asdict())],
            env=environment,
            cwd=Path(plan.bills).parent,
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired as error:
        raise PeerFailed(f"{peer.module}, seed {plan.seed}: no end within {LONGEST} seconds") from error


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"
