"""`agentdescent`: init, plan, run, demo, resume, replay, status, show, report, compare, ab, whatif."""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from typing import Any

import msgspec

from agentdescent.engine.population import dev_head
from agentdescent.errors import AgentDescentError, CorruptLog, UsageError
from agentdescent.history.lineage import ancestry, lineage, sources
from agentdescent.own import replay
from agentdescent_adapters.command import ab, execution, pages, plan, template, text, whatif
from agentdescent_adapters.command.config import DEMO, RunConfig
from agentdescent_adapters.command.config_file import merge
from agentdescent_adapters.command.execution import DIFFERS, FAILED, MISUSED, Ended, StoppedAtOnce
from agentdescent_adapters.command.parser import CHANGEABLE, parser
from agentdescent_adapters.disk import Chained, read_events
from agentdescent_adapters.telemetry.files import Status, status_of
from agentdescent_adapters.telemetry.follow import follow, shown_on
from agentdescent_adapters.telemetry.live import printable

PAUSE = 0.25
"""Seconds between two looks at a log that is followed."""
DEMO_CONFIG = RunConfig(tasks=DEMO, max_tokens=250_000, workers=8, rounds=60, test_share=0.25)


def _print(value: object) -> None:
    print(msgspec.json.encode(value).decode())


def _ended(ended: Ended, *, json: bool) -> int:
    if json:
        _print(execution.summary(ended))
    else:
        print(text.report(ended))
    if ended.result.error:
        print(f"agentdescent: {printable(ended.result.error)}", file=sys.stderr)
    elif ended.code > 128:
        print(f"agentdescent: stopped; go on with: agentdescent resume {ended.run}", file=sys.stderr)
    return ended.code


def _config_flags(arguments: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    given = vars(arguments)
    return {name: given[name] for name in names if name in given}


def _replay(run: str, *, check: bool, json: bool) -> int:
    execution.look_for_modules(run)
    events = Chained(run)
    began = time.perf_counter()
    outcome = replay(events, check=check)
    seconds = time.perf_counter() - began
    if json:
        _print(
            {
                "identical": outcome.divergence is None and outcome.finished,
                "finished": outcome.finished,
                "checked": check,
                "events": outcome.events,
                "events_per_s": round(outcome.events / seconds) if seconds else None,
                "digest": events.digest,
                "divergence": outcome.divergence,
                "unasked": outcome.unasked or None,
            }
        )
    elif outcome.divergence is not None:
        print(f"event {outcome.divergence.number} differs")
        print(f"  recorded {outcome.divergence.recorded}")
        print(f"  expected {outcome.divergence.expected}")
    else:
        what = "every decision taken again, no difference" if check else "folded; digests match"
        ended = "" if outcome.finished else " (the run is unfinished)"
        print(f"{outcome.events:,} events: {what}{ended}")
        if outcome.unasked:
            print(f"but the allocator {outcome.unasked} cannot be asked again: its answers are taken from the log")
        print(f"digest {events.digest}")
    return 0 if outcome.divergence is None else DIFFERS


def _status_now(run: str) -> Status:
    return status_of(replay(read_events(run), check=False).state)


def _require_begun(run: str) -> None:
    if next(iter(read_events(run)), None) is None:
        raise _not_begun(run)


def _not_begun(run: str) -> UsageError:
    return UsageError(f"{run}: the run has not begun: `agentdescent resume {run}` starts it")


def _status(run: str, *, json: bool) -> int:
    _show_status(_status_now(run), json=json)
    return 0


def _follow(run: str, *, json: bool) -> int:
    state = follow(run, shown_on(sys.stdout, json=json), lambda: time.sleep(PAUSE))
    if state is None:
        raise _not_begun(run)
    if not json:
        _show_status(status_of(state), json=False)
    if state.stopped is None:
        print(f"agentdescent: nobody works on it; go on with: agentdescent resume {run}", file=sys.stderr)
    return 0


def _show_status(status: Status, *, json: bool) -> None:
    if json:
        _print(status)
    else:
        print(text.status(status), flush=True)


def _show(run: str, *, json: bool) -> int:
    state, commits = lineage(read_events(run))
    head = dev_head(state).version
    entries = head.entries
    if json:
        _print({"version": head.number, "entries": entries, "commits": commits})
        return 0
    lines = text.lines_of(sources(entries, ancestry(commits, head.number)))
    print("\n".join(lines) if lines else "the artifact is empty")
    return 0


def _config(arguments: argparse.Namespace) -> RunConfig:
    return merge(arguments.config, _config_flags(arguments, RunConfig.__struct_fields__))


def _run_new(config: RunConfig, arguments: argparse.Namespace) -> int:
    ended = execution.start(config, config.out, quiet=arguments.quiet, verbose=arguments.verbose)
    return _ended(ended, json=arguments.json)


def _plan(config: RunConfig, *, json: bool) -> int:
    made, warnings = plan.make(config)
    if json:
        _print({**plan.summary(made), "warnings": warnings})
    else:
        print(plan.report(made, warnings))
    return 0


def _init(file: str, *, force: bool, json: bool) -> int:
    template.create(file, force=force)
    if json:
        _print({"file": file})
    else:
        print(f"{file} is written; next:\n  agentdescent plan {file}\n  agentdescent run {file}")
    return 0


def _page(written: pages.Written, arguments: argparse.Namespace) -> int:
    if arguments.json:
        _print(written)
    else:
        print(f"{written.path}: {written.bytes:,} bytes in {written.seconds:.2f} s")
    if arguments.open:
        pages.show(written.path)
    return 0


def _runs_read(arguments: argparse.Namespace) -> list[str]:
    """The runs that a command reads, and nothing else does."""
    match arguments.command:
        case "replay" | "status" | "show" | "report":
            return [arguments.run]
        case "compare" | "whatif":
            return list(arguments.runs)
        case _:
            return []


def _dispatch(arguments: argparse.Namespace) -> int:
    if arguments.command == "status" and arguments.follow:
        return _follow(arguments.run, json=arguments.json)
    for run in _runs_read(arguments):
        _require_begun(run)
    match arguments.command:
        case "demo":
            flags = _config_flags(arguments, RunConfig.__struct_fields__)
            return _run_new(msgspec.structs.replace(DEMO_CONFIG, **flags), arguments)
        case "run":
            return _run_new(_config(arguments), arguments)
        case "plan":
            return _plan(_config(arguments), json=arguments.json)
        case "init":
            return _init(arguments.file, force=arguments.force, json=arguments.json)
        case "resume":
            changes = _config_flags(arguments, CHANGEABLE)
            ended = execution.resume(arguments.run, changes, quiet=arguments.quiet, verbose=arguments.verbose)
            return _ended(ended, json=arguments.json)
        case "replay":
            return _replay(arguments.run, check=arguments.check, json=arguments.json)
        case "status":
            return _status(arguments.run, json=arguments.json)
        case "report":
            return _page(pages.write_report(arguments.run, arguments.out), arguments)
        case "compare":
            return _page(pages.write_comparison(arguments.runs, arguments.out), arguments)
        case "ab":
            return ab.run(arguments)
        case "whatif":
            return whatif.run(arguments)
        case _:
            return _show(arguments.run, json=arguments.json)


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code. A user's mistake is one line on stderr, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # whatever the locale says: rules and labels are of any language
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        return _run(argv)
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # nobody reads it any more; the interpreter's own flush would change the exit code
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(argv: list[str] | None) -> int:
    try:
        return _dispatch(parser().parse_args(argv))
    except StoppedAtOnce as stopped:
        print(f"agentdescent: {stopped}", file=sys.stderr)
        return stopped.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return FAILED
    except UsageError as error:
        print(f"agentdescent: {printable(str(error))}", file=sys.stderr)
        return MISUSED
    except CorruptLog as error:
        print(f"agentdescent: {printable(str(error))}", file=sys.stderr)
        return DIFFERS
    except (AgentDescentError, OSError) as error:
        print(f"agentdescent: {printable(str(error))}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
