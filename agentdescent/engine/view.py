"""What a command stands for: the text an effect needs, found in the state that wants it."""

from __future__ import annotations

from typing import assert_never

from agentdescent import vector
from agentdescent.artifact.diff import Entries, change
from agentdescent.engine.command import Rollout
from agentdescent.engine.event import Decided
from agentdescent.engine.population import dev_head
from agentdescent.engine.state import State
from agentdescent.errors import IllegalEvent
from agentdescent.merge.contest import entrant_of


def entries_for(state: State, decided: Decided) -> Entries:
    """The entries of the artifact that an open command names by digest."""
    command = decided.command
    if command.artifact == state.head.version.artifact:
        return state.head.version.entries
    if decided.worker >= 0:
        worker = vector.get(state.workers, decided.worker)
        if worker.copy is not None:
            if isinstance(command, Rollout) and command.purpose == "verify" and worker.card is not None:
                return change(worker.copy.entries, worker.card.ops)
            return worker.copy.entries
    if isinstance(command, Rollout) and state.sweep is not None:
        match command.purpose:
            case "gate" | "audit":
                for gate in state.sweep.gates:
                    if gate.subject == decided.subject:
                        return gate.entries
            case "rebase" | "conflict":
                # The head may have moved since: what is measured is a change to the head it was decided against.
                trial, duel = state.sweep.trial, state.sweep.duel
                if trial is not None and command.artifact == trial.artifact:
                    return trial.entries
                measured = trial or duel
                for card in (*state.sweep.intake, *state.sweep.kept):
                    if measured is not None and card.subject == decided.subject:
                        return change(measured.entries, card.ops)
            case "tournament":
                candidate = state.sweep.candidate
                entrant = None if candidate is None else entrant_of(candidate, decided.subject)
                if entrant is not None:
                    return entrant.entries
            case "base" | "rollout" | "propose" | "verify" | "score" | "test":
                pass
            case _:
                assert_never(command.purpose)
    dev = dev_head(state).version
    if command.artifact == dev.artifact:
        return dev.entries
    raise IllegalEvent(f"nothing in the state holds artifact {command.artifact} of command {command.id}")
