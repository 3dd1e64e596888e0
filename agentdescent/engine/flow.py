"""How far the workers of the continuous schedule run ahead of the merge.

A *lane* is a place for one turn at a time. A worker has one; under ordered admission it has `window` of them, so that
a slow answer, which all later ones wait for, keeps nobody idle. Lane l belongs to worker l mod n_workers.

A turn starts only while the proposals that are unmerged, and those that turns in progress are expected to bring, stay
within `async_ratio` merges of `merge_size`. What a turn brings is the share of those so far that brought a proposal
to the merge, n_workers turns of it assumed at the start so that every worker may begin. So where few turns bring
anything, as late in a run, the whole window is used; where all do, nobody works on what the next commit makes stale.

On the rounds schedule there is no lane, and nothing here changes.
"""

from __future__ import annotations

from agentdescent.engine.spec import Spec
from agentdescent.merge.width import MAX_WIDTH
from agentdescent.record import Record, replace


class Flow(Record, frozen=True):
    """`idle`: lanes without a turn, next first. `retired`: lanes that start no more. `ended`: turns so far; `brought`:
    how many of them brought a proposal to the merge."""

    idle: tuple[int, ...] = ()
    retired: int = 0
    ended: int = 0
    brought: int = 0


def lanes(spec: Spec) -> int:
    """Turns that may be in progress at once."""
    ahead = spec.schedule == "continuous" and spec.admission == "ordered"
    return spec.n_workers * (spec.window if ahead else 1)


def all_idle(spec: Spec) -> Flow:
    return Flow(tuple(range(lanes(spec)))) if spec.schedule == "continuous" else Flow()


def turn_began(flow: Flow, lane: int) -> Flow:
    """In an idle lane, or in one whose turn could not go on, which ends with that."""
    idle = flow.idle
    if idle and idle[0] == lane:
        return replace(flow, idle=idle[1:])
    if lane in idle:
        return replace(flow, idle=tuple(other for other in idle if other != lane))
    return replace(flow, ended=flow.ended + 1)


def turn_ended(flow: Flow, lane: int, *, brought: bool, retired: bool) -> Flow:
    idle = flow.idle if retired else (*flow.idle, lane)
    return Flow(idle, flow.retired + retired, flow.ended + 1, flow.brought + brought)


def in_progress(flow: Flow, spec: Spec) -> int:
    return lanes(spec) - len(flow.idle) - flow.retired


def next_round(flow: Flow, spec: Spec) -> int:
    """The round of the next turn: every n_workers turns are one."""
    return (flow.ended + in_progress(flow, spec)) // spec.n_workers + 1


def _width(spec: Spec) -> int:
    """Cards that a merge may wait for on account of the width of a fusion."""
    width = spec.fusion_width
    return MAX_WIDTH if width == "adaptive" else 1 if width == "all" else width


def within_bound(flow: Flow, spec: Spec, unmerged: int) -> bool:
    """Whether one more turn keeps what is unmerged, and expected, within async_ratio merges."""
    bound, turns = spec.async_ratio * max(spec.merge_size, _width(spec)), flow.ended + spec.n_workers
    expected = (in_progress(flow, spec) + 1) * (flow.brought + bound)
    return unmerged * turns + expected <= bound * turns
