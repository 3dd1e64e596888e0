"""The config that `init` writes: it runs as it is, and every line says what it is for."""

from __future__ import annotations

from pathlib import Path

from agentdescent.errors import UsageError
from agentdescent_adapters.command.config_text import toml
from agentdescent_adapters.command.help import HELP
from agentdescent_adapters.command.sections import SECTIONS

HEAD = """\
# A run of agentdescent. What it would cost: agentdescent plan {file}
#                        Start it:           agentdescent run {file}
# Flags of the same names go over what is said here. Paths are relative to this file.
# A line that begins with "#: " is an example: take these three characters away, change it, and take out the line above
# that says the same key.
"""
ON: dict[str, dict[str, object]] = {
    "tasks": {"file": "demo", "test_share": 0.25},
    "strategy": {"kind": "append-rules"},
    "agent": {"kind": "rules"},
    "scorer": {"kind": "exact"},
    "budget": {"max_tokens": 250_000, "rounds": 60},
    "policies": {"workers": 8, "seed": 0},
    "output": {"texts": "keep"},
}
"""What stands in a new config."""
OFF: dict[str, tuple[tuple[str, dict[str, object]], ...]] = {
    "tasks": (
        ("Tasks of your own:", {"file": "messages.csv", "text": "text", "label": "label", "id": "id", "labels": 10}),
    ),
    "artifact": (("Start from a text of yours, not from nothing:", {"file": "prompt.txt"}),),
    "strategy": (("One text, replaced whole, not a list of rules:", {"kind": "single-slot"}),),
    "agent": (
        (
            "A server that speaks the format of OpenAI: another machine, or llama.cpp on this one.",
            {
                "kind": "openai",
                "model": "NAME",
                "base_url": "http://127.0.0.1:8080/v1",
                "api_key_env": "OPENAI_API_KEY",
            },
        ),
        (
            "Anthropic:",
            {"kind": "anthropic", "model": "NAME", "api_key_env": "ANTHROPIC_API_KEY"},
        ),
        (
            "Of either:",
            {
                "temperature": 0.0,
                "seed": 0,
                "choices": True,
                "solve_ceiling": 64,
                "propose_ceiling": 1024,
                "proposer": "model",
                "cache": "answers.sqlite",
                "solve_template": "solve.txt",
                "propose_template": "propose.txt",
            },
        ),
        ("An agent of your own:", {"kind": "module:object"}),
    ),
    "scorer": (("Of your own:", {"kind": "module:function"}),),
    "budget": (("More limits, in any combination:", {"max_cost": 1.5, "max_calls": 1000, "max_seconds": 600.0}),),
    "prices": (("Of your model, where they are not known here:", {"prompt": 1.0, "cached": 0.1, "completion": 5.0}),),
    "policies": (
        (
            "What makes a commit cheap, all together; start with it, but not where tasks are few:",
            {"thrifty": True},
        ),
    ),
    "output": (("Where the run goes:", {"run": "runs/mine"}),),
}
"""What may: groups of examples, each with what it is for."""


def text(file: str) -> str:
    parts = [HEAD.format(file=file)]
    for section, keys in SECTIONS.items():
        lines = [f"[{section}]"]
        said: set[str] = set()
        for title, mark, group in _groups(section):
            lines += [f"# {title}"] if title else []
            lines += [_line(key, value, mark, "" if key in said else HELP[keys[key]]) for key, value in group.items()]
            said.update(group)
        parts.append("\n".join((*lines, "")))
    return "\n".join(parts)


def _groups(section: str) -> list[tuple[str, str, dict[str, object]]]:
    """Title, mark and keys: what stands in a section, and what may."""
    return [("", "", ON.get(section, {})), *((title, "#: ", group) for title, group in OFF.get(section, ()))]


def _line(key: str, value: object, mark: str, why: str) -> str:
    said = f"{mark}{key} = {toml(value)}"
    return f"{said:<40} # {why}" if why else said


def create(file: str, *, force: bool) -> None:
    """Write it. Raises UsageError when there is such a file, unless `force`, or it cannot be written."""
    path = Path(file)
    if path.suffix != ".toml":
        raise UsageError(f"{file}: a config is a TOML file: give it a name that ends in .toml")
    try:
        with path.open("w" if force else "x", encoding="utf-8") as out:
            out.write(text(path.name))
    except FileExistsError as error:
        raise UsageError(
            f"{file}: there is such a file already: name another, or say --force to overwrite it"
        ) from error
    except OSError as error:
        raise UsageError(f"{file}: cannot be written ({error.strerror}): check the path") from error
