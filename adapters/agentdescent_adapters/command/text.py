"""What the command line prints for people."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from agentdescent.history.lineage import Line
from agentdescent.history.summary import Spend
from agentdescent_adapters.command import plan
from agentdescent_adapters.command.execution import Ended, recall_loss
from agentdescent_adapters.telemetry.files import Status
from agentdescent_adapters.telemetry.gauge import bar, can_draw
from agentdescent_adapters.telemetry.live import one_line, printable

_WIDTH = 40


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"


def report(ended: Ended) -> str:
    """Base to final, the rules, what was spent on what, and what to do next."""
    result = ended.result
    lines = ["", f"held-out   {_percent(result.base)} -> {_percent(result.final)}"]
    if result.test_base is not None or result.test_final is not None:
        interval = result.test_interval
        between = f"  (95 % interval {interval[0]:.1%} to {interval[1]:.1%})" if interval is not None else ""
        lines.append(f"test       {_percent(result.test_base)} -> {_percent(result.test_final)}{between}")
    if ended.baselines is not None:
        lines.append(f"           {max(ended.baselines):.1%} by the most telling word of each label")
    lines.append(f"stopped    {result.stop_reason} after {result.rounds} rounds, {result.commits} commits")
    if result.error:
        lines.append(f"error      {one_line(result.error)}")
    lines += ["", *printable(result.rendered).splitlines(), ""]
    lines += spending(result.spend, result.state.governor.caps.tokens)
    lines.append(plan.short(plan.of_run(result.state)))
    for one in [] if result.budget is None else result.budget.degraded:
        lines.append(f"no {one.purpose} from round {one.round} on, at {one.tokens:,} tokens: the cap was near")
    allocator = result.allocator
    if allocator is not None:
        lines.append(
            f"allocator: {allocator.n_decisions:,} decisions, {allocator.n_skipped:,} skipped, "
            f"{allocator.n_counterfactual:,} tried all the same, {allocator.n_committed:,} committed"
        )
    saved = result.saved
    lines.append(
        f"stopped early: {saved.gates} gates, {saved.calls:,} calls not made, about {saved.tokens:,} tokens saved"
    )
    lost = recall_loss(result)
    if lost is not None:
        low, high = lost["interval"]
        lines.append(
            f"futility: {lost['stopped']:,} gates stopped, {lost['finished']:,} completed all the same; gain lost: "
            f"{_percent(lost['estimate'])} (95 % interval {low:.1%} to {high:.1%})"
        )
    if result.population:
        lines.append(f"population: {len(result.population):,} artifacts")
    lines.append(f"of {result.commits} commits, {result.expected_junk:.1f} are expected to be no improvement")
    lines += ["", "next:"]
    lines += [f"  agentdescent {verb}" for verb in next_commands(ended.run, result.stop_reason)]
    return "\n".join(lines)


def next_commands(run: str, reason: str) -> list[str]:
    cap = reason if reason.startswith("max_") else "rounds"
    raised = f"resume {run} --{cap.replace('_', '-')} N"
    rows = (
        (f"report {run} --open", "the run as a page"),
        (f"replay {run} --check", "take every decision again and compare"),
        (f"show {run}", "where each rule came from"),
        (raised, "go on, with a higher cap"),
    )
    width = max(len(verb) for verb, _ in rows)
    return [f"{verb:<{width}}   {what}" for verb, what in rows]


def spending(spend: Spend, cap: int | None) -> list[str]:
    """A bar a purpose against the ceiling (against the total where there is none)."""
    total = spend.total.tokens
    against = cap or total or 1
    full, empty = ("█", "░") if can_draw(sys.stdout) else ("#", ".")
    lines = []
    for line in sorted(spend.by_purpose, key=lambda line: -line.tokens):
        share = line.tokens / against
        lines.append(f"{line.purpose:<9} {bar(share, _WIDTH, full=full, empty=empty)} {line.tokens:>10,} {share:6.1%}")
    limit = f" of {cap:,}" if cap is not None else ""
    lines.append(f"{'total':<9} {bar(total / against, _WIDTH, full=full, empty=empty)} {total:>10,} tokens{limit}")
    return lines


def status(state: Status) -> str:
    rounds = f"{state.round}" + (f"/{state.rounds}" if state.rounds is not None else "")
    tokens = f"{state.tokens:,}" + (f"/{state.cap:,}" if state.cap is not None else "")
    doing = f"stopped: {state.stop_reason}" if state.stop_reason is not None else f"{state.open} calls open"
    reward = f"held-out {state.reward:.3f} (start {state.base:.3f})"
    return f"round {rounds}  {reward}  version {state.version}  tok={tokens}  {doing}"


def lines_of(lines: Iterable[Line]) -> list[str]:
    """Each line of the artifact with the commit that it is from."""
    out = []
    for line in lines:
        out.append(f"{one_line(line.key)}  {printable(line.text)}")
        commit, origin = line.commit, line.origin
        if commit is None or origin is None:
            out.append("          from the start")
            continue
        shared = f", with {len(commit.origins) - 1} others" if len(commit.origins) > 1 else ""
        out.append(
            f"          version {commit.version}{shared}: proposal {origin.subject} of worker {origin.worker} after"
            f" {one_line(origin.task)} ({origin.score:.2f}); gained {len(commit.gained)}, lost {len(commit.lost)}"
            f" (P {commit.p:.2f} > {commit.bar:.2f})"
        )
    return out
