"""A config as the TOML text that says it: what is not default, section by section."""

from __future__ import annotations

import json
import math

from agentdescent_adapters.command.config import RunConfig
from agentdescent_adapters.command.sections import SECTIONS


def write(config: RunConfig) -> str:
    """`config_file.parse` reads it back as it was. Raises ValueError for text that is no Unicode."""
    default, parts = RunConfig(), []
    for section, keys in SECTIONS.items():
        given = {key: getattr(config, field) for key, field in keys.items()}
        changed = [
            f"{key} = {toml(given[key])}" for key, field in keys.items() if given[key] != getattr(default, field)
        ]
        if changed:
            parts.append("\n".join((f"[{section}]", *changed, "")))
    return "\n".join(parts)


def toml(value: object) -> str:
    """One value. Numbers, texts and truth values are all there are."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else str(value)
        case str():
            value.encode()
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case _:
            raise ValueError(f"{value!r} has no place in a config")
