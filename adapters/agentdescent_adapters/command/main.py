"""`agentdescent`: init, plan, run, demo, resume, replay, status, show, report, compare, ab, whatif."""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from agentdescent.engine.event import Event
from agentdescent.engine.population import dev_head
from agentdescent.errors import AgentDescentError, CorruptLog, UsageError
from agentdescent.history.lineage import ancestry, lineage, sources
from agentdescent.history.log import GENESIS
from agentdescent.own import replay
from agentdescent_adapters.command import ab, execution, pages, plan, template, text, whatif
from agentdescent_adapters.command.config import DEMO, RunConfig
from agentdescent_adapters.command.config_file import merge
from agentdescent_adapters.command.execution import DIFFERS, FAILED, MISUSED, Ended, StoppedAtOnce
from agentdescent_adapters.command.parser import CHANGEABLE, parser
from agentdescent_adapters.disk import read_chained, read_events
from agentdescent_adapters.telemetry.files import Status, read_status, status_of

DEMO_CONFIG = RunConfig(tasks=DEMO, max_tokens=250_000, workers=8, rounds=60, test_share=0.25)


def _print(value: object) -> None:
    print(msgspec.json.encode(value).decode())


def _ended(ended: Ended, *, json: bool) -> int:
    if json:
        _print(execution.summary(ended))
    else:
        print(text.report(ended))
    if ended.result.error:
        print(f"agentdescent: {ended.result.error}", file=sys.stderr)
    elif ended.code > 128:
        print(f"agentdescent: stopped; go on with: agentdescent resume {ended.run}", file=sys.stderr)
    return ended.code


def _config_flags(arguments: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    given = vars(arguments)
    return {name: given[name] for name in names if name in given}


def _replay(run: str, *, check: bool, json: bool) -> int:
    digest = GENESIS

    def events() -> Iterator[Event]:
        nonlocal digest
        for event, after in read_chained(run):
            digest = after
            yield event

    execution.look_for_modules(run)
    began = time.perf_counter()
    outcome = replay(events(), check=check)
    seconds = time.perf_counter() - began
    if json:
        _print(
            {
                "identical": outcome.divergence is None and outcome.finished,
                "finished": outcome.finished,
                "checked": check,
                "events": outcome.events,
                "events_per_s": round(outcome.events / seconds) if seconds else None,
                "digest": digest,
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
        print(f"digest {digest}")
    return 0 if outcome.divergence is None else DIFFERS


def _status_now(run: str) -> Status:
    return status_of(replay(read_events(run), check=False).state)


def _require_begun(run: str) -> None:
    if next(iter(read_events(run)), None) is None:
        raise UsageError(f"{run}: the run has not begun: `agentdescent resume {run}` starts it")


def _status(run: str, *, follow: bool, json: bool) -> int:
    last = _status_now(run)
    while follow and last.stop_reason is None:
        now = read_status(run)
        if now is not None and msgspec.structs.replace(now, pid=0) != last:
            last = msgspec.structs.replace(now, pid=0)
            _show_status(last, json=json)
        if now is None or now.stop_reason is not None or not _alive(now.pid):
            break
        time.sleep(0.5)
    _show_status(_status_now(run), json=json)
    return 0


def _show_status(status: Status, *, json: bool) -> None:
    if json:
        _print(status)
    else:
        print(text.status(status), flush=True)


def _alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


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


def _dispatch(arguments: argparse.Namespace) -> int:
    if arguments.command in ("replay", "status", "show", "report"):
        _require_begun(arguments.run)
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
            return _status(arguments.run, follow=arguments.follow, json=arguments.json)
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
        print(f"agentdescent: {error}", file=sys.stderr)
        return MISUSED
    except CorruptLog as error:
        print(f"agentdescent: {error}", file=sys.stderr)
        return DIFFERS
    except (AgentDescentError, OSError) as error:
        print(f"agentdescent: {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
