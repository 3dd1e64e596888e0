"""The commands and their flags."""

from __future__ import annotations

import argparse
import types
import typing

from agentdescent.errors import UsageError
from agentdescent_adapters.command import ab, whatif
from agentdescent_adapters.command.config import RunConfig
from agentdescent_adapters.command.execution import CAPS
from agentdescent_adapters.command.help import HELP

CHANGEABLE = (*CAPS, "executor", "base_url", "api_key_env")
"""What `resume` may be given."""
DESCRIPTION = "Evolve a prompt, rule list or skill on your tasks, under a token ceiling that holds."


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> typing.NoReturn:
        raise UsageError(f"{message}: see {self.prog} --help")


def _number_or_word(kind: type[int] | type[float]) -> typing.Callable[[str], int | float | str]:
    """Argparse shows what is neither as it is; whether it is one of the words is looked at with the config."""

    def read(value: str) -> int | float | str:
        try:
            return kind(value)
        except ValueError:
            return value

    return read


def _flags(parser: argparse.ArgumentParser, names: tuple[str, ...]) -> None:
    hints = typing.get_type_hints(RunConfig)
    for name in names:
        kind, flag = hints[name], "--" + name.replace("_", "-")
        options = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
        options = tuple(option for option in options if option is not type(None))
        plain = options[0]
        if len(options) > 1:  # a number or a word
            words = "|".join(typing.get_args(options[1]))
            parser.add_argument(
                flag,
                type=_number_or_word(plain),
                default=argparse.SUPPRESS,
                help=HELP[name],
                metavar=f"{plain.__name__.upper()}|{words}",
            )
        elif plain is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=HELP[name])
        elif typing.get_origin(plain) is typing.Literal:
            choices = typing.get_args(plain)
            parser.add_argument(flag, choices=choices, default=argparse.SUPPRESS, help=HELP[name])
        else:
            parser.add_argument(
                flag, type=plain, default=argparse.SUPPRESS, help=HELP[name], metavar=plain.__name__.upper()
            )


def parser() -> argparse.ArgumentParser:
    parser = Parser(prog="agentdescent", description=DESCRIPTION, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)

    def add(name: str, help: str, *, run: bool = False) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        if run:
            command.add_argument("run", metavar="RUN", help="run directory")
        command.add_argument("--json", action="store_true", help="print one JSON object as the last line")
        return command

    noisy = []
    demo = add("demo", "evolve rules for 242 customer messages: no key, no network, a few seconds")
    _flags(demo, ("out", "max_tokens", "rounds", "workers", "seed", "curtail"))
    noisy.append(demo)
    new = add("run", "evolve an artifact for your tasks")
    new.add_argument("config", nargs="?", metavar="CONFIG", help="TOML file; flags go over it")
    _flags(new, RunConfig.__struct_fields__)
    noisy.append(new)
    again = add("resume", "go on with a run that was killed, stopped or ended", run=True)
    _flags(again, CHANGEABLE)
    noisy.append(again)
    for command in noisy:
        command.add_argument("--quiet", action="store_true", help="no progress")
        command.add_argument("--verbose", action="store_true", help="events as JSON lines on stderr")
    planned = add("plan", "what a run would cost, before anything is spent")
    planned.add_argument("config", nargs="?", metavar="CONFIG", help="as for run")
    _flags(planned, RunConfig.__struct_fields__)
    begun = add("init", "write a config with comments, which runs as it is")
    begun.add_argument("file", metavar="FILE", help="TOML file to write")
    begun.add_argument("--force", action="store_true", help="overwrite it")
    checked = add("replay", "fold a recorded run; with --check, take every decision again", run=True)
    checked.add_argument("--check", action="store_true", help="take every decision again and compare")
    watched = add("status", "what a run has come to", run=True)
    watched.add_argument("--follow", action="store_true", help="go on until the run stops, or nobody works on it")
    add("show", "the rules, and which proposal each came from", run=True)
    told = add("report", "a page about a run, from its log alone", run=True)
    told.add_argument("--out", metavar="FILE", help="HTML file to write (default: report.html in the run)")
    told.add_argument("--open", action="store_true", help="show it in the browser")
    side = add("compare", "a page with the curves of several runs over one another")
    side.add_argument("runs", nargs="+", metavar="RUN", help="run directories")
    side.add_argument("--out", metavar="FILE", help="HTML file to write (default: comparison.html)")
    side.add_argument("--open", action="store_true", help="show it in the browser")
    ab.add_arguments(add("ab", ab.HELP))
    whatif.add_arguments(add("whatif", whatif.HELP))
    return parser
