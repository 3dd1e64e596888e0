"""Curtailment in whole runs: no verdict changes, nothing certain is asked for, nothing possible is rejected.

What `weigh` does with one gate is tried out exhaustively in tests/merge/test_gate.py.
"""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings

from agentdescent import Caps, apply, initial, vector
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Committed, Decided, Event, GateOpened, Judged, RolledOut
from agentdescent.merge.acceptance import MILLION
from agentdescent.merge.rule import accepts
from agentdescent.merge.unpaired import Counts
from agentdescent.merge.verdict import GateEvidence
from agentdescent.record import replace
from tests.strategies import Job, any_job
from tests.world import calls, play

FREE = Caps(rounds=3)
GRID = (0, 300_000, MILLION)


def verdicts(log: list[Event]) -> list[tuple[int, str, tuple[int, ...]]]:
    """Why a rejection was certain depends on what was asked; that it is one does not."""
    rejected = ("regression", "below-threshold")
    return [
        (event.subject, "rejected" if event.outcome in rejected else event.outcome, event.contributors)
        for event in log
        if isinstance(event, Judged)
    ]


@given(any_job(failing=False))
def test_it_changes_no_verdict_and_asks_no_more(job: Job) -> None:
    """On rounds, with one gate at a time and a cap that never binds: same candidates, same verdicts, same commits."""
    spec, setup, world = job
    spec = replace(spec, caps=FREE, open_gates=1, admission="ordered", schedule="rounds")
    _, curtailed = play(replace(spec, curtail=True), setup, world)
    _, full = play(replace(spec, curtail=False), setup, world)
    assert verdicts(curtailed) == verdicts(full)
    assert [event for event in curtailed if isinstance(event, Committed)] == [
        event for event in full if isinstance(event, Committed)
    ]
    asked, all_of_them = len(calls(curtailed, "gate")), len(calls(full, "gate"))
    assert asked <= all_of_them
    swept = [event.evidence for event in full if isinstance(event, Judged) and isinstance(event.evidence, GateEvidence)]
    assert [one.answered for one in swept] == [one.total for one in swept]


class Sweep:
    """One gate, from the log alone: the frozen base, what was answered, and what every completion would come to."""

    def __init__(self, opened: GateOpened, base: tuple[int, ...], known: dict[int, int]) -> None:
        self.opened = opened
        self.base = base
        self.known = known

    def certain(self, known: dict[int, int]) -> bool:
        """No completion on the grid is accepted."""
        missing = [position for position in range(len(self.base)) if position not in known]
        for values in product(GRID, repeat=len(missing)):
            scores = {**known, **dict(zip(missing, values, strict=True))}
            gain = sum(max(0, scores[p] - was) for p, was in enumerate(self.base))
            loss = sum(max(0, was - scores[p]) for p, was in enumerate(self.base))
            opened, counts = self.opened, Counts(sum(self.base), len(self.base))
            if accepts(opened.prior, counts, gain, loss, opened.weight_gain, opened.weight_loss, opened.bar):
                return False
        return True


@settings(max_examples=80)
@given(any_job(failing=False))
def test_what_is_rejected_could_not_be_accepted_and_what_is_asked_could(job: Job) -> None:
    spec, setup, world = job
    spec = replace(spec, caps=FREE, heldout_limit=5, curtail=True, wave_min=1)
    _, log = play(spec, setup, world, watched=False)
    state = initial(spec, setup)
    gates: dict[int, Sweep] = {}
    asked: dict[int, tuple[int, int]] = {}
    for event in log:
        after = apply(state, event)
        if isinstance(event, GateOpened):
            assert after.sweep is not None
            probe = next(gate for gate in after.sweep.gates if gate.subject == event.subject).probe
            seen = {p: value for p, value in enumerate(vector.items(probe.scores.values)) if value >= 0}
            gates[event.subject] = Sweep(event, tuple(vector.items(after.head.scores.values)), seen)
        elif isinstance(event, Decided) and isinstance(event.command, Rollout) and event.command.purpose == "gate":
            gate, position = gates[event.subject], state.position[event.command.task]
            open_now = {at: 0 for subject, at in asked.values() if subject == event.subject}
            # Also if everything that is open already came back as 0: so nothing of a wave is asked for in vain.
            assert not gate.certain({**gate.known, **open_now})
            asked[event.command.id] = (event.subject, position)
        elif isinstance(event, RolledOut) and event.id in asked:
            subject, position = asked.pop(event.id)
            gates[subject].known[position] = event.score
        elif isinstance(event, Judged) and event.outcome in ("below-threshold", "regression"):
            assert gates[event.subject].certain(gates[event.subject].known)
        state = after
