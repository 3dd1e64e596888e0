"""What the contract checks share: a way to say what is broken, and facts to try things on."""

from __future__ import annotations

from agentdescent.artifact.diff import digest
from agentdescent.budget.usage import Amount, Usage
from agentdescent.engine.command import Propose, Rollout
from agentdescent.engine.event import Decided, RolledOut

TEXTS = ("solved", "", '北京 🌍\r\n\x00\u2028 \\ "quoted"', "x" * 200_000)


def expect(holds: bool, contract: str) -> None:
    """Raise AssertionError; unlike `assert` also under `python -O`."""
    if not holds:
        raise AssertionError(contract)


def rollout_of(command: int, worker: int) -> Decided:
    return Decided(Rollout(command, "rollout", "a" * 32, 0, 512, Amount(tokens=600)), 1, worker)


def proposal_of(command: int, rollout: int, worker: int) -> Decided:
    return Decided(Propose(command, "a" * 32, rollout, 0, 0, 250_000, 512, Amount(tokens=600)), 1, worker, 0)


def output_of(command: int, text: str) -> RolledOut:
    data = text.encode()
    return RolledOut(command, 250_000, len(data), digest(data), Usage(prompt=90, completion=10))
