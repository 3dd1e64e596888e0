"""One run in a world without an event loop: `decide`, `apply`, and the agent called in place. What it came to."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from agentdescent.artifact.diff import Entries
from agentdescent.artifact.strategy import render
from agentdescent.effects import Performer
from agentdescent.engine.command import Rollout
from agentdescent.engine.decision import Wait, decide
from agentdescent.engine.draw import seeded
from agentdescent.engine.event import Committed, Decided, Event, GateOpened, Judged, Proposed
from agentdescent.engine.state import State, initial
from agentdescent.engine.transition import apply
from agentdescent.engine.view import entries_for
from agentdescent.engine.window import next_in_order
from agentdescent.experiment.curves import tokens_to
from agentdescent.history.recall import Recall, observe
from agentdescent.job import Options, prepare
from agentdescent.merge.verdict import FutilityEvidence
from agentdescent.ports import Item, Result, Retry
from agentdescent_adapters.worlds.calls import Immediate
from agentdescent_adapters.worlds.suite import Setting

SPARE = 1_000_000
"""Tokens by which the cap of a trial is beyond where it ends: what the engine reserves for a gate is five times what
one costs, and a run is to be cut off by the bench, not by that."""

_TEXTS = 64


class Trial(NamedTuple):
    """`path`: after the start and after each commit, the tokens spent and the true quality. `tokens`, `calls`: charged;
    `made`: calls of the agent; `assumed`: tokens charged at a reservation. `useless`: commits that gained nothing in
    truth. `won`, `lost`: true quality gained by commits, and given up with candidates that were judged futile for good.
    `recall`: what the log itself says of that."""

    path: tuple[tuple[int, float], ...]
    tokens: int
    assumed: int
    calls: int
    made: int
    proposals: int
    commits: int
    useless: int
    won: float
    lost: float
    recall: Recall = Recall()

    def tokens_to(self, quality: float, never: int) -> int:
        """Tokens spent when the quality was reached first, at most `never`."""
        return tokens_to(self.path, quality, never)

    def at(self, tokens: int) -> float:
        """The quality when so many tokens were spent."""
        return next((quality for spent, quality in reversed(self.path) if spent <= tokens), 0.0)

    def best(self, cap: int) -> float:
        """The highest quality that was reached within so many tokens."""
        return max((quality for tokens, quality in self.path if tokens <= cap), default=0.0)


class _Tally:
    """What is counted on the way: everything that only the world knows."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.path: list[tuple[int, float]] = []
        self.gates: dict[int, float] = {}
        self.proposals = self.useless = self.commits = 0
        self.won = self.lost = 0.0
        self.recall = Recall()

    def see(self, event: Event, before: State, after: State) -> None:
        self.recall = observe(self.recall, event)
        match event:
            case Proposed():
                self.proposals += 1
            case GateOpened():
                sweep = after.sweep
                gate = next(gate for gate in sweep.gates if gate.subject == event.subject) if sweep else None
                if gate is not None:
                    self.gates[event.subject] = self._quality(render(after.spec.strategy, gate.entries))
            case Judged():
                proposed = self.gates.pop(event.subject, None)
                stopped = isinstance(event.evidence, FutilityEvidence) and not event.evidence.split
                if proposed is not None and stopped:
                    self.lost += max(0.0, proposed - self.path[-1][1])
            case Committed():
                reached, had = self._head(after), self.path[-1][1]
                self.path.append((after.governor.spent.tokens, reached))
                self.commits += 1
                self.useless += reached <= had
                self.won += reached - had
            case _:
                if before.base is not None and after.base is None:
                    self.path.append((after.governor.spent.tokens, self._head(after)))

    def _head(self, state: State) -> float:
        return self._quality(render(state.spec.strategy, state.head.version.entries))

    def _quality(self, rendered: str) -> float:
        return self.setting.agent.quality(rendered)


def performed(performer: Performer, item: Item) -> Result:
    """The outcome of a call, as the driver would record it."""
    result = performer.call(item)
    if isinstance(result, Retry):
        return result.failed, ""
    if not isinstance(result, tuple):
        raise TypeError("the agent of a trial returns at once")
    return result


def trial(
    setting: Setting,
    options: Options,
    cap: int,
    until: float | None = None,
    watch: Callable[[Event], object] | None = None,
) -> Trial:
    """Run until `cap` tokens are spent, the true quality `until` is reached or the run ends by itself. A call that
    hangs fails at once, as one of unknown usage. `options` are those of `evolve`, with a cap of tokens of their own
    only where there is to be another than one that never binds."""
    given: Options = {
        "max_tokens": cap + SPARE,
        "rounds": None,
        **setting.options,
        **options,
        "agent": Immediate(setting.agent),
    }
    job = prepare(setting.tasks, setting.scorer, given)
    performer = Performer(job.ports, job.tasks, job.spec.strategy)
    draw, tally = seeded(job.spec.seed), _Tally(setting)
    state = initial(job.spec, job.setup)
    texts: dict[str, tuple[Entries, str]] = {}
    outputs: dict[int, str] = {}
    asked: dict[int, tuple[Decided, Item]] = {}
    while True:
        step = decide(state, draw)
        event: Event
        if isinstance(step, Wait):
            decided, item = asked.pop(next_in_order(step.window) if step.ordered else step.admissible[0])
            event, output = performed(performer, item)
            if isinstance(decided.command, Rollout) and decided.command.purpose == "rollout":
                outputs[decided.worker] = output
        else:
            event = step
        if watch is not None:
            watch(event)
        before, state = state, apply(state, event)
        if isinstance(event, Decided):
            artifact = event.command.artifact
            if artifact not in texts:
                entries = entries_for(state, event)
                if len(texts) > _TEXTS:
                    texts.clear()
                texts[artifact] = entries, render(job.spec.strategy, entries)
            asked[event.command.id] = event, Item(event.command, *texts[artifact], outputs.get(event.worker, ""))
        tally.see(event, before, state)
        spent = state.governor.spent
        reached = until is not None and tally.path and tally.path[-1][1] >= until - 1e-9
        if state.stopped is not None or spent.tokens >= cap or reached:
            break
    return Trial(
        tuple(tally.path),
        spent.tokens,
        state.governor.assumed,
        spent.calls,
        setting.agent.calls,
        tally.proposals,
        tally.commits,
        tally.useless,
        tally.won,
        tally.lost,
        tally.recall,
    )
